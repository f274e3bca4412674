"""Leaving out what a failure does not need."""

import os
import pathlib
import re
import subprocess
import sys
import types
from typing import Any

import pytest

from tests.simulation import failure_shrinking, regression_run
from tests.simulation.simulation_plan import Options, PlannedEvent


@pytest.mark.parametrize("needed", [{3}, {0, 99}, {17, 18, 64}, set(range(40, 60))], ids=len)
def test_only_what_is_needed_stays(needed: set[int]) -> None:
    """If this fails, the list of faults after a violation is longer than it need be."""

    def attempt(items: list[int]) -> list[int] | None:
        return items if needed <= set(items) else None

    assert set(failure_shrinking.shrink(range(100), [], attempt, lambda: True)) == needed


def test_what_comes_after_the_failure_does_not_matter() -> None:
    """If this fails, faults are tried again that came after the violation."""
    tried = []

    def attempt(items: list[int]) -> list[int] | None:
        tried.append(items)
        return items[: items.index(5) + 1] if 5 in items else None

    assert failure_shrinking.shrink(range(100), [], attempt, lambda: True) == [5]
    first = next(number for number, items in enumerate(tried) if 5 in items)
    assert all(max(items) <= 5 for items in tried[first + 1 :])


def test_groups_are_left_out_first() -> None:
    """If this fails, whole storms are left out event by event."""
    tried = []

    def attempt(items: list[int]) -> list[int] | None:
        tried.append(items)
        return items if 90 in items else None

    failure_shrinking.shrink(range(100), [range(50), range(50, 100)], attempt, lambda: True)
    assert tried[0] == list(range(50, 100))


def test_it_ends_when_time_is_over() -> None:
    """If this fails, shrinking a failure that takes long to repeat has no end."""
    left = iter([True] * 5)
    tried = []

    def attempt(items: list[int]) -> list[int] | None:
        tried.append(items)
        return items if 5 in items else None

    assert 5 in failure_shrinking.shrink(range(1000), [], attempt, lambda: next(left, False))
    assert len(tried) == 5


def test_violations_of_one_invariant_are_recognised() -> None:
    """If this fails, a list of faults is shrunk to one that shows another defect, or not at all."""
    one, other = (f"pod pod-{number} overcommits node-{number}: (1, {number}) of (3, 4)" for number in (1, 23))
    assert failure_shrinking.invariant(one) == failure_shrinking.invariant(other)
    assert failure_shrinking.invariant(one) != failure_shrinking.invariant("frontend-0 ended with an exception")


class _Runs:
    """Runs of a system that fails once it is killed after it was cut off, and fails in another way without load."""

    def __init__(self) -> None:
        self.count = 0

    def run(self, options: Options) -> Any:
        self.count += 1
        done: list[PlannedEvent] = []
        violations = ["no load"] if not any(event.what == "load" for event in options.events or ()) else []
        for event in options.events or ():
            done.append(event)
            if event.name == "kill" and any(before.name == "cut" for before in done):
                violations.append(f"pod pod-{event.draw} overcommits node-{len(done)}: too much")
                break
        return types.SimpleNamespace(options=options, violations=violations, events=tuple(done))


def test_a_failed_run_becomes_one_of_few_events() -> None:
    """If this fails, a violation is shown with faults that it does not need, or without those that it needs."""
    names = ["stall", "kill", "pods", "cut", "pods", "nodes", "pause", "kill", "cut", "kill"]
    events = tuple(
        PlannedEvent(number // 40, number % 40, "load" if name in ("pods", "nodes") else "fault", name, number)
        for number, name in enumerate(names * 20)
    )
    runs: Any = _Runs()
    lines: list[str] = []
    failed = runs.run(Options(1, events=events))
    shrunk = failure_shrinking.shrink_failure(runs, failed, 60, lines.append)
    assert [event.name for event in shrunk.events] == ["cut", "kill"]
    assert shrunk.violations[-1].startswith("pod pod-")
    assert lines == [f"{len(failed.events)} events shrunk to 2 in {runs.count - 1} runs"]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_faults_that_show_a_defect_are_few(tmp_path: pathlib.Path) -> None:
    """If this fails, a violation by the product itself is shown with faults that it does not need."""
    product = regression_run.patched_copy("lease-taken-back", tmp_path)
    options = ["--seed=1", "--hours=0.03", "--nodes=4", "--faults=delete_lease,reset", "--shrink-seconds=120"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.simulation.simulate", *options],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{product}:{regression_run.ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    listed = done.stdout.partition("faults and changes that are enough:\n")[2].partition("timeline")[0]
    enough = listed.splitlines()
    shrunk = re.search(r"(\d+) events shrunk to (\d+) in", done.stdout)
    assert shrunk is not None, done.stdout
    # How few they are depends on how many runs the machine manages in that time.
    assert len(enough) <= int(shrunk[2]) < int(shrunk[1]), done.stdout
    assert any("fault delete_lease" in line for line in enough)
    assert (tmp_path / "build" / "simulation-1.json").exists()
