"""Explanations name refusals of as many nodes in one order, whatever the replica has seen before."""

from tests.helpers.phase_calls import context
from tests.helpers.simulated_insight import SimulatedInsight, stored
from trireme.v1 import cycle_pb2, insight_pb2

SMALL = {"allocatable": {"cpu": "1", "memory": "8Gi", "pods": "20"}}
LARGE = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "20"}}


async def refusing_plugins(insight: SimulatedInsight) -> list[str]:
    """The plugins that refuse the pod that waits, in order."""
    pod = cycle_pb2.PodIdentity(namespace="default", name="p", uid="uid-of-p")
    response = await insight.service.Explain(insight_pb2.ExplainRequest(pod=pod), context())
    return [each.status.plugin for each in response.refusals]


async def test_a_replica_that_saw_the_nodes_before_one_was_cordoned_names_them_in_the_same_order() -> None:
    """Two replicas would answer differently, and one after its restart."""
    found = []
    for is_cordoned_later in (False, True):
        insight = await SimulatedInsight(small=SMALL, large=LARGE).start()
        insight.builder.add_class(1, stored(cpu="2"))
        insight.queue(("p", 1))
        if is_cordoned_later:
            assert await refusing_plugins(insight) == ["NodeResourcesFit"]
        insight.builder.set_node("large", unschedulable=True, **LARGE)
        found.append(await refusing_plugins(insight))
    assert found == [["NodeResourcesFit", "NodeUnschedulable"]] * 2
