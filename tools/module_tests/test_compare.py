"""Which tests a module's docstring should name."""

import pathlib
import subprocess
import sys

import pytest

from tools.module_tests import compare

SOURCE = '"""What it does.\n\nTests: tests/unit/cache/test_old.py.\n"""\n\n\ndef double(x):\n    return 2 * x\n'


def a_module(**run_by: range) -> compare.Module:
    """A module of the cache; these test files notice some of its mutants."""
    found = {f"tests/unit/cache/test_{name}.py": frozenset(each) for name, each in run_by.items()}
    return compare.Module(compare.ROOT / "internal/trireme/cache/delta_log.py", found)


def test_tests_that_notice_enough_are_well_named() -> None:
    module = a_module(most=range(9), some=range(5), other=range(9, 10))
    paths = [f"tests/unit/cache/test_{name}.py" for name in ("most", "some")]
    assert compare.are_well_named(module, paths[:1])
    assert not compare.are_well_named(module, paths[1:])
    assert not compare.are_well_named(module, [*paths, "tests/unit/cache/test_of_something_else.py"])


def test_a_test_that_runs_less_of_other_modules_is_better() -> None:
    module = a_module(broad=range(10), narrow=range(10))
    breadth = {"tests/unit/cache/test_broad.py": 5000, "tests/unit/cache/test_narrow.py": 20}
    module.weight = lambda test: 1.0  # type: ignore[method-assign]
    assert compare.best(module, breadth)[-1] == "tests/unit/cache/test_narrow.py"


def test_the_paragraph_is_replaced(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(SOURCE)
    compare.write(path, ["tests/unit/cache/test_a.py", "tests/unit/cache/test_b.py"])
    assert "\n\nTests: tests/unit/cache/test_a.py, tests/unit/cache/test_b.py.\n" in path.read_text()
    assert "test_old" not in path.read_text()
    compare.write(path, [])
    assert path.read_text().startswith('"""What it does."""\n')


def test_a_test_that_notices_nothing_is_dropped() -> None:
    module = a_module(good=range(4), idle=())
    module.weight = lambda test: 1.0  # type: ignore[method-assign]
    breadth = dict.fromkeys(module.noticed_by, 10)
    assert not compare.are_well_named(module, list(module.noticed_by))
    assert compare.best(module, breadth) == ["tests/unit/cache/test_good.py"]


@pytest.mark.slow
def test_mutants_are_tried_with_the_named_tests() -> None:
    """In a process of its own, which runs no test as pytest would."""
    path = "internal/trireme/queueing/event_audience.py"
    command = [sys.executable, "-m", "tools.module_tests.compare", path, "--mutants", "3", "--others", "0"]
    out = subprocess.run(command, cwd=compare.ROOT, capture_output=True, text=True, check=False).stdout
    assert "trireme/queueing/event_audience.py: 100% of 3" in out
    assert "0 of 1 modules" in out
