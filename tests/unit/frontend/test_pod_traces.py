"""Which spans the traces of pods have, and which traces are kept."""

from collections.abc import AsyncIterator

import pytest

from tests.helpers import queue_builders, recorded_spans
from trireme.frontend.tracing import pod_traces
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.tracing import trace_context
from trireme.v1 import filter_phase_pb2

T0 = queue_builders.T0


class Scheduler:
    """Reports what happens to pods, a second between any two things."""

    def __init__(self, *sampled: str) -> None:
        ids = {pod_traces.ids_of_pod(f"uid-{name}")[0] for name in sampled}
        self.recorder = recorded_spans.RecordedSpans(lambda trace_id: trace_id in ids)
        self.traces = pod_traces.PodTraces(self.recorder, 60.0, self.now)
        self._now = T0

    def now(self) -> float:
        self._now += 1.0
        return self._now

    def pop(self, *names: str, attempts: int = 1) -> list[QueuedPodInfo]:
        """The pods are queued, and later taken from the queue together."""
        pods = [QueuedPodInfo(queue_builders.record(name), self.now()) for name in names]
        popped_at = self.now()
        for pod in pods:
            pod.attempts, pod.popped_at = attempts, popped_at
        self.traces.begin(pods)
        return pods

    def call(self, name: str) -> trace_context.TraceContext | None:
        """A call about the pods that were taken; what phases get of the trace."""
        with self.traces.batch_call(name):
            return trace_context.current.get()

    def bind(self, *pods: QueuedPodInfo) -> None:
        """The pods are assumed and bound, by one call."""
        self.traces.note_assumed([pod.uid for pod in pods])
        with self.traces.call_about("Bind", [(pod.uid, "n1") for pod in pods]):
            self.now()
        for pod in pods:
            self.traces.end(pod, self.now())

    def tree(self, name: str) -> list[str]:
        """The names of the spans of a pod's trace."""
        return self.recorder.tree(pod_traces.ids_of_pod(f"uid-{name}")[0])


WHOLE = ["Pod", " Queue", " Attempt", "  Filter", "  Place", "  Bind"]


def test_a_sampled_pod_has_one_trace_from_its_creation_to_its_binding() -> None:
    scheduler = Scheduler("a")
    (pod,) = scheduler.pop("a")
    contexts = [scheduler.call("Filter"), scheduler.call("Place")]
    scheduler.bind(pod)
    assert scheduler.tree("a") == WHOLE
    (root,), (attempt,) = scheduler.recorder.named("Pod"), scheduler.recorder.named("Attempt")
    assert (root.start, root.end) == (pod.first_queued_at, attempt.end)
    assert root.attributes["k8s.node.name"] == "n1"
    assert [name for name, _ in attempt.events] == ["assumed", "Scheduled"]
    assert [span.context for span in scheduler.recorder.named("Filter")] == contexts[:1]
    assert all(context is not None and context.sampled for context in contexts)


def test_a_pod_that_is_not_sampled_has_none() -> None:
    scheduler = Scheduler()
    (pod,) = scheduler.pop("a")
    context = scheduler.call("Filter")
    assert context is not None
    assert not context.sampled  # phases and plugins pass that on, and record nothing
    scheduler.bind(pod)
    assert not scheduler.recorder.spans


def test_a_failed_attempt_is_kept_whatever_is_sampled() -> None:
    scheduler = Scheduler()
    (pod,) = scheduler.pop("a")
    scheduler.call("Filter")
    assert scheduler.traces.end(pod, scheduler.now(), "0/3 nodes are available") == pod_traces.ids_of_pod("uid-a")[0]
    assert [span.name for span in scheduler.recorder.spans] == ["Queue", "Filter", "Attempt"]
    assert scheduler.recorder.named("Attempt")[0].error == "0/3 nodes are available"


def test_later_attempts_of_a_pod_are_sampled_and_in_the_same_trace() -> None:
    """The root comes with the binding: without them it would hang in the air, or failed attempts would."""
    scheduler = Scheduler()
    (pod,) = scheduler.pop("a")
    scheduler.traces.end(pod, scheduler.now(), "no")
    (pod,) = scheduler.pop("a", attempts=2)
    context = scheduler.call("Filter")
    assert context is not None
    assert context.sampled
    scheduler.bind(pod)
    assert [line for line in scheduler.tree("a") if line.startswith(" Att")] == [" Attempt"] * 2


def test_an_attempt_that_takes_long_is_kept() -> None:
    scheduler = Scheduler()
    (pod,) = scheduler.pop("a")
    for _ in range(60):
        scheduler.now()
    scheduler.bind(pod)
    assert scheduler.tree("a") == ["Pod", " Queue", " Attempt", "  Bind"]


def test_calls_of_a_batch_are_part_of_the_trace_of_a_sampled_pod_and_others_link_to_them() -> None:
    scheduler = Scheduler("a")
    pods = scheduler.pop("a", "b", "c")
    scheduler.call("Filter")
    scheduler.call("Place")
    scheduler.bind(*pods)
    assert scheduler.tree("a") == scheduler.tree("b") == scheduler.tree("c") == WHOLE
    of_a, *others = scheduler.recorder.named("Filter")
    assert of_a.context.trace_id == pod_traces.ids_of_pod("uid-a")[0]
    assert [list(other.links) for other in others] == [[of_a.context]] * 2


def test_a_batch_whose_first_pod_is_not_sampled_is_not_traced() -> None:
    """Its calls would be for the trace of one of its pods: most batches have one that a ratio of the pods samples."""
    scheduler = Scheduler("b", "c")
    pods = scheduler.pop("a", "b", "c")
    context = scheduler.call("Filter")
    assert context is not None
    assert (context.trace_id, context.sampled) == (pod_traces.ids_of_pod("uid-a")[0], False)
    scheduler.bind(*pods)
    assert not scheduler.recorder.spans


def test_a_ratio_of_the_pods_is_sampled_whatever_the_size_of_their_batches() -> None:
    scheduler = Scheduler()
    scheduler.recorder.samples = lambda trace_id: trace_id % 4 == 0
    for size in (1, 2, 5):
        for number in range(0, 1000, size):
            scheduler.bind(*scheduler.pop(*(f"{size}-{each}" for each in range(number, number + size))))
    found = len(scheduler.recorder.named("Attempt")) / 3000
    assert 0.2 < found < 0.3


def test_a_later_attempt_is_sampled_in_a_batch_that_is_not() -> None:
    scheduler = Scheduler()
    (pod,) = scheduler.pop("b", attempts=2)
    first = QueuedPodInfo(queue_builders.record("a"), pod.timestamp)
    first.attempts, first.popped_at = 1, pod.popped_at
    scheduler.traces.begin([first, pod])
    scheduler.call("Filter")
    scheduler.bind(first, pod)
    assert scheduler.tree("a") == []
    assert scheduler.tree("b") == ["Pod", " Queue", " Attempt", "  Filter", "  Bind"]
    assert scheduler.recorder.named("Filter")[0].context.trace_id == pod_traces.ids_of_pod("uid-b")[0]


def test_calls_that_no_pod_was_sampled_for_become_those_of_the_first_one_that_is_kept() -> None:
    scheduler = Scheduler()
    first, second = scheduler.pop("a", "b")
    scheduler.call("Filter")
    scheduler.traces.end(second, scheduler.now(), "no")
    scheduler.traces.end(first, scheduler.now(), "no")
    of_second, of_first = scheduler.recorder.named("Filter")
    assert of_second.context.trace_id == pod_traces.ids_of_pod("uid-b")[0]
    assert list(of_first.links) == [of_second.context]


def test_calls_for_other_pods_of_the_batch_are_left_out() -> None:
    scheduler = Scheduler("a", "b")
    first, second = scheduler.pop("a", "b")
    scheduler.call("Place")
    scheduler.bind(first)
    scheduler.call("Place")
    scheduler.bind(second)
    assert scheduler.tree("b") == ["Pod", " Queue", " Attempt", "  Place", "  Place", "  Bind"]
    assert [span.name for span in scheduler.recorder.of_trace(pod_traces.ids_of_pod("uid-a")[0])].count("Place") == 2


def test_a_call_that_names_other_pods_of_the_batch_is_left_out() -> None:
    scheduler = Scheduler("a", "b")
    first, second = scheduler.pop("a", "b")
    with scheduler.traces.call_about("Permit", [(first.uid, "n1")]):
        scheduler.now()
    scheduler.bind(first, second)
    assert scheduler.tree("a") == ["Pod", " Queue", " Attempt", "  Permit", "  Bind"]
    assert scheduler.tree("b") == ["Pod", " Queue", " Attempt", "  Bind"]


def test_a_call_about_pods_of_several_batches_is_in_the_traces_of_all() -> None:
    """They share calls of Bind."""
    scheduler = Scheduler("b")
    batches = scheduler.pop("a"), scheduler.pop("b"), scheduler.pop("c")
    pods = [pod for batch in batches for pod in batch]
    with scheduler.traces.call_about("Bind", [(pod.uid, f"on-{pod.uid}") for pod in pods]):
        inside = trace_context.current.get()
    for pod in pods:
        scheduler.traces.end(pod, scheduler.now(), "no" if pod.uid != "uid-b" else "")
    owned, *copies = scheduler.recorder.named("Bind")
    assert owned.context == inside
    assert owned.context.trace_id == pod_traces.ids_of_pod("uid-b")[0]
    assert [list(copy.links) for copy in copies] == [[owned.context]] * 2
    nodes = {
        span.attributes["k8s.pod.uid"]: span.attributes["k8s.node.name"] for span in scheduler.recorder.named("Attempt")
    }
    assert nodes == {pod.uid: f"on-{pod.uid}" for pod in pods}


def test_a_call_that_no_sampled_pod_has_is_in_the_trace_of_the_first_pod_that_it_names() -> None:
    """Plugins that log the id name a pod that they are called about."""
    scheduler = Scheduler()
    _, second = scheduler.pop("a", "b")
    with scheduler.traces.call_about("Permit", [("gone", "n1"), (second.uid, "n1")]):
        inside = trace_context.current.get()
    assert inside is not None
    assert (inside.trace_id, inside.sampled) == (pod_traces.ids_of_pod("uid-b")[0], False)


def test_a_call_about_pods_that_are_not_tried_is_in_no_trace() -> None:
    scheduler = Scheduler("a")
    with scheduler.traces.call_about("Permit", [("uid-a", "n1")]) as call:
        assert (call, trace_context.current.get()) == (None, None)


async def test_a_stream_about_pods_is_a_call_that_ends_with_its_last_answer() -> None:
    scheduler = Scheduler("a")
    (pod,) = scheduler.pop("a")
    contexts = []

    async def answers() -> AsyncIterator[int]:
        for number in range(2):
            contexts.append(trace_context.current.get())
            yield number

    async for _ in scheduler.traces.stream_about("Bind", [(pod.uid, "n1")], answers()):
        assert not scheduler.recorder.spans
    (span,) = scheduler.recorder.spans
    assert contexts == [span.context] * 2
    assert span.end > span.start


def test_a_call_for_pods_that_are_still_in_the_queue_is_a_trace_that_theirs_link_to() -> None:
    scheduler = Scheduler("a")
    scheduler.recorder.samples = lambda trace_id: True
    pod = QueuedPodInfo(queue_builders.record("a"), scheduler.now())
    pod.attempts, pod.popped_at = 1, scheduler.now()
    with scheduler.traces.call_ahead("FilterAndPlaceClasses"):
        scheduler.now()
    scheduler.traces.begin([pod])
    scheduler.bind(pod)
    assert scheduler.tree("a") == ["Pod", " Queue", " Attempt", "  FilterAndPlaceClasses", "  Bind"]
    ahead, copy = scheduler.recorder.named("FilterAndPlaceClasses")
    assert (ahead.parent_id, list(copy.links)) == (0, [ahead.context])


def test_a_call_for_no_pod_that_waits_for_a_node_is_in_no_trace() -> None:
    """Places found by speculation are for pods that may never come."""
    scheduler = Scheduler("a")
    scheduler.bind(*scheduler.pop("a"))
    assert scheduler.call("Filter") is None


def test_plugins_follow_one_another_below_their_call() -> None:
    scheduler = Scheduler("a")
    (pod,) = scheduler.pop("a")
    with scheduler.traces.batch_call("Filter") as call:
        assert call is not None
        call.timings = [
            filter_phase_pb2.Timing(extension_point="Filter", duration_us=300_000),
            filter_phase_pb2.Timing(extension_point="Filter", plugin="Fit", duration_us=200_000),
            filter_phase_pb2.Timing(extension_point="Filter", plugin="Ports", duration_us=100_000),
            filter_phase_pb2.Timing(extension_point="PreScore", duration_us=900_000),
        ]
    scheduler.bind(pod)
    assert scheduler.tree("a")[3:7] == ["  Filter", "   Filter Fit", "   Filter Ports", "   PreScore"]
    fit, ports, last = (scheduler.recorder.named(name)[0] for name in ("Filter Fit", "Filter Ports", "PreScore"))
    assert ports.start == fit.end == pytest.approx(fit.start + 0.2)
    assert last.end == scheduler.recorder.named("Filter")[0].end


def test_the_wait_on_permit_is_a_span() -> None:
    scheduler = Scheduler("a")
    (pod,) = scheduler.pop("a")
    scheduler.traces.note_permit_wait(pod.uid, 0.5)
    scheduler.bind(pod)
    (wait,) = scheduler.recorder.named("Permit wait")
    assert wait.end - wait.start == 0.5


def test_a_call_that_fails_says_why() -> None:
    scheduler = Scheduler("a")
    scheduler.pop("a")
    with pytest.raises(ValueError, match="broken"), scheduler.traces.batch_call("Filter"):
        raise ValueError("broken")
    assert scheduler.recorder.named("Filter")[0].error == "broken"


def test_attempts_that_never_end_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of pods that are deleted while they are tried: nobody reports them."""
    monkeypatch.setattr(pod_traces, "MAX_ATTEMPTS", 2)
    scheduler = Scheduler("a", "b", "c")
    first, second = scheduler.pop("a"), scheduler.pop("b", "c")
    scheduler.bind(*first, *second)
    assert [bool(scheduler.tree(name)) for name in "abc"] == [False, True, True]
