"""AttemptReporter: the condition of a pod whose attempt failed is written, and only where it says something new."""

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from tests.helpers import queue_builders
from tests.helpers.metric_values import counts
from tests.helpers.preemption_world import record
from tests.helpers.virtual_time import on_virtual_time
from trireme.cache import pod_projection
from trireme.framework import status
from trireme.frontend import scheduler_metrics
from trireme.queueing import pending_pod, queued_pod
from trireme.scheduling import attempt_reporter, failure, status_outbox
from trireme.v1 import bind_pb2
from trireme.wire import status as wire_status
from trireme_kube.client.events import event_series
from trireme_kube.client.events.event_series import ObjectReference


class _Bind:
    """Executes actions; as many as `failures` fail."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.messages: list[str] = []
        self.since: list[int] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self.nominations: list[str | None] = []

    async def apply(
        self, actions: Sequence[bind_pb2.Action], on_result: Callable[[int, bind_pb2.BindResult], None]
    ) -> None:
        self.meanwhile()
        for index, action in enumerate(actions):
            self.messages.append(action.set_condition.condition.message)
            wanted = action.set_condition
            nominates = wanted.HasField("nominated_node_name")
            self.nominations.append(wanted.nominated_node_name if nominates else None)
            self.since.append(action.set_condition.condition.last_transition_time.seconds)
            outcome = status.SUCCESS if self.failures <= 0 else status.error("", "a fault was injected")
            self.failures -= 1
            on_result(index, bind_pb2.BindResult(index=index, status=wire_status.to_message(outcome)))


async def _messages(failures: int, attempts: Sequence[str]) -> list[str]:
    """The messages that bind is sent when a pod fails so often, with these messages."""
    bind = _Bind(failures)
    outbox = status_outbox.StatusOutbox(bind.apply)
    queue = queue_builders.queue()
    unused: Any = mock.Mock()
    reporter = attempt_reporter.AttemptReporter(
        queue,
        unused,
        pending=lambda uid: queue_builders.pending("p", uid),
        execute=lambda instructions: None,
        outbox=outbox,
        now=lambda: queue_builders.T0,
        wall=lambda: 1_800_000_000.0,
        observer=unused,
    )
    queue.add(queue_builders.record("p"), queue_builders.T0)
    task = asyncio.create_task(outbox.run())
    for number, message in enumerate(attempts):
        (pod,) = queue_builders.popped(queue, queue_builders.T0 + 1000 * number)
        reporter.report_failure(pod, failure.Failure(message, frozenset({"Fit"})))
        await asyncio.sleep(1)
        queue.activate([(pod.key, pod.uid)], queue_builders.T0 + 1000 * number)
    task.cancel()
    await asyncio.wait([task])
    return bind.messages


@pytest.mark.parametrize(
    ("failures", "attempts", "messages"),
    [
        pytest.param(0, ["no", "no", "no"], ["no"], id="the-same"),
        pytest.param(0, ["no", "never"], ["no", "never"], id="another"),
        pytest.param(1, ["no", "no", "no"], ["no", "no"], id="the-first-fails"),
        pytest.param(2, ["no", "no", "no", "no"], ["no", "no", "no"], id="two-fail"),
        pytest.param(1, ["no", "never", "never"], ["no", "never"], id="the-first-fails-and-another"),
    ],
)
def test_a_condition_is_sent_until_it_is_written(failures: int, attempts: list[str], messages: list[str]) -> None:
    @on_virtual_time
    async def sent() -> None:
        assert await _messages(failures, attempts) == messages

    sent()


class _Reports:
    """A reporter with a queue, whose writes and events are kept. `known` is what the API server shows of the pods."""

    def __init__(self, bind: _Bind | None = None) -> None:
        self.bind = bind or _Bind(0)
        self.queue = queue_builders.queue()
        self.known: dict[str, pending_pod.PendingPod] = {}
        self.events: list[tuple[str, ...]] = []
        self.wall = 1_800_000_000.0
        self.metrics = scheduler_metrics.SchedulerMetrics()
        self.outbox = status_outbox.StatusOutbox(self.bind.apply)
        self.reporter = attempt_reporter.AttemptReporter(
            self.queue,
            self,
            pending=self.known.get,
            execute=lambda instructions: None,
            outbox=self.outbox,
            now=lambda: queue_builders.T0,
            wall=lambda: self.wall,
            observer=self.metrics,
        )

    def record(self, regarding: ObjectReference, *rest: str) -> None:
        self.events.append((regarding.name, *rest))

    def record_scheduled(self, pod: ObjectReference, node: str, controller: str) -> None:
        self.events.append((pod.name, "Scheduled", node, controller))

    def popped(self) -> queued_pod.QueuedPodInfo:
        """The pod p in its first attempt; the API server shows it without a condition."""
        self.known["uid-p"] = queue_builders.pending("p", "uid-p")
        self.queue.add(queue_builders.record("p"), queue_builders.T0)
        (pod,) = queue_builders.popped(self.queue, queue_builders.T0)
        return pod

    def again(self, pod: queued_pod.QueuedPodInfo) -> None:
        """The pod's next attempt begins."""
        self.queue.activate([(pod.key, pod.uid)], queue_builders.T0)
        assert queue_builders.popped(self.queue, queue_builders.T0) == [pod]

    def show_condition(self, message: str, since: str = "", value: str = "False") -> None:
        """The API server shows the pod with this condition, and nominated for no node."""
        condition = {"type": "PodScheduled", "status": value, "reason": "Unschedulable", "message": message}
        if since:
            condition["lastTransitionTime"] = since
        metadata = {"namespace": "ns", "name": "p", "uid": "uid-p"}
        parsed = pod_projection.parse({"metadata": metadata, "status": {"conditions": [condition]}})
        self.known["uid-p"] = pending_pod.PendingPod(parsed, 1, 1)

    async def write(self) -> list[str]:
        """Send what waits; returns the messages of all conditions that were sent so far."""
        task = asyncio.create_task(self.outbox.run())
        for _ in range(10):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return self.bind.messages


_REFUSED = failure.Failure("no", frozenset({"Fit"}))
_PLACEMENT = failure.RefusedPlacement("Permit", "n0", status.unschedulable("Fit", "no"))
_PROFILE = "default-scheduler"


@pytest.mark.parametrize(
    ("why", "result"), [(_REFUSED, "unschedulable"), (failure.Failure("no"), "error")], ids=["refused", "by error"]
)
def test_a_failed_attempt_has_a_metric_and_an_event(why: failure.Failure, result: str) -> None:
    reports = _Reports()
    reports.reporter.report_failure(reports.popped(), why)
    assert reports.events == [("p", "Warning", "FailedScheduling", "Scheduling", "no", _PROFILE)]
    assert counts(reports.metrics.instruments.schedule_attempts) == {f"{result} {_PROFILE}": 1}


def test_who_refused_the_node_is_known_until_the_next_attempt_ends() -> None:
    """`trireme explain` would name a node that the last attempt had not chosen."""
    reports = _Reports()
    pod = reports.popped()
    placed = dataclasses.replace(_REFUSED, placement=_PLACEMENT)
    reports.reporter.report_failure(pod, placed)
    assert reports.reporter.refused_placement(pod.uid) == _PLACEMENT
    reports.again(pod)
    reports.reporter.report_failure(pod, _REFUSED)
    assert reports.reporter.refused_placement(pod.uid) is None
    reports.again(pod)
    reports.known.clear()
    reports.reporter.report_failure(pod, placed)
    assert reports.reporter.refused_placement(pod.uid) is None, "a pod that is gone is not remembered"


def test_the_failure_of_a_pod_that_is_gone_is_not_remembered() -> None:
    """A pod of its UID is gone for good, and nothing else would forget it."""
    reports = _Reports()
    pod = reports.popped()
    reports.reporter.report_failure(pod, _REFUSED)
    assert reports.reporter.last_failure(pod.uid) == "no"
    reports.again(pod)
    reports.known.clear()
    reports.reporter.report_failure(pod, _REFUSED)
    assert reports.reporter.last_failure(pod.uid) == ""
    assert not reports.reporter.last_statuses(pod.uid)


@pytest.mark.parametrize("gone", [False, True], ids=["refused-before-a-node-was-chosen", "gone"])
def test_nothing_is_kept_of_a_node_that_nobody_refused(gone: bool) -> None:
    """Each pod that waits would take memory for it."""
    reports = _Reports()
    pod = reports.popped()
    for why in (dataclasses.replace(_REFUSED, placement=_PLACEMENT), _REFUSED):
        if gone:
            reports.known.clear()
        reports.reporter.report_failure(pod, why)
        reports.again(pod)
    assert not reports.reporter._refused


async def test_a_pod_that_is_gone_or_bound_has_neither_event_nor_condition() -> None:
    reports = _Reports()
    pod = reports.popped()
    reports.known.clear()
    reports.reporter.report_failure(pod, _REFUSED)
    assert reports.events == []
    assert await reports.write() == []


@pytest.mark.parametrize("how", ["gone while it fails", "forgotten"])
async def test_a_nomination_of_a_pod_that_was_gone_is_not_compared_with(how: str) -> None:
    """It would be written again that the pod is nominated for no node."""
    reports = _Reports()
    pod = reports.popped()
    reports.reporter.note_nomination_written(pod, "n0")
    if how == "forgotten":
        reports.reporter.forget(pod.uid)
    else:
        reports.known.clear()
        reports.reporter.report_failure(pod, _REFUSED)
        reports.again(pod)
    reports.show_condition("no")
    reports.reporter.report_failure(pod, dataclasses.replace(_REFUSED, nominated_node=""))
    assert await reports.write() == []


async def test_a_nomination_that_was_written_is_taken_back() -> None:
    """The object may show it later than it was written."""
    reports = _Reports()
    pod = reports.popped()
    reports.show_condition("no")
    reports.reporter.note_nomination_written(pod, "n0")
    for _ in range(2):
        reports.reporter.report_failure(pod, dataclasses.replace(_REFUSED, nominated_node=""))
        assert await reports.write() == ["no"]
        reports.again(pod)


async def test_a_write_that_failed_is_not_made_up_for_once_the_pod_is_forgotten() -> None:
    reports = _Reports(_Bind(1))
    pod = reports.popped()
    reports.reporter.report_failure(pod, _REFUSED)
    assert await reports.write() == ["no"]
    reports.reporter.forget(pod.uid)
    reports.show_condition("no")
    reports.again(pod)
    reports.reporter.report_failure(pod, _REFUSED)
    assert await reports.write() == ["no"]


async def test_a_bound_pod_has_a_metric_and_an_event_and_its_failures_are_forgotten() -> None:
    """A condition that is written after the binding calls a bound pod unschedulable."""
    reports = _Reports()
    pod = reports.popped()
    reports.reporter.report_failure(pod, dataclasses.replace(_REFUSED, placement=_PLACEMENT))
    reports.again(pod)
    del reports.events[:]
    reports.reporter.report_bound(pod, "n1", (2, 1))
    assert reports.events == [("p", "Scheduled", "n1", _PROFILE)]
    assert counts(reports.metrics.instruments.schedule_attempts)[f"scheduled {_PROFILE}"] == 1
    assert reports.reporter.last_failure(pod.uid) == ""
    assert reports.reporter.refused_placement(pod.uid) is None
    assert not reports.reporter.has_unwritten(pod.uid)
    assert await reports.write() == []


def test_the_attempt_of_a_pod_that_is_skipped_ends_and_an_event_says_so() -> None:
    """While its attempt goes on, the queue records all events for it."""
    reports = _Reports()
    pod = reports.popped()
    assert reports.queue.statistics().in_flight == 1
    reports.reporter.report_skipped(pod)
    assert reports.queue.statistics().in_flight == 0
    text = "skip schedule deleting pod: ns/p"
    assert reports.events == [("p", "Warning", "FailedScheduling", "Scheduling", text, _PROFILE)]


def test_victims_and_devices_have_events() -> None:
    reports = _Reports()
    pod = reports.popped()
    reports.reporter.report_devices_pending(pod, "n0")
    text = "waiting for binding conditions for device on node n0"
    assert reports.events.pop() == ("p", "Normal", "BindingConditionsPending", "Scheduling", text, _PROFILE)
    reports.reporter.report_preempted(event_series.pod_reference("ns", "v", "u", "1"), "gone", _PROFILE)
    assert reports.events.pop() == ("v", "Normal", "Preempted", "Preempting", "gone", _PROFILE)


async def test_a_condition_keeps_the_time_of_the_first_failure() -> None:
    """Also that of another scheduler, or of this one before it was restarted."""
    reports = _Reports()
    pod = reports.popped()
    reports.reporter.report_failure(pod, _REFUSED)
    reports.again(pod)
    reports.wall = 1_800_000_100.0
    reports.reporter.report_failure(pod, dataclasses.replace(_REFUSED, message="never"))
    await reports.write()
    assert reports.bind.since[-1] == 1_800_000_000
    reports.reporter.forget(pod.uid)
    reports.show_condition("no", since="2026-01-01T00:00:00Z")
    reports.again(pod)
    reports.reporter.report_failure(pod, dataclasses.replace(_REFUSED, message="another"))
    await reports.write()
    assert reports.bind.since[-1] == 1_767_225_600


async def test_what_was_sent_counts_until_the_object_shows_it() -> None:
    """The object shows the condition of an attempt before that."""
    reports = _Reports()
    pod = reports.popped()
    reports.show_condition("no")
    for message in ("never", "no", "no"):
        reports.reporter.report_failure(pod, dataclasses.replace(_REFUSED, message=message))
        await reports.write()
        reports.again(pod)
    assert reports.bind.messages == ["never", "no"]
    assert reports.bind.since[0] == int(reports.wall), "the object's condition has no time"


async def test_a_condition_that_says_scheduled_is_no_earlier_failure() -> None:
    reports = _Reports()
    pod = reports.popped()
    reports.show_condition("no", value="True")
    reports.reporter.report_failure(pod, _REFUSED)
    assert await reports.write() == ["no"]


async def test_a_nomination_that_stays_is_not_written_again() -> None:
    """Somebody may have cleared it meanwhile."""
    reports = _Reports()
    pod = reports.popped()
    reports.reporter.note_nomination_written(pod, "n0")
    reports.reporter.report_failure(pod, dataclasses.replace(_REFUSED, nominated_node="n0"))
    await reports.write()
    reports.again(pod)
    reports.reporter.note_nomination_written(pod, "n0")
    reports.reporter.report_failure(pod, dataclasses.replace(_REFUSED, message="x", nominated_node="n1"))
    await reports.write()
    assert reports.bind.nominations == [None, "n1"]


async def test_a_write_about_a_forgotten_pod_that_fails_is_forgotten_too() -> None:
    reports = _Reports(_Bind(1))
    pod = reports.popped()
    reports.reporter.report_failure(pod, _REFUSED)
    reports.bind.meanwhile = lambda: reports.reporter.forget(pod.uid)
    assert await reports.write() == ["no"]
    reports.bind.meanwhile = lambda: None
    reports.show_condition("no")
    reports.again(pod)
    reports.reporter.report_failure(pod, _REFUSED)
    assert await reports.write() == ["no"]


def test_a_skipped_pod_that_is_gone_has_no_event_and_a_running_one_has() -> None:
    """A pod whose resize is deferred has a node, and is pending nowhere else."""
    reports = _Reports()
    pod = reports.popped()
    reports.known.clear()
    reports.reporter.report_skipped(pod)
    assert reports.events == []
    metadata = {"namespace": "ns", "name": "r", "uid": "uid-r"}
    parsed = pod_projection.parse({"metadata": metadata, "spec": {"nodeName": "n0"}})
    record = queue_builders.record("r")._replace(pod=pending_pod.PendingPod(parsed, 1, 1))
    reports.queue.add(record, queue_builders.T0)
    (resized,) = queue_builders.popped(reports.queue, queue_builders.T0)
    reports.reporter.report_skipped(resized)
    assert [name for name, *_ in reports.events] == ["r"]


@pytest.mark.parametrize(("parsed", "on"), [(True, "vip"), (False, "name-a")], ids=["a pod", "a group"])
def test_a_refused_eviction_gets_an_event(parsed: bool, on: str) -> None:
    """The event says which victim stays and why; where the preemptor is no pod, the victim has it."""
    told: list[tuple[Any, ...]] = []
    shown = SimpleNamespace(namespace="ns", name="vip", uid="vip", resource_version=7)
    unused: Any = None
    recorder: Any = SimpleNamespace(record=lambda regarding, *rest: told.append((regarding.name, *rest)))
    preemptor: Any = SimpleNamespace(parsed=shown) if parsed else None
    results = attempt_reporter.AttemptReporter(
        unused,
        recorder,
        pending=lambda uid: preemptor,
        execute=lambda instructions: None,
        outbox=status_outbox.StatusOutbox(unused),
        now=lambda: 0.0,
        wall=lambda: 0.0,
        observer=scheduler_metrics.SchedulerMetrics(),
    )
    pod = queued_pod.QueuedPodInfo(record("vip", 100), 0.0)
    results.report_not_preempted(pod, event_series.pod_reference("ns", "name-a", "a", "1"), "n0", "forbidden")
    text = "cannot preempt pod ns/name-a on node n0: forbidden"
    assert told == [(on, "Warning", "PreemptionFailed", "Preempting", text, "p")]
