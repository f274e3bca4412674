"""Marks the tests that start processes, and skips or fails those that need a real control plane that is not built.

Files with a test that may take long go first, or one process would still run them when the others are done.

Property tests have no deadline: how long an example takes says how busy the machine is.
"""

import gc
import logging
import pathlib
import sys
from collections.abc import Iterator

import hypothesis
import pytest

pytest_plugins = ("tests.helpers.timeouts", "tests.helpers.world_fixture")

hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any machine")


def pytest_configure() -> None:
    """Pauses the garbage collector during collection, which makes a million objects and no garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Resumes the garbage collector. What collection has made is never scanned again: a tenth of all CPU."""
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the files whose tests have the longest timeouts first, and marks the tests that start processes.

    A test may start processes if its module imports subprocess, or if it is end to end.
    """
    longest: dict[pathlib.Path, float] = {}
    for item in items:
        marker = item.get_closest_marker("timeout")
        longest[item.path] = max(longest.get(item.path, 0), marker.args[0] if marker else 0)
    items.sort(key=lambda item: -longest[item.path])
    for item in items:
        module = getattr(item, "module", None)  # an item need not come from a module
        if item.path.parent.name in ("e2e", "chaos", "controlplane") or hasattr(module, "subprocess"):
            item.add_marker("processes")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Asks here and not in a fixture alone: pytest tells skips by place, so all of these are one line."""
    if item.get_closest_marker("controlplane"):
        from tools.controlplane import controlplane_fixture, launcher

        controlplane_fixture.require_built()
        for marker in item.iter_markers("needs_gate"):
            launcher.require_gates_on(*marker.args)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Skips tests that need an API which the chosen version of Kubernetes lacks; the reason names it."""
    launcher = sys.modules.get("tools.controlplane.launcher")
    if launcher is not None and call.excinfo is not None and call.excinfo.errisinstance(launcher.NotServedError):
        reason = str(call.excinfo.value)
        call.excinfo = pytest.CallInfo.from_call(lambda: pytest.skip(reason), call.when).excinfo


@pytest.fixture(autouse=True)
def _own_logging() -> Iterator[None]:
    """A process that a test runs in its own sets up logging; later tests would find its lines in their output."""
    root, package = logging.getLogger(), logging.getLogger("trireme")
    before, levels = list(root.handlers), (root.level, package.level)
    yield
    for handler in list(root.handlers):
        # Those of pytest come and go with each phase of a test.
        if handler not in before and type(handler).__module__ != "_pytest.logging":
            root.removeHandler(handler)
    root.setLevel(levels[0])
    package.setLevel(levels[1])
    klog = sys.modules.get("trireme_kube.componentbase.logs.klog")
    if klog is not None:
        klog._settings.json = False  # later tests would look for text


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Names the seeds of simulations, one of which is new in each run."""
    reports = [each for found in terminalreporter.stats.values() for each in found if hasattr(each, "user_properties")]
    seeds = {value for each in reports for name, value in each.user_properties if name == "seed of a simulation"}
    if seeds:
        terminalreporter.write_line(f"simulated from the seeds {', '.join(map(str, sorted(seeds)))}")
