"""The cluster as a plugin with NodeData.SNAPSHOT follows it."""

import pytest

from trireme.sdk import cluster_state
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, snapshot_pb2


def _node(slot: int, name: str) -> snapshot_pb2.NodeEntry:
    return snapshot_pb2.NodeEntry(slot=slot, node=core_pb2.Node(metadata={"name": name}))


def _pods(*rows: tuple[int, int], uid: str = "u", flags: int = 0) -> snapshot_pb2.PodColumns:
    """Pods of class 1: rows and slots."""
    return snapshot_pb2.PodColumns(
        row=[row for row, _ in rows],
        pod_class=[1] * len(rows),
        slot=[slot for _, slot in rows],
        uid=[uid] * len(rows),
        name=[uid and f"p{row}" for row, _ in rows],
        start_time_s=[0] * len(rows),
        flags=[flags] * len(rows),
    )


def _followed() -> cluster_state.ClusterState:
    state = cluster_state.ClusterState()
    pod_class = snapshot_pb2.PodClass(id=1, pod=core_pb2.Pod(metadata={"namespace": "shop"}))
    service = core_pb2.Service(metadata={"namespace": "shop", "name": "web"})
    state.apply(snapshot_pb2.Delta(reset=True, partial=True, nodes=[_node(0, "a"), _node(1, "b")], classes=[pod_class]))
    assert not state.synced
    objects = [snapshot_pb2.ClusterObject(service=service)]
    state.apply(snapshot_pb2.Delta(to_generation=4, pods=_pods((0, 0), (1, 0)), objects=objects))
    assert state.synced
    return state


def _names(state: cluster_state.ClusterState, slot: int) -> list[str]:
    return sorted(pod.name for pod in state.pods_on(slot))


def test_pods_come_move_and_go() -> None:
    """Counts per node follow added, moved and removed pods."""
    state = _followed()
    assert _names(state, 0) == ["p0", "p1"]
    assert {pod.pod.metadata.namespace for pod in state.pods_on(0)} == {"shop"}
    # A row that exists keeps its UID and name.
    state.apply(snapshot_pb2.Delta(from_generation=4, to_generation=5, pods=_pods((1, 1), uid="", flags=2)))
    assert (_names(state, 0), _names(state, 1)) == (["p0"], ["p1"])
    moved = state.pod(1)
    assert moved is not None
    assert (moved.uid, moved.slot, moved.terminating) == ("u", 1, True)
    gone = snapshot_pb2.Delta(from_generation=5, to_generation=6, removed_pods=[1], removed_slots=[1])
    state.apply(gone)
    assert (_names(state, 1), sorted(state.nodes), state.pod(1)) == ([], [0], None)


def test_other_objects_come_and_go() -> None:
    """Volumes and claims appear and disappear with their deltas."""
    state = _followed()
    assert list(state.objects("service")) == [("shop", "web")]
    key = snapshot_pb2.ObjectKey(kind="service", namespace="shop", name="web")
    state.apply(snapshot_pb2.Delta(from_generation=4, to_generation=5, removed_objects=[key]))
    assert not state.objects("service")


@pytest.mark.parametrize(
    "delta",
    [
        pytest.param(snapshot_pb2.Delta(from_generation=3, to_generation=5), id="a gap"),
        pytest.param(snapshot_pb2.Delta(from_generation=4, to_generation=5, removed_pods=[9]), id="no such pod"),
        pytest.param(snapshot_pb2.Delta(from_generation=4, to_generation=5, removed_slots=[9]), id="no such node"),
    ],
)
def test_a_delta_that_does_not_fit_needs_a_full_sync(delta: snapshot_pb2.Delta) -> None:
    with pytest.raises(snapshot.OutOfStepError):
        _followed().apply(delta)
