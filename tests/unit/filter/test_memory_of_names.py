"""A user who may create pods cannot make filter larger or slower for good, by names that no node has."""

from collections.abc import Callable

import pytest

from tests.helpers import phase_calls
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from trireme.filter import service
from trireme.registry import remote_makers
from trireme.v1 import core_pb2, filter_phase_pb2


def _asks_for_resource(number: int) -> core_pb2.Pod:
    return pod_of(requesting(**{f"example.com/resource-{number}": "1"}))


def _selects_by_label(number: int) -> core_pb2.Pod:
    return pod_of({"nodeSelector": {f"example.com/key-{number}": "value"}})


@pytest.mark.parametrize("make_pod", [_asks_for_resource, _selects_by_label])
async def test_names_of_pods_leave_nothing_behind(make_pod: Callable[[int], core_pb2.Pod]) -> None:
    """Each pod is refused by its own name, and when it is gone the node table is what it was."""
    builder = SnapshotBuilder()
    builder.set_node("n", labels={"zone": "a"})
    nodes = builder.snap.nodes
    before = len(nodes.resource_names), nodes.allocatable.shape, len(nodes.labels._columns)
    phase = service.FilterPhase(builder.snap, remote_makers.no_remote_plugin, remote_makers.no_remote_plugin)
    await phase_calls.greet(phase, phase_calls.configuration(("NodeResourcesFit", "NodeAffinity"), ()))
    for number in range(1, 20):
        builder.add_class(number, make_pod(number))
        request = filter_phase_pb2.FilterPhaseFilterRequest(cycle=phase_calls.cycle(builder, number), count=1)
        answer = await phase.Filter(request, phase_calls.context(5))
        assert not any(answer.columns.capacity)
        builder.apply(removed_classes=[number])
    assert (len(nodes.resource_names), nodes.allocatable.shape, len(nodes.labels._columns)) == before
