"""WakeUpCheck: which pods the request to insight has, and which answers count as missed wake-ups."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers import queue_builders
from tests.helpers.queue_builders import NODE_ADD, T0, fail, place, record
from trireme.frontend import scheduler_metrics, wake_up_check
from trireme.frontend.phase_clients import insight_replicas
from trireme.queueing.states import Active, Unschedulable
from trireme.v1 import cycle_pb2, insight_pb2


class World:
    """A queue whose pods plugins refused, and an insight that answers as the test says."""

    def __init__(self, *, wakes: bool = True, extender_class: int = 0) -> None:
        self.queue = queue_builders.queue()
        self.now = T0 + 60
        self.metrics = scheduler_metrics.SchedulerMetrics()
        #: Names of the pods that fit, and how many like each.
        self.fitting: dict[str, int] = {}
        #: Of so many pods of a request insight gives an answer.
        self.most = 1000
        self.cpu_ms = 1.0
        #: Added to the index of each pod that fits.
        self.past_the_end = 0
        self.fault: Exception | None = None
        self.requests: list[insight_pb2.FindFittingPodsRequest] = []
        #: What happens while insight is being asked, by the number of the request.
        self.meanwhile: dict[int, Callable[[], object]] = {}
        scheduling: Any = SimpleNamespace(
            queue=self.queue,
            scheduler=self,
            queue_executor=SimpleNamespace(execute=lambda instructions: None),
        )
        context: Any = SimpleNamespace(
            clocks=SimpleNamespace(now=lambda: self.now, wall=lambda: self.now - T0),
            settings=SimpleNamespace(config_hash=lambda: 7),
            leader=SimpleNamespace(fence=lambda: cycle_pb2.Fence(epoch=3)),
            metrics=self.metrics,
        )
        extenders: Any = SimpleNamespace(schedules_one_by_one=lambda class_id: class_id == extender_class)
        insight: Any = self
        self.check = wake_up_check.WakeUpCheck(
            context, scheduling, insight, lambda: 11, extenders, lambda moment: moment - T0, wakes=wakes
        )

    @contextlib.asynccontextmanager
    async def between_cycles(self) -> AsyncIterator[None]:
        yield

    async def find_fitting_pods(
        self, request: insight_pb2.FindFittingPodsRequest
    ) -> insight_pb2.FindFittingPodsResponse:
        self.requests.append(request)
        if self.fault is not None:
            raise self.fault
        self.meanwhile.get(len(self.requests), lambda: None)()
        response = insight_pb2.FindFittingPodsResponse(cpu_ms=self.cpu_ms)
        for index, asked in enumerate(request.pods[: self.most]):
            response.evaluated_count = index + 1
            if asked.pod.name in self.fitting:
                response.fitting.add(
                    index=index + self.past_the_end,
                    node_name="n1",
                    feasible_count=1,
                    capacity=self.fitting[asked.pod.name],
                )
        return response

    def refuse(self, name: str, class_id: int = 1, *plugins: str, **more: Any) -> None:
        self.queue.add(record(name, class_id), T0)
        fail(self.queue, T0, *(plugins or ("Taint",)), **more)

    def asked(self) -> list[list[str]]:
        """The names of the pods of each request."""
        return [[each.pod.name for each in request.pods] for request in self.requests]

    def counted(self) -> dict[str, float]:
        return self.metrics.instruments.missed_wake_ups.totals("plugin")


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finding is confirmed at once."""
    monkeypatch.setattr(wake_up_check, "CONFIRM_SECONDS", 0.0)


async def test_one_pod_of_each_group_is_asked_about_by_the_leader_and_its_configuration() -> None:
    world = World()
    for name, class_id in (("a", 1), ("b", 1), ("c", 2)):
        world.refuse(name, class_id)
    assert await world.check.check(0.25) == 0.001
    (request,) = world.requests
    assert [(each.pod.name, each.pod.uid, each.pod_class, each.profile) for each in request.pods] == [
        ("a", "uid-a", 1, "default-scheduler"),
        ("c", "uid-c", 2, "default-scheduler"),
    ]
    assert request.max_cpu_ms == 250
    assert (request.cycle.fence.epoch, request.cycle.config_hash, request.cycle.generation) == (3, 7, 11)
    status = world.check.status()
    assert (status.groups, status.checked_groups, status.checked_at_ms, status.problem) == (2, 2, 60_000, "")


async def test_groups_come_in_turn() -> None:
    """If this fails, the same classes are evaluated for hours and others never."""
    world = World()
    world.most = 1
    for class_id, name in enumerate("abc", start=1):
        world.refuse(name, class_id)
    for _ in range(4):
        await world.check.check(1.0)
    assert [names[0] for names in world.asked()] == ["a", "b", "c", "a"]
    assert world.check.status().checked_groups == 1


@pytest.mark.parametrize("wakes", [True, False])
async def test_a_pod_that_fits_twice_is_counted_by_plugin_remembered_and_woken(wakes: bool) -> None:
    world = World(wakes=wakes)
    world.refuse("a", 1, "Fit", "Taint")
    world.queue.on_event(queue_builders.NODE_TAINT, None, SimpleNamespace(key="ns/before"), T0 - 1)
    world.refuse("late", 2, "Taint")
    world.queue.on_event(queue_builders.NODE_TAINT, None, SimpleNamespace(key="n"), T0 + 5)
    world.fitting = {"late": 9}
    await world.check.check(1.0)
    assert world.asked() == [["a", "late"], ["late"]]
    assert world.counted() == {"Taint": 1}
    (found,) = world.check.history
    assert (found.number, found.pod.name, found.node_name, found.woken) == (1, "late", "n1", wakes)
    assert (found.refused_at_ms, found.at_ms, found.pod_count) == (0, 60_000, 1)
    assert [(each.label, each.at_ms) for each in found.events] == [("NodeUpdateNodeTaint", 5_000)]
    assert place(world.queue, "late") is (Active if wakes else Unschedulable)
    assert world.check.status().missed_total == 1


async def test_as_many_pods_are_woken_as_fit_the_one_that_was_evaluated_first() -> None:
    """If this fails, ten thousand pods are tried for the room of one, or one in each half minute."""
    world = World()
    for name in "abcd":
        world.refuse(name)
    world.fitting = {"a": 3}
    world.meanwhile[2] = lambda: world.refuse("new")
    await world.check.check(1.0)
    assert [place(world.queue, name) for name in "abcd"] == [Active] * 3 + [Unschedulable]
    assert place(world.queue, "new") is Unschedulable
    assert world.counted() == {"Taint": 3}


@pytest.mark.parametrize("request_number", [1, 2])
async def test_a_pod_that_has_moved_meanwhile_is_none(request_number: int) -> None:
    """If this fails, what an event has just woken counts as missed."""
    world = World()
    world.refuse("a", 1, "Fit")
    world.fitting = {"a": 1}
    world.meanwhile[request_number] = lambda: world.queue.on_event(NODE_ADD, None, None, world.now)
    await world.check.check(1.0)
    assert not world.check.history
    assert world.counted() == {}


async def test_a_pod_that_was_refused_again_meanwhile_is_none() -> None:
    """It fitted on the state before, and another pod took the room."""
    world = World()
    world.refuse("a")
    world.fitting = {"a": 1}

    def try_again() -> None:
        world.queue.activate([("ns/a", "uid-a")], world.now)
        fail(world.queue, world.now, "Taint")

    world.meanwhile[2] = try_again
    await world.check.check(1.0)
    assert place(world.queue, "a") is Unschedulable
    assert not world.check.history


async def test_a_pod_that_fits_only_once_is_none() -> None:
    world = World()
    world.refuse("a")
    world.fitting = {"a": 1}
    world.meanwhile[2] = world.fitting.clear
    await world.check.check(1.0)
    assert not world.check.history


async def test_a_pod_that_a_remote_hint_may_wake_is_none() -> None:
    """If this fails, a plugin that answers slowly counts as one that answers wrongly."""
    world = World()
    world.refuse("a", 1, "Far")
    world.queue.on_event(NODE_ADD, None, None, world.now)
    world.fitting = {"a": 1}
    await world.check.check(1.0)
    assert place(world.queue, "a") is Unschedulable
    assert not world.check.history


async def test_left_out_are_pods_whose_verdict_is_not_filters_alone() -> None:
    world = World(extender_class=4)
    world.refuse("had-node", 1, had_node=True)
    world.refuse("extended", 4)
    world.refuse("invalid", 0)
    world.refuse("plain", 2)
    await world.check.check(1.0)
    assert world.asked() == [["plain"]]


async def test_a_pod_that_was_found_is_found_again_after_the_flush_at_the_earliest() -> None:
    """If this fails, a plugin that answers insight otherwise than filter has its pods tried twice a minute."""
    world = World()
    world.refuse("a")
    world.fitting = {"a": 1}
    for expected in (1, 1, 2):
        await world.check.check(1.0)
        assert world.check.status().missed_total == expected
        world.queue.activate([("ns/a", "uid-a")], world.now)
        fail(world.queue, world.now, "Taint")
        world.now += 200
    assert [each.number for each in world.check.history] == [1, 2]


@pytest.mark.parametrize("kind", [insight_replicas.InsightUnavailable, insight_replicas.InsightRefusal])
async def test_why_there_is_no_answer_is_in_the_status(kind: type[Exception]) -> None:
    world = World()
    world.refuse("a")
    world.fault = kind("refused") if kind is insight_replicas.InsightUnavailable else kind(None, "refused")
    assert await world.check.check(1.0) == 0.0
    assert world.check.status().problem == "refused"
    world.fault = None
    await world.check.check(1.0)
    assert world.check.status().problem == ""


async def test_an_answer_about_a_pod_that_was_not_asked_about_is_none() -> None:
    """If this fails, an insight that answers nonsense ends the leader."""
    world = World()
    world.refuse("a")
    world.fitting["a"] = 1
    world.past_the_end = 1
    await world.check.check(1.0)
    assert world.check.status().problem == "insight named a pod that is not in the request"
    assert not world.check.history


@pytest.mark.parametrize("cpu_ms", [float("nan"), float("inf"), -1.0])
async def test_a_processor_time_that_is_none_counts_as_the_whole_share(cpu_ms: float) -> None:
    """If this fails, an insight that answers nonsense ends all checks silently."""
    world = World()
    world.refuse("a")
    world.cpu_ms = cpu_ms
    assert await world.check.check(1.0) == 0.15


async def test_a_check_that_took_more_than_its_share_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a per cent of 30 s is 150 ms; one class takes 400 ms. If this fails, insight has no bound."""
    world = World()
    world.refuse("a")
    world.cpu_ms = 400.0
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) > 9:
            raise asyncio.CancelledError

    monkeypatch.setattr(wake_up_check.asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await world.check.run()
    assert set(slept) == {30.0}
    assert len(world.requests) == 3 + 1
    assert [request.max_cpu_ms for request in world.requests][:2] == [150, 50]


async def test_without_waiting_pods_insight_is_not_asked() -> None:
    world = World()
    await world.check.check(1.0)
    assert world.requests == []
    assert world.check.status().checked_at_ms == 60_000
