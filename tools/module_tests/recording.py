"""A plugin of pytest that records which lines of `internal` each test file runs, in its own and in started processes.

    TRIREME_RECORDED=build/module-tests .venv/bin/pytest -p tools.module_tests.recording tests/unit

Each process writes a data file of coverage.py into the folder, with the test file's path as the context of each line.
"""

import os
import pathlib

import coverage
import pytest

_ROOT = pathlib.Path(__file__).parents[2]
_TEST_FILE = "TRIREME_TEST_FILE"
_SETTINGS = """\
[run]
source = {root}/internal
omit = */v1/*
data_file = {folder}/lines
parallel = true
context = ${{{variable}}}
concurrency = thread, greenlet
sigterm = true
patch = _exit, fork
disable_warnings = no-data-collected, module-not-measured
"""

_folder = pathlib.Path(os.environ["TRIREME_RECORDED"]).resolve()
_settings = _folder / "settings.ini"
_settings.parent.mkdir(parents=True, exist_ok=True)
_settings.write_text(_SETTINGS.format(root=_ROOT, folder=_folder, variable=_TEST_FILE))
os.environ.pop(_TEST_FILE, None)
_recorder = coverage.Coverage(config_file=str(_settings))
_recorder.start()
# Of started processes: the .pth file of coverage.py reads it, and they have the test file as their static context.
os.environ["COVERAGE_PROCESS_START"] = str(_settings)


def pytest_runtest_logstart(nodeid: str) -> None:
    """Says whose lines they are from now on."""
    file = nodeid.partition("::")[0]
    if os.environ.get(_TEST_FILE) != file:
        os.environ[_TEST_FILE] = file
        _recorder.switch_context(file)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Writes what was recorded."""
    _recorder.stop()
    _recorder.save()
