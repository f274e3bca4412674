"""TaintToleration: hard taints refuse, soft ones count."""

import pytest

from tests.helpers.plugin_answers import Answers
from tests.helpers.snapshot_views import Json, cluster_of, pod_of
from trireme.framework import status
from trireme.plugins.taint_toleration import filter as taint_toleration
from trireme.plugins.taint_toleration import score as taint_score

UNRESOLVABLE = status.Code.UNSCHEDULABLE_AND_UNRESOLVABLE
TAINTED = {
    "clean": {},
    "hard": {"taints": [("gpu", "a", "NoSchedule")]},
    "evicting": {"taints": [("gpu", "a", "NoExecute")]},
    "soft": {"taints": [("gpu", "a", "PreferNoSchedule"), ("old", "", "PreferNoSchedule")]},
    "both": {"taints": [("gpu", "a", "NoSchedule"), ("gpu", "b", "NoSchedule"), ("old", "", "PreferNoSchedule")]},
}


@pytest.mark.parametrize(
    ("tolerations", "refused", "scores"),
    [
        pytest.param([], {"hard", "evicting", "both"}, {"soft": 2, "both": 1}, id="none"),
        pytest.param([{"operator": "Exists"}], set(), {}, id="everything"),
        pytest.param([{"key": "gpu", "operator": "Exists"}], set(), {"soft": 1, "both": 1}, id="by-key"),
        pytest.param([{"key": "gpu", "value": "a"}], {"both"}, {"soft": 1, "both": 1}, id="by-value"),
        pytest.param(
            [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
            {"evicting"},
            {"soft": 2, "both": 1},
            id="by-effect",
        ),
        pytest.param([{"operator": "Equal", "value": "a"}], {"both"}, {"soft": 1, "both": 1}, id="any-key-equal"),
        pytest.param(
            [{"key": "gpu", "operator": "Gt", "value": "0"}], {"hard", "evicting", "both"}, None, id="gate-off"
        ),
    ],
)
def test_hard_taints_refuse_and_soft_ones_count(
    tolerations: list[Json], refused: set[str], scores: dict[str, int] | None
) -> None:
    plugin = taint_toleration.TaintTolerationFilter(comparing=False)
    pod = pod_of({"tolerations": tolerations})
    answers = Answers(cluster_of(**TAINTED), plugin, pod)
    assert set(answers.refusals()) == refused
    assert {refusal.code for refusal in answers.refusals().values()} <= {UNRESOLVABLE}
    assert {message for messages in answers.messages().values() for message in messages} <= {
        "node(s) had untolerated taint(s)"
    }
    if scores is not None:
        scorer = taint_score.TaintTolerationScore(comparing=False)
        counted = Answers(cluster_of(**TAINTED), scorer, pod).scores()
        assert counted == {name: scores.get(name, 0) for name in TAINTED}


def test_the_first_taint_that_is_not_tolerated_is_named() -> None:
    answers = Answers(
        cluster_of(**TAINTED),
        taint_toleration.TaintTolerationFilter(comparing=False),
        pod_of({"tolerations": [{"key": "gpu", "value": "a"}]}),
    )
    assert dict(answers.refusals()["both"].reasons[0].parameters) == {
        "key": "gpu",
        "value": "b",
        "effect": "NoSchedule",
    }
