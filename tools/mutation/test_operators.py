"""Each kind of change is made, and a mutant runs in place of the code that the process has."""

import ast
import pathlib
import signal
import types
from typing import Any

import pytest

from tools.mutation import live_code, mutants, mutation_run, related_tests, tried_mutants

CASES = {
    "undo": ("def f(x):\n    x.discard(1)\n    return x", "x.discard(1)", "pass"),
    "wake-up": ("async def f(x):\n    await x.notify()\n    return x", "await x.notify()", "pass"),
    "field": ("def f(x):\n    x.cached = None\n    return x", "x.cached = None", "pass"),
    "early return": ("def f(x):\n    if x:\n        x()\n        return\n    x.y()", "return", "pass"),
    "boundary": ("def f(x):\n    return x > 1", "x > 1", "x >= 1"),
    "opposite": ("def f(x):\n    return x in y", "x in y", "x not in y"),
    "forgotten operand": ("def f(x, y):\n    return x and y", "x and y", "y"),
    "branch never taken": ("def f(x):\n    if x:\n        y()", "if x:", "if x and False:"),
    "check forgotten": ("def f(x):\n    if x:\n        y()", "if x:", "if x or True:"),
    "else": ("def f(x):\n    if x:\n        y()\n    else:\n        z()", "else: z()", "else: pass"),
    "finally": ("def f(x):\n    try:\n        y()\n    finally:\n        z()", "finally: z()", "finally: pass"),
    "handler": (
        "def f(x):\n    try:\n        y()\n    except A:\n        z()\n    except B:\n        z()",
        "try: except A, B",
        "try: except B",
    ),
    "minimum": ("def f(x):\n    return min(x)", "min", "max"),
    "loop": ("def f(x):\n    for y in x:\n        y()", "for y in x:", "for y in x: (once)"),
    "clock": (
        "def f(x):\n    now = self._clock()\n    y.call()\n    return now",
        "now = self._clock()",
        "now = self._clock() (after the next statement)",
    ),
    "negation": ("def f(x):\n    return not x", "not x", "bool(x)"),
    "row of a table": ("def f(x):\n    return [x, 1]", "[x, 1]", "[1]"),
    "flag": ("def f(x):\n    return g(x, force=True)", "True", "False"),
}


def _file(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, text: str) -> mutants.MutatedFile:
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    (tmp_path / "code.py").write_text(text)
    return mutants.MutatedFile("code.py")


@pytest.mark.parametrize(("text", "before", "after"), CASES.values(), ids=CASES)
def test_a_change_is_made(
    text: str, before: str, after: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = _file(tmp_path, monkeypatch, text)
    original = compile(file.tree, "code", "exec")
    made = [each for each in file.mutants if (each.change.before, each.change.after) == (before, after)]
    assert len(made) == 1
    made[0].change.apply()
    assert compile(file.tree, "code", "exec") != original


@pytest.mark.parametrize("statement", ['log.info("%s", min(x))', "x = zip(y, z, strict=True)"], ids=["log", "strict"])
def test_what_no_test_can_notice_is_left_alone(
    statement: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _file(tmp_path, monkeypatch, f'def f(x):\n    """Say it."""\n    {statement}\n').mutants == []


def test_marks_say_which_blocks_run(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = _file(tmp_path, monkeypatch, "def f(x):\n    if x:\n        return 1\n    else:\n        return 2\n")
    file.mark_blocks()
    reached: list[int] = []
    module = {mutants.REACHED: reached.append}
    exec(compile(file.tree, "code", "exec"), module)
    assert module["f"](False) == 2  # type: ignore[operator]
    assert reached == [0, 2]


def test_functions_keep_their_identity() -> None:
    module = types.ModuleType("module")
    source = "class A:\n    def f(self):\n        return 1\n"
    exec(compile(source, "/mutated.py", "exec"), module.__dict__)
    bound = module.A().f
    code = compile(ast.parse(source.replace("1", "2")), "/mutated.py", "exec")
    live_code.LiveCode({"/mutated.py"}).replace(code)
    assert bound() == 2


def test_a_module_has_the_tests_of_its_folder_and_those_that_it_names() -> None:
    found = related_tests.of({"internal/trireme/scheduling/pacing.py", "internal/trireme/plugins/node_name/hints.py"})
    expected = {"tests/unit/scheduling/test_pacing.py", "tests/unit/plugins/test_hints_table.py"}
    assert expected <= set(found)


def test_every_module_of_the_core_has_mutants_of_its_own() -> None:
    paths = mutation_run.files_of(["internal/trireme/queueing/backoff.py", "internal/trireme/bind"])
    files = [mutants.MutatedFile(path) for path in paths]
    keys = [each.key for file in files for each in file.mutants]
    assert len(keys) == len(set(keys)) > 500


def test_a_score_of_a_sample_has_an_interval() -> None:
    low, high = mutation_run.interval(90, 100)
    assert (round(low, 3), round(high, 3)) == (0.826, 0.945)


@pytest.mark.parametrize(("waited", "called"), [(0.0, True), (5.0, False)])
def test_a_test_that_waits_for_a_processor_does_not_hang(
    waited: float, called: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine each mutant would count as found."""
    now, hung, alarms = [100.0, 0.0], [], []
    monkeypatch.setattr(tried_mutants.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(tried_mutants, "_seconds_without_processor", lambda: now[1])
    monkeypatch.setattr(signal, "alarm", alarms.append)
    monkeypatch.setattr(signal, "signal", lambda number, handler: alarms.append(handler))
    tried_mutants.call_after(10.0, lambda: hung.append(True))
    handler: Any = alarms[0]
    now[:] = [110.0, waited]
    handler(signal.SIGALRM, None)
    assert (hung, alarms[1:]) == (([True], [10]) if called else ([], [10, 5]))
