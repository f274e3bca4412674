"""Pods whose PreEnqueue call to a remote plugin fails: called about again, by the clock and when the plugin answers."""

import asyncio
import types
from collections.abc import Sequence
from typing import Any, cast

import pytest

from tests.helpers import virtual_time
from tests.helpers.frontend_world import World
from tests.helpers.frontend_world_api import PROFILE
from trireme.cli import display, explain_command
from trireme.framework import status
from trireme.framework.cluster_event import ActionType, ClusterEvent, Resource
from trireme.frontend.serving import scheduler_explanation, scheduler_status
from trireme.queueing import remote_calls, states
from trireme.queueing.hints import queueing_hint_map
from trireme.scheduling import plugin_back_offs, pre_enqueue_calls
from trireme.v1 import core_pb2, meta_pb2
from trireme.wire import json_documents

ERROR = 'running PreEnqueue plugin "Far": far:1: UNAVAILABLE: refused'
NODE_CHANGE = ClusterEvent(Resource.NODE, ActionType.UPDATE_NODE_LABEL)


class Far:
    """A plugin that answers as the test says; `failing` are the names of pods whose calls fail."""

    name = "Far"
    pre_enqueue_error_prefix = 'running PreEnqueue plugin "Far"'

    def __init__(self) -> None:
        self.failing = {"p", "q", "r"}
        self.refused: set[str] = set()
        self.calls: list[str] = []

    async def pre_enqueue(self, profile: str, pods: Sequence[core_pb2.Pod]) -> list[status.Status]:
        """As RemoteQueuePlugin has it."""
        self.calls += [pod.metadata.name for pod in pods]
        return [self._answer(pod.metadata.name) for pod in pods]

    def _answer(self, name: str) -> status.Status:
        if name in self.failing:
            return status.error(self.name, ERROR)
        if name in self.refused:
            return status.Status(status.Code.UNSCHEDULABLE, self.name, ("held",))
        return status.SUCCESS


@pytest.fixture(name="far")
def _far(world: World, monkeypatch: pytest.MonkeyPatch) -> Far:
    far = Far()
    monkeypatch.setattr(world.frontend.scheduling.queue_executor.remote, "_gates", {PROFILE: [far]})
    return far


def _place(world: World, name: str) -> type[states.QueueState]:
    found = world.frontend.scheduling.queue.contents.get(f"ns/{name}")
    assert found is not None
    return type(found.state)


def test_a_failed_call_is_made_again_after_a_growing_back_off(
    world: World, far: Far, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, a pod stays gated for minutes after its plugin is back, or a plugin that is down has no rest."""
    caplog.set_level("INFO")
    world.create("p", 1)
    assert (far.calls, _place(world, "p")) == (["p"], states.PreEnqueuePending)
    for seconds, calls in ((0.5, 1), (0.6, 2), (1.5, 2), (0.6, 3), (4.1, 4), (8.1, 5), (10.1, 6), (10.1, 7)):
        world.loop.advance(seconds)
        assert len(far.calls) == calls, world.now()
    assert len([each for each in caplog.records if "pod ns/p waits" in each.message]) == 1, "one line a pod, not a call"
    far.failing.clear()
    world.loop.advance(10.1)
    assert _place(world, "p") is states.InFlight
    world.loop.advance(60)
    assert len(far.calls) == 8


def test_an_answer_about_another_pod_ends_the_back_off(world: World, far: Far) -> None:
    """If this fails, pods wait for their own back-off though the plugin is known to be back."""
    world.create("p", 1)
    world.loop.advance(16)
    far.failing.clear()
    calls = len(far.calls)
    world.create("s", 1)
    world.loop.advance(0)
    assert far.calls[calls:] == ["s", "p"]
    assert _place(world, "p") is not states.PreEnqueuePending


def test_one_pod_that_always_fails_is_not_called_about_without_pause(world: World, far: Far) -> None:
    """If this fails, one wrong answer about one pod makes a call for each call about others."""
    world.create("p", 1)
    for number in range(20):
        world.create(f"s{number}", 1)
    assert far.calls.count("p") == 1


def test_a_pod_that_the_plugin_fails_for_alone_has_a_back_off_of_its_own(world: World, far: Far) -> None:
    """A plugin was called about it each second, for as long as it answered about others."""
    world.create("p", 1)
    for number in range(40):
        world.loop.advance(1.0)
        world.create(f"s{number}", 1)
    calls = far.calls.count("p")
    assert calls <= 8
    # A change of the plugins counts for it too.
    world.loop.advance(1.0)
    world.frontend.scheduling.queue_executor.remote.pre_enqueue_calls.retry_failed_now()
    world.loop.advance(0)
    assert far.calls.count("p") == calls + 1


def test_an_event_calls_no_hint_for_a_pod_whose_pre_enqueue_failed(
    world: World, far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a plugin that never saw a pod decides by its hint that the pod goes on waiting."""
    frontend = world.frontend
    asked: list[remote_calls.Instruction] = []
    frontend.scheduling.queue_executor.hints.registrations.replace(
        {PROFILE: [queueing_hint_map.EventRegistration("Far", NODE_CHANGE, remote=True)]}
    )
    world.create("p", 1)
    instructions = frontend.scheduling.queue.on_event(NODE_CHANGE, None, None, world.now())
    asked += instructions
    assert not asked
    far.failing.clear()
    world.loop.advance(1.1)
    assert _place(world, "p") is states.InFlight


def test_a_plugin_that_refuses_after_its_failure_is_not_called_again(world: World, far: Far) -> None:
    """If this fails, an event from before the call that was answered has the plugin called again."""
    world.frontend.scheduling.queue_executor.hints.registrations.replace(
        {PROFILE: [queueing_hint_map.EventRegistration("Far", NODE_CHANGE)]}
    )
    world.create("p", 1)
    world.frontend.scheduling.queue.on_event(NODE_CHANGE, None, None, world.now())
    far.failing, far.refused = set(), {"p"}
    world.loop.advance(30)
    assert far.calls == ["p", "p"]
    assert _place(world, "p") is states.Gated


def test_a_pod_that_is_gone_is_not_called_about_again(world: World, far: Far) -> None:
    """If this fails, a deleted pod is asked about forever."""
    calls = world.frontend.scheduling.queue_executor.remote.pre_enqueue_calls
    world.create("p", 1)
    uid = world.api.stored("pods")["p"]["metadata"]["uid"]
    assert calls.last_failure(uid) is not None
    world.api.remove("pods", "p")
    world.deliver("pods", 1000)
    world.loop.advance(60)
    assert far.calls == ["p"]
    assert calls.last_failure(uid) is None


def test_the_status_has_the_error_and_the_time_of_the_next_call(world: World, far: Far) -> None:
    """If this fails, a user sees that a plugin is waited for, and not that it cannot be called."""
    for name in ("p", "q"):
        world.create(name, 1)
    explained = scheduler_explanation.explain(world.frontend_state(), "ns/p")
    assert explained is not None
    assert explained.scheduler.summary == (
        "plugin Far failed: far:1: UNAVAILABLE: refused; is tried again at 13:46:41 UTC"
    )
    (alike,) = scheduler_status.status(world.frontend_state()).pending_alike
    assert (alike.count, alike.waits_for.because) == (2, "far:1: UNAVAILABLE: refused")


def test_the_status_of_a_gated_pod_has_the_reason(world: World, far: Far) -> None:
    """If this fails, an operator sees which plugin holds the pod back and has to search the log for its reason."""
    far.failing, far.refused = set(), {"p"}
    world.create("p", 1)
    report = scheduler_explanation.explain(world.frontend_state(), "ns/p")
    assert report is not None
    assert report.scheduler.summary == "is held back by Far: held"
    assert report.scheduler.pending.waits_for.because == "held"
    assert report.scheduler.history[-1].cause == "UnscheduledPodAdd, gated by Far: held"
    shown = display.as_text(explain_command.render(json_documents.document(report)))
    assert "it came into the queue, gated by Far: held" in shown
    (alike,) = scheduler_status.status(world.frontend_state()).pending_alike
    assert alike.summary == "is held back by Far: held"


class Calls:
    """Calls about one pod without a queue: what it was told, and which calls it wants repeated."""

    def __init__(self, far: Far, sorter: str = "") -> None:
        self.far = far
        self.plugin = sorter
        self.key_error = ""
        self.answered: list[tuple[int, str, str]] = []
        self.wanted = {1, 2}
        self.calls = pre_enqueue_calls.PreEnqueueCalls(
            lambda profile: cast(Any, [far]),
            lambda pod: core_pb2.Pod(metadata=meta_pb2.ObjectMeta(name="p")),
            lambda *answer: self.answered.append(answer),
            self.wanted.__contains__,
            plugin_back_offs.PluginBackOffs(asyncio.get_running_loop().time),
            cast(Any, self),
        )

    async def request(self, pod: Any) -> str:
        """The error of QueueSort."""
        return self.key_error

    def failed_renewals(self) -> dict[str, Any]:
        """No pod in the queue lacks a newer key."""
        return {}

    def call(self, number: int) -> "asyncio.Task[None]":
        """One call of the queue."""
        pod = types.SimpleNamespace(uid="u", key="ns/p", record=types.SimpleNamespace(profile=PROFILE))
        return asyncio.create_task(self.calls.call(remote_calls.CallPreEnqueue(number, cast(Any, pod))))


@virtual_time.on_virtual_time
async def test_a_later_call_for_a_pod_keeps_its_failure_when_an_earlier_one_ends() -> None:
    """A pod that is held back would be counted as if its plugin had answered."""
    calls = Calls(Far())
    first = calls.call(1)
    await asyncio.sleep(0.5)
    second = calls.call(2)
    calls.wanted.discard(1)
    await first
    failure = calls.calls.last_failure("u")
    assert (calls.calls.held_pods(), failure is not None) == ({"Far": 1}, True)
    calls.far.failing.clear()
    await second
    assert (calls.calls.held_pods(), calls.calls.last_failure("u")) == ({}, None)
    await calls.call(2)
    assert calls.answered == [(2, "", "")] * 2


@virtual_time.on_virtual_time
async def test_a_pod_whose_key_cannot_be_had_is_held_by_the_plugin_of_the_order() -> None:
    """It would enter the queue without a place in its order."""
    far = Far()
    far.failing.clear()
    calls = Calls(far, sorter="Order")
    calls.key_error = "down"
    call = calls.call(1)
    await asyncio.sleep(0.5)
    failure = calls.calls.last_failure("u")
    assert failure is not None
    assert (failure.plugin, failure.error, calls.calls.held_pods()) == ("Order", "down", {"Order": 1})
    assert not calls.answered
    calls.key_error = ""
    await call
    assert calls.answered == [(1, "", "")]


@virtual_time.on_virtual_time
async def test_a_call_that_is_cancelled_leaves_no_failure() -> None:
    """Of a frontend that leads no more, or of a pod whose profile is gone."""
    calls = Calls(Far())
    call = asyncio.ensure_future(calls.call(1))
    await asyncio.sleep(0.5)
    assert calls.calls.last_failure("u") is not None
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert calls.calls.last_failure("u") is None
    assert calls.calls.held_pods() == {}
    assert calls.answered == []
