"""Decisions about golden clusters are kube-scheduler's.

Of processes, for one replica of each phase and two, and of an engine in this process, which gets a case at once or by
deltas.

What a plugin that is not there would have said is left out of it; agreement.py shows how much that is.
"""

from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.conformance import decision_differences, decision_profiles, golden_rows
from tests.conformance.decision_differences import Finding, Verdict
from tests.conformance.decision_phases import Phases
from tests.conformance.decisions import AnyPhases, Decider
from tests.conformance.golden_rows import Row
from tests.conformance.in_process_phases import InProcessPhases

# Asked by deltas in full; of the other categories every fifth case, for time's sake.
IN_FULL = frozenset({"resources", "mostallocated", "taints", "nodeaffinity", "ports", "images"})

ROWS = list(golden_rows.read(golden_rows.DECISIONS))
FOUND = list(golden_rows.read(golden_rows.FOUND))
CATEGORIES = tuple(dict.fromkeys(golden_rows.category_of(row) for row in ROWS))
GATES = list(golden_rows.read(golden_rows.GATES))
SCENARIOS = tuple(dict.fromkeys(golden_rows.category_of(row) for row in GATES))
SETUPS = decision_profiles.Setups([*ROWS, *FOUND, *GATES])


ASKED: dict[str, Callable[[], AnyPhases]] = {
    "one-replica": lambda: Phases(SETUPS.default.configuration, 1),
    "two-replicas": lambda: Phases(SETUPS.default.configuration, 2),
    "in-process": lambda: InProcessPhases(SETUPS.default.configuration),
    "in-process-by-deltas": lambda: InProcessPhases(SETUPS.default.configuration, by_deltas=True),
}


@pytest.fixture(scope="module", params=ASKED)
def phases(request: pytest.FixtureRequest) -> Iterator[AnyPhases]:
    """Someone to ask."""
    with ASKED[request.param]() as asked:
        yield asked


@pytest.mark.timeout(300)
@pytest.mark.parametrize("category", CATEGORIES)
def test_every_decision_of_the_category_is_kube_schedulers(phases: AnyPhases, category: str) -> None:
    rows = [row for row in ROWS if golden_rows.category_of(row) == category]
    if phases.follows_deltas and category not in IN_FULL:
        rows = rows[::5]
    findings = _findings(phases, rows)
    assert [finding for finding in findings if finding.verdict is Verdict.DIFFERS] == []
    compared = [finding for finding in findings if finding.verdict is Verdict.AGREES]
    assert len(compared) > 8 * len(rows)


def _findings(phases: AnyPhases, rows: Sequence[Row]) -> list[Finding]:
    decider = Decider(phases, SETUPS)
    findings: list[Finding] = []
    for row in rows:
        setup = SETUPS.of(row)
        answer = decider.decide(row, decision_differences.refused_elsewhere(row, setup))
        findings += decision_differences.compare(row, answer, setup)
    return findings


@pytest.mark.timeout(300)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_decision_with_other_feature_gates_is_kube_schedulers(phases: AnyPhases, scenario: str) -> None:
    rows = [row for row in GATES if golden_rows.category_of(row) == scenario]
    findings = _findings(phases, rows)
    assert [finding for finding in findings if finding.verdict is Verdict.DIFFERS] == []
    assert len(findings) > len(rows)


@pytest.mark.timeout(300)
def test_differences_found_at_random_stay_fixed(phases: AnyPhases) -> None:
    findings = _findings(phases, FOUND)
    assert [finding for finding in findings if finding.verdict is Verdict.DIFFERS] == []
    assert len(findings) > len(FOUND) > 0


def test_all_golden_decisions_are_there() -> None:
    """The golden files are complete: the tests above do not pass on empty ones."""
    assert len(ROWS) > 900
    assert len(CATEGORIES) == 18
    assert set(CATEGORIES) > IN_FULL
    assert len(GATES) > 390
    assert len(SCENARIOS) == 17
