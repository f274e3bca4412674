"""Preemptors one after the other, in a cluster that changes: what filter keeps between them changes no decision.

TRIREME_EXAMPLES=200 has it try so many clusters.
"""

import os
from collections import Counter

import pytest

from tests.conformance import differential, golden_rows, oracle_fixture, preemption_sequences, real_framework

EXAMPLES = int(os.environ.get("TRIREME_EXAMPLES", "8"))
QUESTIONS = 20


def _said(asked: golden_rows.Row, answer: golden_rows.Row) -> bool:
    """Whether the framework says this of the result, or may say it."""
    options = asked.get("either", {}).get("preemption") or [asked["expect"].get("preemption")]
    return len(options) > differential.MANY or _ordered(answer) in map(_ordered, options)


def _ordered(preemption: golden_rows.Row) -> golden_rows.Row:
    """The reasons come in any order there."""
    status = preemption["status"]
    return {**preemption, "status": {**status, "reasons": sorted(status.get("reasons", ()))}}


MAKES = {"service": preemption_sequences.ServiceFilter, "in-process": preemption_sequences.EngineFilter}


@pytest.mark.timeout(60 + 10 * EXAMPLES)
@pytest.mark.parametrize("who", MAKES)
@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_preemption_does_not_depend_on_earlier_calls(seed: int, who: str) -> None:
    """The same preemptor gets the same victims, whatever was evaluated before, in which call, on which replica."""
    for number, decision in enumerate(
        preemption_sequences.decisions_of(seed, QUESTIONS, MAKES[who], few=seed % 3 == 2)
    ):
        assert decision.kept == decision.anew, number


def test_a_service_and_an_engine_decide_alike() -> None:
    both = [[*preemption_sequences.decisions_of(EXAMPLES, QUESTIONS, make)] for make in MAKES.values()]
    assert both[0] == both[1]


@pytest.mark.timeout(60 + 20 * EXAMPLES)
def test_sequences_are_decided_as_the_framework_does() -> None:
    oracle_fixture.require_oracle()
    found: Counter[str] = Counter()
    for seed in range(1000, 1000 + max(EXAMPLES // 3, 1)):
        rows = [each.row for each in preemption_sequences.decisions_of(seed, QUESTIONS) if each.row is not None]
        with real_framework.Oracle(2) as oracle, real_framework.Oracle(differential.RUNS_IF_DIFFERENT) as patient:
            for row, asked in zip(rows, oracle.ask(rows), strict=True):
                if not _said(asked, row["answer"]):
                    (asked,) = patient.ask([row])
                    assert _said(asked, row["answer"]), (row["name"], row["answer"], asked)
                found[row["answer"]["status"]["code"]] += 1
    assert min(found["Success"], found["Unschedulable"]) > 0
