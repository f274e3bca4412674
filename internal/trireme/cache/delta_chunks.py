"""Splits deltas into chunks of bounded size.

A replica accepts messages up to 64 MiB, a plugin up to 16 (`rpc/message_sizes.py`), and calls and acknowledgements wait
while it applies a delta. However much has changed, and however large the objects are, chunks of 1 MiB keep clear of
these limits. `delta_log.py` makes deltas of the parts; `recording/full_state.py` writes the same columns in chunks of
this size, which `recording/message_bounds.py` and docs/protocol.md state too.

Also change: protos/trireme/v1/snapshot.proto (the messages).

Tests: tests/unit/cache/test_cluster_cache_deltas.py, tests/contract/test_replica_stream.py.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence

from trireme.cache.placed_pod import PlacedPod
from trireme.v1 import snapshot_pb2

CHUNK_BYTES = 1 << 20
"""The size of a chunk, unless one object alone is larger."""

PODS_PER_PART = 2000
"""At some 100 bytes a pod, so many are far below a chunk."""
BYTES_PER_POD = 128

NAMES_PER_PART = 2000
BYTES_PER_NAME = 64
"""Of removed objects and nominations; rows, slots and classes take less."""

Part = tuple[int, Callable[[snapshot_pb2.Delta], object]]
"""Something to publish that is not cut: its size in bytes, at least roughly, and what adds it to a delta."""


def pack_into_deltas(parts: Iterable[Part], begin: Callable[[], snapshot_pb2.Delta]) -> Iterator[snapshot_pb2.Delta]:
    """Pack the parts, in order, into deltas, at least one; `begin` makes each of them."""
    delta, size = begin(), 0
    for weight, add in parts:
        if size and size + weight > CHUNK_BYTES:
            yield delta
            delta, size = begin(), 0
        add(delta)
        size += weight
    yield delta


def node_part(entry: bytes) -> Part:
    """A node for a delta, as a serialised NodeEntry."""
    return len(entry), lambda delta: delta.nodes.add().MergeFromString(entry)


def pod_class_part(message: snapshot_pb2.PodClass) -> Part:
    """A class for a delta."""
    return message.ByteSize(), lambda delta: delta.classes.append(message)


def cluster_object_part(message: snapshot_pb2.ClusterObject) -> Part:
    """An added or changed object for a delta."""
    return message.ByteSize(), lambda delta: delta.objects.append(message)


def removed_object_part(kind: str, namespace: str, name: str) -> Part:
    """A deleted object for a delta."""
    return BYTES_PER_NAME, lambda delta: delta.removed_objects.add(kind=kind, namespace=namespace, name=name)


def nomination_part(message: snapshot_pb2.Nomination) -> Part:
    """A nomination for a delta."""
    return message.ByteSize(), lambda delta: delta.nominations.append(message)


def pod_parts(placed: Sequence[PlacedPod], known_rows: frozenset[int] | set[int]) -> Iterator[Part]:
    """Placed pods for deltas; replicas know the names and UIDs of those at `known_rows`, which are left out."""
    for start in range(0, len(placed), PODS_PER_PART):
        some = placed[start : start + PODS_PER_PART]
        yield BYTES_PER_POD * len(some), functools.partial(_add_pod_columns, some, known_rows)


def removed_number_parts(
    values: Sequence[int], add: Callable[[snapshot_pb2.Delta, Sequence[int]], object]
) -> Iterator[Part]:
    """Removed rows, slots or classes for deltas; `add` writes some of them to a delta."""
    for start in range(0, len(values), NAMES_PER_PART):
        yield _removed_number_part(values[start : start + NAMES_PER_PART], add)


def _removed_number_part(some: Sequence[int], add: Callable[[snapshot_pb2.Delta, Sequence[int]], object]) -> Part:
    """The part with some removed numbers, at most 5 bytes each; `add` writes them to the delta."""
    return 5 * len(some), lambda delta: add(delta, some)


def _add_pod_columns(
    placed: Sequence[PlacedPod], known_rows: frozenset[int] | set[int], delta: snapshot_pb2.Delta
) -> None:
    """Append the pods to the columns of the delta; at `known_rows` without UID and name.

    `snapshot/snapshot.py` and `sdk/cluster_state.py` read them, `recording/message_bounds.py` checks them.
    """
    columns = delta.pods
    columns.row.extend(pod.row for pod in placed)
    columns.pod_class.extend(pod.class_id for pod in placed)
    columns.slot.extend(pod.slot for pod in placed)
    columns.uid.extend("" if pod.row in known_rows else pod.uid for pod in placed)
    columns.name.extend("" if pod.row in known_rows else pod.name for pod in placed)
    columns.start_time_s.extend(pod.start for pod in placed)
    columns.flags.extend(pod.flags | pod.evicting for pod in placed)
