"""How a run of `make chaos` is summed up: which gap is which fault's, and what the API server's absence excuses."""

from __future__ import annotations

import itertools
from typing import Any

from tools.chaos import chaos_checks, chaos_faults, chaos_report, chaos_run
from tools.chaos.chaos_checks import Gap, Wait

OPTIONS = chaos_run.Options(side="trireme", count=2, seed=1)
ABOUT: dict[str, Any] = {
    "date": "2026-01-02",
    "commit": "0123456789abcdef",
    "machine": {"cpu": "a processor", "cpus": 2},
    "versions": {},
}


def outcome(gaps: list[Gap], outages: list[tuple[float, float]]) -> chaos_run.Outcome:
    """A run with faults at 10 and 20 seconds."""
    checks = chaos_checks.Checks({})
    checks.gaps = gaps
    first, second = itertools.islice(chaos_faults.draw(1, 4.0), 2)
    injections = [chaos_run.Injection(first, "a", 10.0, 12.0, 13.0), chaos_run.Injection(second, "b", 20.0, 22.0, 29.0)]
    return chaos_run.Outcome(injections, outages, checks, [], 40.0, [])


def test_a_gap_is_that_of_the_fault_after_which_it_began() -> None:
    """One from before the first fault is nobody's; the last binding may have been a moment before a fault."""
    gaps = [Gap(1.0, 9.0), Gap(9.8, 14.0), Gap(16.0, 17.0), Gap(21.0, 28.0)]
    document = chaos_report.result(OPTIONS, outcome(gaps, []), ABOUT)
    assert [each["gap_s"] for each in document["faults"]] == [4.2, 7.0]
    assert document["gaps"] == {"p50": 5.6, "p99": 7.0, "max": 7.0}
    assert document["gaps_over_target"] == 1
    assert document["gaps_after_outages"]["max"] is None


def test_a_gap_while_the_api_server_is_down_counts_from_its_return() -> None:
    """Nobody can bind before."""
    document = chaos_report.result(OPTIONS, outcome([Gap(10.0, 18.0), Gap(20.0, 21.0)], [(10.0, 16.5)]), ABOUT)
    assert document["gaps"]["max"] == 1.0
    assert document["gaps_over_target"] == 0
    assert document["gaps_after_outages"]["max"] == 1.5


def test_the_table_has_a_column_for_each_side_and_a_row_for_each_kind() -> None:
    """What is written into the document."""
    document = chaos_report.result(OPTIONS, outcome([Gap(10.0, 14.0)], []), ABOUT)
    text = f"before\n{chaos_report.BEGIN}\nold\n{chaos_report.END}\nafter\n"
    written = chaos_report.document(text, {"trireme": document, "kube-scheduler": document})
    assert "old" not in written
    assert "|  | trireme | kube-scheduler |" in written
    kind = document["faults"][0]["kind"]
    cell = "4.0 / 4.0 / 4.0; 0.0 (1)"
    assert f"| gap (and longest wait) at: {kind} | {cell} | {cell} |" in written


def test_a_wait_is_that_of_the_fault_at_which_the_pod_was_created() -> None:
    """Other bindings end a gap; the pods that a killed replica holds wait on, and must show."""
    run = outcome([], [])
    run.checks.waits = [Wait(1.0, 9.0), Wait(9.8, 19.0), Wait(15.0, 16.5), Wait(21.0, 24.0)]
    document = chaos_report.result(OPTIONS, run, ABOUT)
    assert [each["longest_wait_s"] for each in document["faults"]] == [9.2, 3.0]
    assert [document["kinds"][each["kind"]]["longest_wait_s"] for each in document["faults"]] == [9.2, 3.0]


def test_gaps_are_compared_by_the_kinds_of_faults_that_both_sides_have() -> None:
    """A side that is struck in places which the other does not have would look better, as nothing stops there."""
    both = chaos_report.result(OPTIONS, outcome([Gap(10.0, 14.0), Gap(20.0, 21.0)], []), ABOUT)
    one = {**both, "faults": both["faults"][:1]}
    row = "the same, of the kinds of faults that both sides have"
    assert f"| {row} | 4.0 / 4.0 / 4.0 | 4.0 / 4.0 / 4.0 |" in chaos_report.table(
        {"trireme": both, "kube-scheduler": one}
    )
