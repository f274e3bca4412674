"""What all tests share: tests that start processes are marked, and those that need the real control plane are skipped,
or fail, where it is not built.
"""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests that start processes: those of modules that can, and all that is end to end."""
    for item in items:
        module = getattr(item, "module", None)  # an item need not come from a module
        if item.path.parent.name in ("e2e", "chaos", "controlplane") or hasattr(module, "subprocess"):
            item.add_marker("processes")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Asks here and not in a fixture alone: pytest tells skips by place, so all of these are one line."""
    if item.get_closest_marker("controlplane"):
        import controlplane_fixture

        controlplane_fixture.require_built()
