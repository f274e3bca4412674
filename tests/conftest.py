"""What all tests share: test folders are on the path, so that their helpers can be imported by name; and tests that
need the real control plane are skipped, or fail, where it is not built.
"""

import pathlib
import sys

import pytest

for folder in ("unit", "contract", "conformance", "e2e", "controlplane"):
    sys.path.append(str(pathlib.Path(__file__).parent / folder))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests that start processes: those of modules that can, and all that is end to end."""
    for item in items:
        if item.path.parent.name in ("e2e", "chaos", "controlplane") or "subprocess" in vars(item.module):  # type: ignore[attr-defined]
            item.add_marker("processes")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Asks here and not in a fixture alone: pytest tells skips by place, so all of these are one line."""
    if item.get_closest_marker("controlplane"):
        import controlplane_fixture

        controlplane_fixture.require_built()
