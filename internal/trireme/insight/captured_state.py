"""The state of the observed cluster at one moment, as the frames with which a recording begins.

Tests: tests/unit/insight/test_recorder.py.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from trireme.insight import observed_cluster
from trireme.recording import full_state
from trireme.snapshot import snapshot
from trireme.v1 import recording_pb2, snapshot_pb2

_QUEUED_PODS = 2000


class CapturedState(NamedTuple):
    """The state at that time. The snapshot is a copy that nothing changes. Units: time in nanoseconds since 1970."""

    time_ns: int
    hello: snapshot_pb2.Hello
    snap: snapshot.Snapshot
    trial: Sequence[snapshot_pb2.Delta]
    queue: Sequence[snapshot_pb2.QueuedPod]


def capture(cluster: observed_cluster.ObservedCluster, hello: snapshot_pb2.Hello, time_ns: int) -> CapturedState:
    """The cluster as it is now; later deltas do not change it, and another thread may read it."""
    nothing = np.zeros(0, dtype=np.int32)
    copy = cluster.snap.fork(np.zeros(0, dtype=np.intp), nothing, nothing)
    copy.make_independent()
    return CapturedState(time_ns, hello, copy, cluster.trial, cluster.queue.all())


def frames(state: CapturedState) -> Iterator[recording_pb2.RecordedFrame]:
    """The frames of a full state: the cluster, what a trial assumes beyond it, the queue."""
    for delta in (*full_state.full_sync(state.snap), *state.trial):
        yield _frame(state.time_ns, snapshot_pb2.SyncRequest(delta=delta))
    queue = snapshot_pb2.QueueDelta(reset=True)
    for start in range(0, len(state.queue), _QUEUED_PODS):
        if start:
            yield _frame(state.time_ns, snapshot_pb2.SyncRequest(queue=queue))
            queue = snapshot_pb2.QueueDelta()
        queue.pods.extend(state.queue[start : start + _QUEUED_PODS])
    last = _frame(state.time_ns, snapshot_pb2.SyncRequest(queue=queue))
    last.state_part = recording_pb2.STATE_PART_LAST
    yield last


def _frame(time_ns: int, request: snapshot_pb2.SyncRequest) -> recording_pb2.RecordedFrame:
    """A frame of a full state that is not its last."""
    return recording_pb2.RecordedFrame(unix_time_ns=time_ns, state_part=recording_pb2.STATE_PART_MORE, message=request)
