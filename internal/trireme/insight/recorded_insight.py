"""Insight on a recording: the same service, which follows the frames of a file up to a moment instead of a stream.

It calls no remote plugins: these answer what they answered in a decision, of a pending pod in the last one about its
class. What is not recorded is named in the answers.

Also change: internal/trireme/replay/decision_replay.py (recorded answers advance a snapshot alike).

Tests: tests/unit/insight/http_api/test_recorded_site.py.
"""

from collections.abc import Iterable

from trireme.insight import service
from trireme.insight.history import memory
from trireme.recording import frame_times
from trireme.rpc import stream_age
from trireme.snapshot import snapshot
from trireme.v1 import decision_explanation_pb2, insight_pb2, recording_pb2, snapshot_pb2

# The one caller, for turns.
_CALLER = ""


class _Silence(stream_age.StreamAge):
    """For how long nothing had been recorded at the moment that is shown, in place of the age of a stream."""

    silent_seconds = 0.0

    @property
    def seconds(self) -> float:
        """For how long nothing had been recorded."""
        return self.silent_seconds


class RecordedInsight:
    """What insight would have answered at a moment of a recording."""

    def __init__(self, header: recording_pb2.RecordingHeader) -> None:
        """Raises: ValueError for a configuration that cannot be used."""
        self.time_ns = header.start_unix_ns
        self.service = service.InsightService(snapshot.Snapshot(), now_ns=lambda: self.time_ns)
        self._silence = self.service.follow.age = _Silence()
        self._cluster = self.service.cluster
        self._leader = header.hello.fence.scheduler_id, header.hello.fence.epoch
        self._configure(header.hello.configuration)

    def follow(self, frames: Iterable[recording_pb2.RecordedFrame], until_ns: int | None = None) -> None:
        """Take the frames up to a time, or all; their times ascend.

        Raises: ValueError for a delta that does not fit.
        """
        for frame in frames:
            if until_ns is not None and frame.unix_time_ns > until_ns:
                return
            self.take(frame)

    def show(self, at_ns: int, gap: frame_times.Gap | None) -> None:
        """Answer as of a time up to which frames were taken, in a gap: with how old what it has was then."""
        self.time_ns = at_ns
        is_silent = gap is not None and gap.reason is not frame_times.Reason.CLOCK_SET_BACK
        self._silence.silent_seconds = (at_ns - gap.from_ns) / 1e9 if gap is not None and is_silent else 0.0

    def take(self, frame: recording_pb2.RecordedFrame) -> None:
        """Take the next frame. Raises: ValueError for a delta that does not fit."""
        if frame.WhichOneof("content") == "message":
            self.time_ns = frame.unix_time_ns
            self._take_message(frame.message)

    async def explain(self, request: insight_pb2.ExplainRequest) -> insight_pb2.ExplainResponse:
        """Why the pod waited, and whether its wake-up was missed. Raises: NotAnsweredError."""
        out = await self.service.explain(request, _CALLER)
        for missed in self.service.console.history.missed_wake_ups:
            if (missed.pod.namespace, missed.pod.name) == (out.pod.namespace, out.pod.name):
                out.missed_wake_up.CopyFrom(missed)
        return out

    async def explain_decision(
        self, request: decision_explanation_pb2.ExplainDecisionRequest
    ) -> decision_explanation_pb2.ExplainDecisionResponse:
        """By which decision the pod got its node. Raises: NotAnsweredError."""
        return await self.service.explain_decision(request, _CALLER)

    def _take_message(self, message: snapshot_pb2.SyncRequest) -> None:
        """Advance by a message. Raises: ValueError."""
        kind = message.WhichOneof("message")
        if kind == "hello":
            self._follow(message.hello)
        elif kind == "delta":
            try:
                self._cluster.apply(message.delta)
            except snapshot.OutOfStepError as error:
                raise ValueError(f"a delta does not fit: {error}") from error
        elif kind == "queue" and message.queue.HasField("scheduler_status"):
            self.service.console.history.take_recorded(message.queue.scheduler_status)
        elif kind == "queue":
            self.service.take_queue(message.queue)
        self.service.take(message)

    def _follow(self, hello: snapshot_pb2.Hello) -> None:
        """A stream begins. Raises: ValueError for a configuration that cannot be used."""
        leader = hello.fence.scheduler_id, hello.fence.epoch
        if leader != self._leader:
            self._leader = leader
            self.service.console.history.forget_recorded()
        self._configure(hello.configuration)

    def _configure(self, configuration: snapshot_pb2.Configuration) -> None:
        """Evaluate with this configuration from now on. Raises: ValueError."""
        local = memory.without_remote_plugins(configuration)
        self.service.configure(local, recorded=configuration)
