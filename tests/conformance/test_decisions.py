"""Decisions about golden clusters are kube-scheduler's, through real processes, for one replica of each phase and two.

A category is asserted here once all that decides it is there; how far the others agree is what agreement.py shows.
"""

from collections.abc import Iterator

import decision_differences
import decision_profiles
import golden_rows
import pytest
from decision_differences import Finding, Verdict
from decision_phases import Phases
from decisions import Decider

AGREEING = ("resources", "mostallocated", "taints", "nodeaffinity", "ports", "images")

ROWS = list(golden_rows.read(golden_rows.DECISIONS))
SETUP = decision_profiles.make(decision_profiles.strategies_of(ROWS))


@pytest.fixture(scope="module", params=[1, 2], ids=["one-replica", "two-replicas"])
def decider(request: pytest.FixtureRequest) -> Iterator[Decider]:
    """Someone to ask."""
    with Phases(SETUP.configuration, request.param) as phases:
        yield Decider(phases, SETUP)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("category", AGREEING)
def test_every_decision_of_the_category_is_kube_schedulers(decider: Decider, category: str) -> None:
    """Else a pod lands elsewhere than with kube-scheduler, or is refused in other words."""
    rows = [row for row in ROWS if golden_rows.category_of(row) == category]
    findings: list[Finding] = []
    for row in rows:
        answer = decider.decide(row, decision_differences.refused_elsewhere(row, SETUP))
        findings += decision_differences.compare(row, answer, SETUP)
    assert [finding for finding in findings if finding.verdict is Verdict.DIFFERS] == []
    compared = [finding for finding in findings if finding.verdict is Verdict.AGREES]
    assert len(compared) > 10 * len(rows)


def test_all_golden_decisions_are_there() -> None:
    """Else the tests above passed with little to check."""
    assert len(ROWS) > 900
    assert {golden_rows.category_of(row) for row in ROWS} >= set(AGREEING)
