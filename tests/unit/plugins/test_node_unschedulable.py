"""NodeUnschedulable: cordoned nodes, and pods that tolerate that."""

import pytest

from tests.helpers.plugin_answers import Answers
from tests.helpers.snapshot_views import Json, cluster_of, pod_of
from trireme.plugins.node_unschedulable import filter as node_unschedulable


@pytest.mark.parametrize(
    ("tolerations", "skips"),
    [
        pytest.param([], False, id="none"),
        pytest.param([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}], True, id="exists"),
        pytest.param([{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}], True, id="equal-empty"),
        pytest.param([{"key": "node.kubernetes.io/unschedulable", "value": "x"}], False, id="another-value"),
        pytest.param([{"operator": "Exists", "effect": "NoExecute"}], False, id="another-effect"),
        pytest.param([{"operator": "Exists"}], True, id="everything"),
    ],
)
def test_a_cordoned_node_accepts_pods_that_tolerate_it(tolerations: list[Json], skips: bool) -> None:
    builder = cluster_of(open={}, cordoned={"unschedulable": True})
    answers = Answers(
        builder, node_unschedulable.NodeUnschedulable(comparing=False), pod_of({"tolerations": tolerations})
    )
    assert answers.pre_filter.skip is skips
    if not skips:
        assert answers.messages() == {"cordoned": ("node(s) were unschedulable",)}
