"""Replays a recording: the snapshot follows the recorded deltas, and each decision is made again on it.

Evaluation is deterministic: with the same generation, configuration and request the engines give the same answer. So a
difference means that the release or the configuration is another one, or that an evaluation depends on more than the
snapshot.

Also change: internal/trireme/insight/recorded_insight.py (recorded answers advance a snapshot alike).
"""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field

from trireme.recording import decision_numbers
from trireme.remote import recorded_makers, recorded_plugins
from trireme.replay import decision_calls, outcomes, remote_calls
from trireme.scheduling import ports
from trireme.snapshot import snapshot
from trireme.v1 import decision_pb2, recording_pb2, snapshot_pb2


@dataclass(frozen=True, slots=True)
class Difference:
    """A decision that is another one now. Units: time in nanoseconds since 1970."""

    number: int
    time_ns: int
    generation: int
    profile: str
    #: The name of the call, such as Filter or Place.
    call: str
    #: The class: its number, and the namespace and owner of its pods.
    pods: str
    recorded: outcomes.Outcome
    replayed: outcomes.Outcome


@dataclass(slots=True)
class ReplayCounts:
    """How many decisions were made again, and how many could not be, by the reason."""

    same: int = 0
    different: int = 0
    #: Pods that the decisions made again placed.
    placed_pods: int = 0
    #: The cluster changed before the answer came, so it may be of either state.
    inexact: int = 0
    #: Remote plugins took part, and not all that they answered is recorded.
    remote: int = 0
    #: The answer of Filter that it builds on is not in the recording, or was not made again.
    incomplete: int = 0
    #: Not recorded, by the numbers of the others, those in gaps included.
    missing: int = 0
    gaps: int = 0
    #: Gaps in which more decisions may be missing.
    uncounted_gaps: int = 0
    #: Reports of placements and bindings, which are numbered among the decisions, and which nothing decides again.
    bindings: int = 0
    #: How many were made again, by the name of the call.
    calls: dict[str, int] = field(default_factory=dict)


class DecisionReplay:
    """Replays the frames of one recording, in order."""

    def __init__(
        self, header: recording_pb2.RecordingHeader, configuration: snapshot_pb2.Configuration | None = None
    ) -> None:
        """`configuration`: decide with this one instead of the recorded ones. Raises: ValueError for a bad one."""
        self.counts = ReplayCounts()
        self._override = configuration
        self._numbers = decision_numbers.DecisionNumbers(header.hello.fence)
        self._snap = snapshot.Snapshot()
        self._snap.store_node_objects(messages=True, json=True)
        self._configure(header.hello.configuration)

    @property
    def snap(self) -> snapshot.Snapshot:
        """The cluster as of the last frame."""
        return self._snap

    async def replay(self, frames: Iterable[recording_pb2.RecordedFrame]) -> AsyncIterator[Difference]:
        """Yield each decision that is another one now.

        Raises: ValueError if the recording's configuration or a delta cannot be used, RecordingError as `frames` does.
        """
        for frame in frames:
            if frame.WhichOneof("content") == "gap":
                self.counts.gaps += 1
                self._numbers.begin_gap(frame.gap.dropped_messages)
                self._calls.forget_filter()
            for content in frame.message.decisions:
                decision = decision_numbers.decoded(content)
                difference = await self._replay_decision(decision, frame.unix_time_ns)
                if difference is not None:
                    yield difference
            self._apply(frame.message)
            self.counts.uncounted_gaps = self._numbers.uncounted_gaps

    def _apply(self, message: snapshot_pb2.SyncRequest) -> None:
        """Advance by a message. Raises: ValueError."""
        kind = message.WhichOneof("message")
        if kind == "hello":
            self._numbers.begin_stream(message.hello.fence)
            self._calls.forget_filter()
            self._configure(message.hello.configuration)
        elif kind == "delta":
            try:
                self._snap.apply(message.delta)
            except snapshot.OutOfStepError as error:
                raise ValueError(f"a delta does not fit: {error}") from error

    def _configure(self, configuration: snapshot_pb2.Configuration) -> None:
        """Make the engines of the recorded configuration, or of the one to decide with. Raises: ValueError."""
        used, recorded = self._override or configuration, recorded_makers.RecordedMakers()
        self._remote = remote_calls.RemoteCalls(used)
        evaluators = remote_calls.make_evaluators(self._snap, used, recorded)
        self._calls = decision_calls.DecisionCalls(self._snap, evaluators, recorded.answer, recorded.answers)

    async def _replay_decision(self, decision: decision_pb2.Decision, time_ns: int) -> Difference | None:
        """Make a decision again; returns the difference, if there is one. Raises: ValueError."""
        before = self._numbers.missing
        self._numbers.add(decision.number)
        if self._numbers.missing > before:
            self.counts.missing += self._numbers.missing - before
            self._calls.forget_filter()
        if decision_numbers.is_report(decision):
            self.counts.bindings += 1
            return None
        if not self._remote.is_known(decision):
            self.counts.incomplete += 1
        elif not self._remote.can_be_made(decision):
            self.counts.remote += 1
        elif decision.inexact or not self._snap.synced or decision.generation != self._snap.generation:
            self.counts.inexact += 1
        else:
            return await self._compare(decision, time_ns)
        if decision.HasField("filter"):
            self._calls.forget_filter()
        return None

    async def _compare(self, decision: decision_pb2.Decision, time_ns: int) -> Difference | None:
        """Make a decision again, if all that it builds on is there. Raises: ValueError."""
        try:
            made = await self._calls.make(decision) if decision.pod_class in self._snap.classes else None
        except recorded_plugins.MissingAnswerError:
            self.counts.remote += 1
            if decision.HasField("filter"):
                self._calls.forget_filter()
            return None
        except (ports.PhaseFault, ports.PhaseUnavailable) as error:
            raise ValueError(f"decision {decision.number} cannot be made again: {error}") from error
        if made is None:
            self.counts.incomplete += 1
            return None
        self.counts.placed_pods += len(decision.place.slots)
        self.counts.calls[made.call] = self.counts.calls.get(made.call, 0) + 1
        if made.recorded == made.replayed:
            self.counts.same += 1
            return None
        self.counts.different += 1
        return Difference(
            decision.number,
            time_ns,
            decision.generation,
            decision.profile,
            made.call,
            self._class_text(decision.pod_class),
            made.recorded,
            made.replayed,
        )

    def _class_text(self, number: int) -> str:
        """The class for people."""
        entry = self._snap.classes.get(number)
        if entry is None:
            return f"class {number}"
        metadata = entry.pod.metadata
        owners = [f"{owner.kind}/{owner.name}" for owner in metadata.owner_references]
        return f"class {number} ({', '.join([f'namespace {metadata.namespace}', *owners])})"
