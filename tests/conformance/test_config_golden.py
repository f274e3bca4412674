"""Configuration files and command lines are answered as kube-scheduler answers them: in this process, and as a program.

In this process every recorded case runs; a process of its own costs half a second, so only a case of each way to end
goes through one, to see that streams and exit code are those of the cases.
"""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.config import agreement

DATA = Path(__file__).parent / "data"
CONFIGURATIONS, FLAGS = DATA / "config.jsonl.gz", DATA / "flags.jsonl.gz"
# For each field a value that it must not have, pairs that contradict each other, and files that cannot be used.
REFUSALS = DATA / "config_refusals.jsonl.gz"
# What random files and command lines led to.
FOUND = DATA / "found_config.jsonl"
FRONTEND = Path(__file__).parents[2] / "cmd" / "frontend"


@functools.cache
def _cases() -> dict[str, list[agreement.Case]]:
    by_kind: dict[str, list[agreement.Case]] = {}
    for path in (CONFIGURATIONS, FLAGS, REFUSALS, FOUND):
        for case in agreement.read_cases(path):
            by_kind.setdefault(f"{path.name.partition('.')[0]}:{agreement.kind_of(case)}", []).append(case)
    return by_kind


@pytest.mark.parametrize("kind", _cases())
def test_every_case_of_the_kind_is_answered_as_by_kube_scheduler(kind: str) -> None:
    cases = _cases()[kind]
    found = {case["name"]: agreement.differences(case, agreement.our_answer(case)) for case in cases}
    assert {name: difference for name, difference in found.items() if difference} == {}


def test_all_recorded_cases_are_there() -> None:
    """The golden file is complete: the tests above do not pass on an empty one."""
    cases = _cases()
    assert sum(len(cases[kind]) for kind in cases) > 635
    assert len(cases) > 35
    assert all(next(iter(agreement.compared_fields(case)), None) for kind in cases for case in cases[kind])


def test_a_difference_is_found() -> None:
    case = next(case for case in _cases()["config:valid"] if case["exit"] == 0)
    for name in ("exit", "errors", "written", "plugins"):
        assert list(agreement.differences({**case, name: "other"}, case)) == [name]


def _one_of_each_end() -> list[agreement.Case]:
    """The first case of every exit code, phase and manner of reporting."""
    ends: dict[object, agreement.Case] = {}
    for cases in _cases().values():
        for case in cases:
            if "exit" in case and "{PORT}" not in str(case["flags"]) and not case.get("signalled"):
                ends.setdefault((case["exit"], case.get("phase"), case["reported"], case.get("stdout")), case)
    return list(ends.values())


@pytest.mark.parametrize("case", _one_of_each_end(), ids=lambda case: str(case["name"]))
def test_the_program_ends_like_the_case(tmp_path: Path, case: agreement.Case) -> None:
    places = agreement.Places(str(tmp_path), 0)
    places.write_files(case)
    program = subprocess.run(
        [sys.executable, str(FRONTEND), *map(places.fill, case["flags"])],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert program.returncode == case["exit"]
    lines = places.restore(program.stderr.splitlines())
    errors = "\n".join(case["errors"])
    if case["reported"] == "usage":
        assert lines[-1] == f"Error: {errors}"
    elif case["reported"] == "plain":
        assert lines == case["errors"]
    elif case["reported"] == "log":
        assert any('"command failed" err=' in line and line.startswith("E") for line in lines)
    assert ("Usage:" in program.stdout) is (case.get("stdout") == "{HELP}")
