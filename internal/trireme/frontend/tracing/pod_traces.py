"""The traces of pods: one for each pod, from its creation to its binding, whichever frontends led meanwhile.

A trace's id is a digest of the pod's UID, as is the id of its root; so attempts by several leaders are in one trace,
and `trireme explain` names it without having stored anything. Under the root there is for each attempt the wait in
the queue and the attempt, with the calls that were made in it.

Pods that leave the queue together are sampled together, by the trace of the first: that is the same share of pods, and
the calls of all other batches are not traced.

A batch's calls are made for all of its pods. They are a part of the trace of one of them (the owner: a sampled one, if
there is any), where the spans of phases and plugins follow; the attempts of the others have a copy of each that links
to it.

Which traces are kept is decided when an attempt ends: those that are sampled, and beside them attempts that failed,
which those that preempt do, attempts that took long, and all later ones of a pod whose attempt failed. Phases and
plugins, which must know before, record their spans for sampled pods and for later attempts alone.

This is pure but for ids: times are arguments, and spans go to the recorder.

Tests: tests/unit/frontend/test_pod_traces.py.
"""

import contextlib
import hashlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextvars import Token
from types import TracebackType
from typing import TypeVar

from trireme.queueing import queued_pod
from trireme.tracing import spans, trace_context
from trireme.tracing.spans import Kind, Span
from trireme.tracing.trace_context import TraceContext
from trireme.v1 import filter_phase_pb2

Answer = TypeVar("Answer")

# Attempts beyond are forgotten, the oldest first: those of pods that are deleted while they are tried never end.
MAX_ATTEMPTS = 100_000

_NO_CALL: contextlib.nullcontext[None] = contextlib.nullcontext()


class Call:
    """A call about pods. `owner`: the attempt that its span is a part of; None: the span is a root, or not sampled.

    `placements` are pods by UID, each with its node, where the call names them. They are read again if one is kept.
    """

    __slots__ = (
        "_nodes",
        "end",
        "error",
        "name",
        "owner",
        "placements",
        "sampled",
        "span_id",
        "start",
        "timings",
        "trace_id",
    )

    def __init__(
        self,
        name: str,
        owner: "Attempt | None",
        trace_id: int,
        sampled: bool,
        start: float,
        placements: Iterable[tuple[str, str]] = (),
    ) -> None:
        self.name = name
        self.owner = owner
        self.trace_id = trace_id
        self.span_id = spans.new_id()
        self.sampled = sampled
        self.start = start
        self.placements = placements
        self.end = 0.0  # 0: it has not ended
        self.error = ""
        #: How long extension points and plugins took, as phases report it.
        self.timings: Sequence[filter_phase_pb2.Timing] = ()
        self._nodes: dict[str, str] | None = None

    @property
    def context(self) -> TraceContext:
        """What phases get of it."""
        return TraceContext(self.trace_id, self.span_id, self.sampled)

    def node_of(self, uid: str) -> str | None:
        """The node of a pod that the call names; None: it names others."""
        if self._nodes is None:
            self._nodes = dict(self.placements)
        return self._nodes.get(uid)


class Attempt:
    """An attempt at a pod that is sampled, or that ended and is kept."""

    __slots__ = ("node_name", "root_id", "span_id", "trace_id")

    def __init__(self, ids: tuple[int, int]) -> None:
        self.trace_id, self.root_id = ids
        self.span_id = spans.new_id()
        self.node_name = ""


class _Batch:
    """The pods that were taken from the queue together, and what was done for them.

    Most pods are not sampled, and end soon and well: of these it has no objects, only what calls leave anyway.
    """

    __slots__ = ("assumed_at", "calls", "named", "owner", "permit_seconds", "sampled", "trace_id", "undecided")

    def __init__(self, calls: list[Call], undecided: int) -> None:
        #: The calls about all of them.
        self.calls = calls
        #: The calls that name pods, some of them among these: Reserve and all that follow.
        self.named: list[Call] = []
        self.undecided = undecided  # pods that have neither a node nor a failure
        #: The trace of calls that no sampled pod owns.
        self.trace_id = 0
        self.owner: Attempt | None = None
        #: The sampled attempts, and what is known of any, by the pod's UID.
        self.sampled: dict[str, Attempt] = {}
        self.assumed_at: dict[str, float] = {}
        self.permit_seconds: dict[str, float] = {}


class _Within:
    """A context in which what is called is a part of the call, which ends with it."""

    __slots__ = ("_call", "_close", "_token")

    def __init__(self, call: Call, close: Callable[[Call, str], None]) -> None:
        self._call = call
        self._close = close
        self._token: Token[TraceContext | None]

    def __enter__(self) -> Call:
        self._token = trace_context.current.set(self._call.context)
        return self._call

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        trace_context.current.reset(self._token)
        self._close(self._call, "" if failure is None else str(failure) or type(failure).__name__)


def ids_of_pod(uid: str) -> tuple[int, int]:
    """The id of the pod's trace, and that of its root."""
    digest = hashlib.blake2b(uid.encode(), digest_size=24).digest()
    return int.from_bytes(digest[:16]) or 1, int.from_bytes(digest[16:]) or 1


def trace_id_text(uid: str) -> str:
    """The id of the pod's trace, in 32 hexadecimal digits."""
    return f"{ids_of_pod(uid)[0]:032x}"


class PodTraces:
    """Makes spans of what is reported about pods, and decides which are kept."""

    def __init__(self, recorder: spans.Recorder, slow_seconds: float, now: Callable[[], float]) -> None:
        """`slow_seconds`: attempts that take as long are kept; `now` returns Unix seconds of the queue's clock."""
        self._recorder = recorder
        self._slow_seconds = slow_seconds
        self._now = now
        # The batch of each pod that is being tried, by UID.
        self._batches: dict[str, _Batch] = {}
        self._batch: _Batch | None = None
        # The last call that was made for pods before they were taken from the queue.
        self._ahead: Call | None = None

    def begin(self, pods: Sequence[queued_pod.QueuedPodInfo]) -> None:
        """Begin attempts at pods that were taken from the queue together."""
        ahead = self._ahead
        shared = [ahead] if ahead is not None and pods and pods[0].popped_at <= ahead.start else []
        batch = self._batch = _Batch(shared, len(pods))
        batches = self._batches
        for pod in pods:
            batches[pod.uid] = batch
        if pods:
            self._sample(batch, pods)
        if len(batches) > MAX_ATTEMPTS:
            for uid in list(itertools.islice(batches, len(batches) - MAX_ATTEMPTS)):
                del batches[uid]

    def _sample(self, batch: _Batch, pods: Sequence[queued_pod.QueuedPodInfo]) -> None:
        """Decide which of the pods are sampled: all if the first one's trace is, and those of later attempts."""
        batch.trace_id, _ = ids_of_pod(pods[0].uid)
        whole = self._recorder.samples(batch.trace_id)
        for pod in pods:
            if whole or pod.attempts > 1:
                batch.sampled[pod.uid] = Attempt(ids_of_pod(pod.uid))
        batch.owner = next(iter(batch.sampled.values()), None)

    def batch_call(self, name: str) -> contextlib.AbstractContextManager[Call | None]:
        """A call about the pods that were taken last; None for one that is made for none of them."""
        batch = self._batch
        if batch is None or not batch.undecided:
            return _NO_CALL
        call = self._open(name, batch.owner, batch.trace_id)
        batch.calls.append(call)
        return _Within(call, self.close_call)

    def call_ahead(self, name: str) -> contextlib.AbstractContextManager[Call]:
        """A call for pods that are still in the queue: a trace of its own, to which those of the pods link."""
        trace_id = spans.new_id() << 64 | spans.new_id()
        self._ahead = Call(name, None, trace_id, self._recorder.samples(trace_id), self._now())
        return _Within(self._ahead, self.close_call)

    def call_about(
        self, name: str, placements: Iterable[tuple[str, str]]
    ) -> contextlib.AbstractContextManager[Call | None]:
        """A call about pods by UID, each with the node that it is placed on; None: none of them is being tried.

        `placements` may be read again as long as one of the pods is being tried.
        """
        call = self._open_call_about(name, placements)
        return _NO_CALL if call is None else _Within(call, self.close_call)

    def stream_about(
        self, name: str, placements: Iterable[tuple[str, str]], answers: AsyncIterator[Answer]
    ) -> AsyncIterator[Answer]:
        """The answers of a call about pods, as `call_about` has them; it ends with the last."""
        call = self._open_call_about(name, placements)
        if call is None:
            return answers
        return trace_context.use_for_each(call.context, answers, lambda: self.close_call(call))

    def close_call(self, call: Call, error: str = "") -> None:
        """End a call, which failed with this error if there is one."""
        call.end, call.error = self._now(), error
        if call.sampled:
            self._export_call(call)

    def note_assumed(self, uids: Iterable[str]) -> None:
        """The pods are assumed on their nodes."""
        now = self._now()
        for uid in uids:
            if (batch := self._batches.get(uid)) is not None:
                batch.assumed_at[uid] = now
                batch.undecided -= 1

    def note_permit_wait(self, uid: str, seconds: float) -> None:
        """The pod waited on Permit."""
        if (batch := self._batches.get(uid)) is not None:
            batch.permit_seconds[uid] = seconds

    def end(self, pod: queued_pod.QueuedPodInfo, now: float, error: str = "") -> int:
        """End the attempt at a pod that is bound, or failed with this error; its trace's id, 0 if it is not kept."""
        uid = pod.uid
        batch = self._batches.pop(uid, None)
        if batch is None:
            return 0
        if uid not in batch.assumed_at:
            batch.undecided -= 1
        attempt = batch.sampled.get(uid)
        if attempt is None:
            if not error and now - pod.popped_at < self._slow_seconds:
                return 0
            attempt = Attempt(ids_of_pod(uid))
        self._export_attempt(attempt, batch, pod, now, error)
        if not error:
            self._export_root(attempt, pod, now)
        return attempt.trace_id

    def _open(
        self, name: str, owner: Attempt | None, trace_id: int, placements: Iterable[tuple[str, str]] = ()
    ) -> Call:
        """Begin a call of a sampled attempt; without one it is in this trace, and not sampled."""
        trace_id = trace_id if owner is None else owner.trace_id
        return Call(name, owner, trace_id, owner is not None, self._now(), placements)

    def _open_call_about(self, name: str, placements: Iterable[tuple[str, str]]) -> Call | None:
        """Begin a call about pods, and add it to their batches; None: none of the pods is being tried."""
        first, owner = "", None
        batches: list[_Batch] = []
        for uid, _ in placements:
            batch = self._batches.get(uid)
            if batch is None:
                continue
            first = first or uid
            if batch not in batches:
                batches.append(batch)
            if owner is None and batch.sampled:
                owner = batch.sampled.get(uid)
        if not batches:
            return None
        call = self._open(name, owner, 0 if owner is not None else ids_of_pod(first)[0], placements)
        for batch in batches:
            batch.named.append(call)
        return call

    def _export_call(self, call: Call) -> None:
        """Export the span of a call, and below it those of what the phase says took time, one after the other."""
        parent = 0 if call.owner is None else call.owner.span_id
        self._recorder.add(Span(call.name, call.context, parent, call.start, call.end, Kind.CLIENT, error=call.error))
        timed = {timing.extension_point for timing in call.timings if timing.plugin}
        start = call.start
        for timing in call.timings:
            if timing.plugin or timing.extension_point not in timed:
                end = min(start + timing.duration_us / 1_000_000, call.end)
                self._add_plugin_span(call, timing, start, end)
                start = end

    def _add_plugin_span(self, call: Call, timing: filter_phase_pb2.Timing, start: float, end: float) -> None:
        """Add the span of a plugin, or of an extension point as a whole."""
        name = f"{timing.extension_point} {timing.plugin}".rstrip()
        context = TraceContext(call.trace_id, spans.new_id(), True)
        attributes = {"trireme.extension_point": timing.extension_point, "trireme.plugin": timing.plugin}
        self._recorder.add(Span(name, context, call.span_id, start, end, attributes=attributes))

    def _export_attempt(
        self, attempt: Attempt, batch: _Batch, pod: queued_pod.QueuedPodInfo, now: float, error: str
    ) -> None:
        """Export the wait in the queue, the attempt, and its calls."""
        queued_at = pod.timestamp if pod.attempts > 1 else min(pod.first_queued_at, pod.timestamp)
        self._add(attempt, "Queue", attempt.root_id, queued_at, pod.popped_at)
        assumed_at = batch.assumed_at.get(pod.uid, 0.0)
        shared = [call for call in batch.calls if not assumed_at or call.start <= assumed_at]
        own = [call for call in batch.named if call.node_of(pod.uid) is not None]
        if own:
            attempt.node_name = own[-1].node_of(pod.uid) or ""
        links = [link for call in (*shared, *own) if (link := self._adopt_or_copy(attempt, call, now))]
        if permit_seconds := batch.permit_seconds.get(pod.uid):
            started = max((call.end for call in own if call.name == "Permit"), default=assumed_at)
            self._add(attempt, "Permit wait", attempt.span_id, started, started + permit_seconds)
        span = Span(
            "Attempt", TraceContext(attempt.trace_id, attempt.span_id, True), attempt.root_id, pod.popped_at, now
        )
        span.attributes = {**_attributes(pod, attempt), "trireme.attempt": pod.attempts}
        span.links, span.error = links, error
        span.events = [("assumed", assumed_at)] if assumed_at else []
        span.events += [("FailedScheduling" if error else "Scheduled", now)]
        self._recorder.add(span)

    def _adopt_or_copy(self, attempt: Attempt, call: Call, now: float) -> TraceContext | None:
        """Make a call that nobody exports a part of the attempt; copy another's, and return the context to link."""
        if not call.sampled:
            call.owner, call.trace_id, call.sampled = attempt, attempt.trace_id, True
            if call.end:
                self._export_call(call)
        if call.owner is attempt:
            return None
        copy = Span(call.name, self._context(attempt), attempt.span_id, call.start, call.end or now)
        copy.links, copy.error = [call.context], call.error
        self._recorder.add(copy)
        return call.context

    def _export_root(self, attempt: Attempt, pod: queued_pod.QueuedPodInfo, now: float) -> None:
        """Export the root of the pod's trace: from its creation to its binding."""
        created = pod.record.pod.parsed.created
        start = min(pod.first_queued_at, created or pod.first_queued_at)
        span = Span("Pod", TraceContext(attempt.trace_id, attempt.root_id, True), 0, start, now)
        span.attributes = {**_attributes(pod, attempt), "trireme.attempts": pod.attempts}
        self._recorder.add(span)

    def _add(self, attempt: Attempt, name: str, parent_id: int, start: float, end: float) -> None:
        self._recorder.add(Span(name, self._context(attempt), parent_id, start, end))

    def _context(self, attempt: Attempt) -> TraceContext:
        """A new span of the attempt's trace."""
        return TraceContext(attempt.trace_id, spans.new_id(), True)


def _attributes(pod: queued_pod.QueuedPodInfo, attempt: Attempt) -> dict[str, str | int]:
    """Which pod it is, and where."""
    namespace, _, name = pod.key.partition("/")
    out: dict[str, str | int] = {
        "k8s.namespace.name": namespace,
        "k8s.pod.name": name,
        "k8s.pod.uid": pod.uid,
        "trireme.profile": pod.record.profile,
    }
    if attempt.node_name:
        out["k8s.node.name"] = attempt.node_name
    return out
