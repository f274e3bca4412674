"""The traces of pods: one for each pod, from its creation to its binding, whichever frontends led meanwhile.

A trace's id is a digest of the pod's UID, as is the id of its root; so attempts by several leaders are in one trace,
and `trireme explain` names it without having stored anything. Under the root there is for each attempt the wait in
the queue and the attempt, with the calls that were made in it.

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
from collections.abc import Callable, Iterable, Iterator, Sequence

from trireme.queueing import queued_pod
from trireme.tracing import spans, trace_context
from trireme.tracing.spans import Kind, Span
from trireme.tracing.trace_context import TraceContext
from trireme.v1 import filter_phase_pb2

# Attempts beyond are forgotten, the oldest first: those of pods that are deleted while they are tried never end.
MAX_ATTEMPTS = 100_000


class Call:
    """A call about pods. `owner`: the attempt that its span is a part of; None: the span is a root."""

    __slots__ = ("end", "error", "name", "owner", "sampled", "span_id", "start", "timings", "trace_id")

    def __init__(self, name: str, owner: "Attempt | None", trace_id: int, sampled: bool, start: float) -> None:
        self.name = name
        self.owner = owner
        self.trace_id = trace_id
        self.span_id = spans.new_id()
        self.sampled = sampled
        self.start = start
        self.end = 0.0  # 0: it has not ended
        self.error = ""
        #: How long extension points and plugins took, as phases report it.
        self.timings: Sequence[filter_phase_pb2.Timing] = ()

    @property
    def context(self) -> TraceContext:
        """What phases get of it."""
        return TraceContext(self.trace_id, self.span_id, self.sampled)


class _Batch:
    """The pods that were taken from the queue together, and the calls about all of them."""

    __slots__ = ("calls", "owner", "undecided")

    def __init__(self, calls: list[Call], undecided: int) -> None:
        self.calls = calls
        self.undecided = undecided  # pods that have neither a node nor a failure
        self.owner: Attempt | None = None


class Attempt:
    """An attempt at a pod, until it ends."""

    __slots__ = (
        "assumed_at",
        "batch",
        "calls",
        "node_name",
        "permit_seconds",
        "root_id",
        "sampled",
        "span_id",
        "trace_id",
    )

    def __init__(self, ids: tuple[int, int], sampled: bool, batch: _Batch) -> None:
        self.trace_id, self.root_id = ids
        self.span_id = spans.new_id()
        self.sampled = sampled
        self.batch = batch
        self.assumed_at = 0.0
        self.permit_seconds = 0.0
        self.node_name = ""
        #: The calls that name the pod: Reserve and all that follow.
        self.calls: list[Call] = []


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
        self._attempts: dict[str, Attempt] = {}
        self._batch: _Batch | None = None
        # The last call that was made for pods before they were taken from the queue.
        self._ahead: Call | None = None

    def begin(self, pods: Sequence[queued_pod.QueuedPodInfo]) -> None:
        """Begin attempts at pods that were taken from the queue together."""
        ahead = self._ahead
        shared = [ahead] if ahead is not None and pods and pods[0].popped_at <= ahead.start else []
        batch = self._batch = _Batch(shared, len(pods))
        for pod in pods:
            ids = ids_of_pod(pod.uid)
            sampled = pod.attempts > 1 or self._recorder.samples(ids[0])
            attempt = self._attempts[pod.uid] = Attempt(ids, sampled, batch)
            if batch.owner is None or (sampled and not batch.owner.sampled):
                batch.owner = attempt
        for uid in list(itertools.islice(self._attempts, max(len(self._attempts) - MAX_ATTEMPTS, 0))):
            del self._attempts[uid]

    @contextlib.contextmanager
    def batch_call(self, name: str) -> Iterator[Call | None]:
        """A call about the pods that were taken last; None for one that is made for none of them."""
        batch = self._batch
        if batch is None or batch.owner is None or not batch.undecided:
            yield None
            return
        with self._within(self._open(name, batch.owner, batch.calls)) as call:
            yield call

    @contextlib.contextmanager
    def call_ahead(self, name: str) -> Iterator[Call]:
        """A call for pods that are still in the queue: a trace of its own, to which those of the pods link."""
        trace_id = spans.new_id() << 64 | spans.new_id()
        self._ahead = Call(name, None, trace_id, self._recorder.samples(trace_id), self._now())
        with self._within(self._ahead) as call:
            yield call

    @contextlib.contextmanager
    def call_about(self, name: str, placements: Iterable[tuple[str, str]]) -> Iterator[None]:
        """A call about pods by UID, each with the node that it is placed on."""
        call = self.open_call(name, placements)
        if call is None:
            yield
            return
        with self._within(call):
            yield

    def open_call(self, name: str, placements: Iterable[tuple[str, str]]) -> Call | None:
        """Begin a call as `call_about` does, for `close_call` to end; None: none of the pods is being tried."""
        attempts = []
        for uid, node_name in placements:
            if (attempt := self._attempts.get(uid)) is not None:
                attempt.node_name = node_name
                attempts.append(attempt)
        if not attempts:
            return None
        owner = next((attempt for attempt in attempts if attempt.sampled), attempts[0])
        return self._open(name, owner, *(attempt.calls for attempt in attempts))

    def close_call(self, call: Call, error: str = "") -> None:
        """End a call, which failed with this error if there is one."""
        call.end, call.error = self._now(), error
        if call.sampled:
            self._export_call(call)

    def note_assumed(self, uids: Iterable[str]) -> None:
        """The pods are assumed on their nodes."""
        now = self._now()
        for uid in uids:
            if (attempt := self._attempts.get(uid)) is not None:
                attempt.assumed_at = now
                attempt.batch.undecided -= 1

    def note_permit_wait(self, uid: str, seconds: float) -> None:
        """The pod waited on Permit."""
        if (attempt := self._attempts.get(uid)) is not None:
            attempt.permit_seconds = seconds

    def end(self, pod: queued_pod.QueuedPodInfo, now: float, error: str = "") -> int:
        """End the attempt at a pod that is bound, or failed with this error; its trace's id, 0 if it is not kept."""
        attempt = self._attempts.pop(pod.uid, None)
        if attempt is None:
            return 0
        if not attempt.assumed_at:
            attempt.batch.undecided -= 1
        if not (attempt.sampled or error or now - pod.popped_at >= self._slow_seconds):
            return 0
        self._export_attempt(attempt, pod, now, error)
        if not error:
            self._export_root(attempt, pod, now)
        return attempt.trace_id

    def _open(self, name: str, owner: Attempt, *lists: list[Call]) -> Call:
        """Begin a call of the owner, and add it to the lists."""
        call = Call(name, owner, owner.trace_id, owner.sampled, self._now())
        for calls in lists:
            calls.append(call)
        return call

    @contextlib.contextmanager
    def _within(self, call: Call) -> Iterator[Call]:
        """Make the block the call, which ends with it."""
        error = ""
        try:
            with trace_context.use(call.context):
                yield call
        except BaseException as failure:
            error = str(failure) or type(failure).__name__
            raise
        finally:
            self.close_call(call, error)

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

    def _export_attempt(self, attempt: Attempt, pod: queued_pod.QueuedPodInfo, now: float, error: str) -> None:
        """Export the wait in the queue, the attempt, and its calls."""
        queued_at = pod.timestamp if pod.attempts > 1 else min(pod.first_queued_at, pod.timestamp)
        self._add(attempt, "Queue", attempt.root_id, queued_at, pod.popped_at)
        assumed_at = attempt.assumed_at
        shared = [call for call in attempt.batch.calls if not assumed_at or call.start <= assumed_at]
        links = [link for call in (*shared, *attempt.calls) if (link := self._adopt_or_copy(attempt, call, now))]
        if attempt.permit_seconds:
            started = max((call.end for call in attempt.calls if call.name == "Permit"), default=assumed_at)
            self._add(attempt, "Permit wait", attempt.span_id, started, started + attempt.permit_seconds)
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
