"""A full sync made of a snapshot: who applies it has the same snapshot."""

import random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers import changed_clusters
from tests.helpers.changed_clusters import Change
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting, view
from trireme.recording import full_state
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, snapshot_pb2


def _store_nodes(builder: SnapshotBuilder) -> None:
    """As a replica stores them that was told to before its first full sync."""
    nodes = builder.snap.nodes
    nodes._keep_messages = nodes._keep_json = True
    for name, node in builder.objects.items():
        nodes.messages[nodes.slot_of_name[name]] = node.SerializeToString()


def _objects(snap: snapshot.Snapshot) -> list[bytes]:
    return sorted(entry.SerializeToString(deterministic=True) for entry in snap.objects.entries())


def _applied(deltas: list[snapshot_pb2.Delta]) -> snapshot.Snapshot:
    out = snapshot.Snapshot()
    out.store_node_objects(messages=True, json=True)
    for delta in deltas:
        # As it comes from a file.
        out.apply(snapshot_pb2.Delta.FromString(delta.SerializeToString()))
    return out


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(change=changed_clusters.changes(), seed=st.integers(0, 1 << 30))
def test_it_makes_an_equal_snapshot(change: Change, seed: int) -> None:
    """A segment would begin with another cluster than the deltas behind it are about."""
    builder = changed_clusters.before(change)
    _store_nodes(builder)
    draw = random.Random(seed)
    for _ in range(12):
        changed_clusters.change_at_random(builder, draw)
    snap = builder.snap
    copy = _applied(list(full_state.full_sync(snap)))
    assert view(copy) == view(snap)
    assert list(copy.classes) == list(snap.classes)
    assert _objects(copy) == _objects(snap)
    assert copy.nodes.messages == snap.nodes.messages
    assert (copy.generation, copy.synced, copy.statistics()) == (snap.generation, True, snap.statistics())
    # Deltas behind it fit, and what they lead to is equal too.
    other = SnapshotBuilder()
    other.snap, other._slots, other._rows = copy, builder._slots.copy(), builder._rows
    for each in (builder, other):
        draw = random.Random(seed + 1)
        for _ in range(6):
            changed_clusters.change_at_random(each, draw)
    assert view(other.snap) == view(snap)


def test_large_states_come_in_chunks() -> None:
    """A frame would be longer than a reader accepts."""
    builder = SnapshotBuilder()
    builder.snap.nodes._keep_messages = True
    builder.add_class(1, pod_of(requesting(cpu="1")))
    for number in range(40):
        builder.set_node(f"n{number}", labels={"text": "x" * (100 << 10)})
        builder.place(1, *[f"n{number}"] * 100)
    chunks = list(full_state.full_sync(builder.snap))
    assert len(chunks) >= 4
    assert [(chunk.reset, chunk.partial) for chunk in chunks] == [
        (number == 0, number < len(chunks) - 1) for number in range(len(chunks))
    ]
    assert max(chunk.ByteSize() for chunk in chunks) < 2 * full_state.CHUNK_BYTES
    assert view(_applied(chunks)) == view(builder.snap)


def test_assumptions_and_the_nodes_json_are_in_it() -> None:
    """A plugin that reads them would decide otherwise than it did."""
    snap = snapshot.Snapshot()
    snap.store_node_objects(messages=True, json=True)
    service = core_pb2.Service(metadata={"namespace": "default", "name": "s"})
    node = snapshot_pb2.NodeEntry(slot=3, node=core_pb2.Node(metadata={"name": "n"}), json=b"{}")
    entry = snapshot_pb2.ClusterObject(service=service, assumed=True, open_to_group="g")
    snap.apply(snapshot_pb2.Delta(reset=True, to_generation=7, nodes=[node], objects=[entry]))
    copy = _applied(list(full_state.full_sync(snap)))
    assert copy.nodes.jsons == {3: b"{}"}
    assert copy.objects.is_assumed("service", "default", "s")
    assert copy.objects.sharing_group("service", "default", "s") == "g"
