"""What the console's pages are made from: the cluster and queue that insight follows, and what it remembers of both.

Tests: tests/unit/insight/console/test_views.py.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from trireme.insight import observed_cluster
from trireme.insight.console import pending_pods, pod_timelines, scheduler_history
from trireme.v1 import snapshot_pb2
from trireme_kube.componentbase import clocks


@dataclass(frozen=True, slots=True)
class RecordingGap:
    """A span of time in which what is shown may not be what was, and why. Units: milliseconds since 1970.

    `reason`: `notRecorded`, `noStream` (nothing came from the scheduler), or `clockSetBack`.
    """

    from_ms: int
    to_ms: int
    reason: str


@dataclass(frozen=True, slots=True)
class RecordingSpan:
    """The recording that the state is of, and the moment in it. Units: milliseconds since 1970.

    `is_live`: insight is writing it, and its console has the state of now too.
    `gaps`: those that the moment is in, or all.
    """

    file: str
    from_ms: int
    to_ms: int
    at_ms: int
    is_live: bool = False
    gaps: tuple[RecordingGap, ...] = ()
    #: Decisions that are not recorded, and the gaps in which more may be missing, of the whole recording.
    missing_decisions: int = 0
    uncounted_gaps: int = 0


class RecordingFailure(NamedTuple):
    """Since when insight's recording fails, in milliseconds since 1970, and the last error."""

    since_ms: int
    error: str


class ConsoleState:
    """The cluster, the pods in the queue, their timelines, and the history of the scheduler."""

    def __init__(
        self,
        cluster: observed_cluster.ObservedCluster,
        disconnected_seconds: Callable[[], float],
        wall: Callable[[], float] = clocks.wall,
    ) -> None:
        """`disconnected_seconds`: for how long nothing has come from the frontend; 0 while its stream is alive."""
        self.cluster = cluster
        self.disconnected_seconds = disconnected_seconds
        self.wall = wall
        self.pending = pending_pods.PendingPods()
        self.timelines = pod_timelines.PodTimelines(wall)
        self.history = scheduler_history.SchedulerHistory()
        #: None: it is the state of now.
        self.recording: RecordingSpan | None = None
        #: Whether the console also shows what was recorded.
        self.is_recorded = False
        #: Why what happens now is not recorded, though it is to be; None: it is, or is not to be.
        self.recording_failure: Callable[[], RecordingFailure | None] = lambda: None
        #: Of this process: what is cached of another one does not hold here.
        self.instance = uuid.uuid4().hex

    def apply_queue(self, delta: snapshot_pb2.QueueDelta) -> None:
        """Take over what changed in the queue."""
        self.pending.apply(delta)
        self.timelines.apply(delta)
