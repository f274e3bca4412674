"""What insight explains is what filter and score answer, for all golden clusters: node by node, plugin by plugin."""

import pytest

from tests.conformance import decision_differences
from tests.conformance.decisions import Decider
from tests.conformance.explained_phases import ExplainedPhases
from tests.conformance.test_decisions import FOUND, GATES, ROWS, SETUPS


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("by_deltas", "every"), [(False, 4), (True, 9)], ids=["at-once", "by-deltas"])
def test_explanations_are_what_filter_and_score_answer(by_deltas: bool, every: int) -> None:
    with ExplainedPhases(SETUPS.default.configuration, by_deltas=by_deltas) as phases:
        decider = Decider(phases, SETUPS)
        for row in [*ROWS, *FOUND, *GATES][::every]:
            decider.decide(row, decision_differences.refused_elsewhere(row, SETUPS.of(row)))
    assert phases.compared_refusals > 500
    assert phases.compared_scores > 300
    assert phases.compared_choices > 50
