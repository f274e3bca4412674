"""NodeName: the one node that a pod names."""

from tests.helpers.plugin_answers import Answers
from tests.helpers.snapshot_views import cluster_of, pod_of
from trireme.framework import status
from trireme.plugins.node_name import filter as node_name

UNRESOLVABLE = status.Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_a_pod_that_names_a_node_runs_there_or_nowhere() -> None:
    builder = cluster_of(n0={}, n1={})
    answers = Answers(builder, node_name.NodeName(), pod_of({"nodeName": "n1"}))
    assert answers.pre_filter.nodes == {"n1"}
    assert {name: refusal.code for name, refusal in answers.refusals().items()} == {"n0": UNRESOLVABLE}
    assert answers.messages() == {"n0": ("node(s) didn't match the requested node name",)}
    nowhere = Answers(builder, node_name.NodeName(), pod_of({"nodeName": "gone"}))
    assert set(nowhere.refusals()) == {"n0", "n1"}
    assert Answers(builder, node_name.NodeName(), pod_of()).pre_filter.skip
