"""A snapshot as the deltas of a full sync, so that a reader without anything before them has the same snapshot.

The frontend makes full syncs of its cache (`cache/delta_log.py`), which has what informers brought. A replica has
columns, and objects that it stores: the nodes among them only after `Snapshot.store_node_objects`.
"""

from collections.abc import Iterator

import numpy as np

from trireme.snapshot import arrays, snapshot
from trireme.v1 import snapshot_pb2

# A chunk ends once it is so long. Nothing in it is divided, so it may be longer by one object or one group of pods.
CHUNK_BYTES = 1 << 20
_PODS = 2000


def full_sync(snap: snapshot.Snapshot) -> Iterator[snapshot_pb2.Delta]:
    """Yield the snapshot as chunks of a full sync at its generation; it must not change before the last one is taken.

    It has to be synced, and store node objects. It has only the UID of a nominated pod.
    """
    chunk, size = snapshot_pb2.Delta(reset=True, partial=True, to_generation=snap.generation), 0
    for part in _parts(snap):
        if size > CHUNK_BYTES:
            yield chunk
            chunk, size = _next_chunk(snap), 0
        chunk.MergeFrom(part)
        size += part.ByteSize()
    chunk.partial = False
    yield chunk


def _next_chunk(snap: snapshot.Snapshot) -> snapshot_pb2.Delta:
    """An empty chunk that is not the first."""
    return snapshot_pb2.Delta(from_generation=snap.generation, to_generation=snap.generation, partial=True)


def _parts(snap: snapshot.Snapshot) -> Iterator[snapshot_pb2.Delta]:
    """Yield all that a full sync consists of as fields of deltas, nothing before what it refers to."""
    for each in snap.classes.values():
        entry = snapshot_pb2.PodClass(id=each.id, pod=each.pod, labels_projected=each.labels_projected)
        yield snapshot_pb2.Delta(classes=[entry])
    for slot in snap.nodes.live_slots().tolist():
        node = snapshot_pb2.NodeEntry(slot=slot, json=snap.nodes.jsons.get(slot, b""))
        node.node.MergeFromString(snap.nodes.messages[slot])
        yield snapshot_pb2.Delta(nodes=[node])
    rows = np.flatnonzero(snap.pods.slot[: snap.pods.size] >= 0)
    for start in range(0, rows.size, _PODS):
        yield snapshot_pb2.Delta(pods=_pod_columns(snap, rows[start : start + _PODS]))
    for entry_ in snap.objects.entries():
        yield snapshot_pb2.Delta(objects=[entry_])
    for nominee in snap.nominations.values():
        nomination = snapshot_pb2.Nomination(pod_class=nominee.pod_class, slot=nominee.slot)
        nomination.pod.uid = nominee.uid
        yield snapshot_pb2.Delta(nominations=[nomination])


def _pod_columns(snap: snapshot.Snapshot, rows: arrays.RowArray) -> snapshot_pb2.PodColumns:
    """The pods of these rows. Shape: rows (n,)."""
    pods = snap.pods
    numbers = rows.tolist()
    return snapshot_pb2.PodColumns(
        row=numbers,
        pod_class=pods.pod_class[rows].tolist(),
        slot=pods.slot[rows].tolist(),
        uid=[pods.uids[row] for row in numbers],
        name=[pods.names[row] for row in numbers],
        start_time_s=pods.start[rows].tolist(),
        flags=pods.flags[rows].tolist(),
    )
