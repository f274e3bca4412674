"""What remote plugins answer reaches the queue, and the scheduler looks at the queue again."""

from typing import Any

import pytest

from tests.helpers.frontend_world import World
from tests.helpers.frontend_world_api import PROFILE
from trireme.framework.cluster_event import ActionType, ClusterEvent, Resource
from trireme.queueing import remote_calls, states
from trireme.queueing.hints import queueing_hint_map
from trireme.scheduling import queue_executor

NODE_CHANGE = ClusterEvent(Resource.NODE, ActionType.UPDATE_NODE_LABEL)


class _Asked:
    """An executor whose plugins are asked and do not answer, with a pod that a plugin refused."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world, self.woken = world, 0
        self.executor: queue_executor.QueueExecutor[Any] = world.frontend.scheduling.queue_executor
        self.calls: list[remote_calls.Instruction] = []
        monkeypatch.setattr(self.executor.remote, "execute", self.calls.extend)
        monkeypatch.setattr(self.executor, "_wake", self._wake)
        hint = queueing_hint_map.EventRegistration("NodeResourcesFit", NODE_CHANGE, remote=True)
        self.executor.hints.registrations.replace({PROFILE: [hint]})
        world.create("p", 99)
        world.answer_all()
        self.woken = 0

    def _wake(self) -> None:
        self.woken += 1

    @property
    def place(self) -> type[states.QueueState]:
        found = self.executor.queue.contents.get("ns/p")
        assert found is not None
        return type(found.state)

    def happen(self) -> int:
        """Deliver the event, which calls the plugin's hint; returns the number of that call."""
        before = len(self.calls)
        self.executor.execute(self.executor.queue.on_event(NODE_CHANGE, None, "node", self.world.now()))
        assert len(self.calls) == before + 1
        call = self.calls[-1]
        assert isinstance(call, remote_calls.CallQueueingHint)
        return call.call_id


@pytest.mark.parametrize("answers", [[queueing_hint_map.HintAnswer.QUEUE], None], ids=["queue", "failed"])
def test_the_answer_of_a_hint_wakes_the_pod_and_the_scheduler(
    world: World, monkeypatch: pytest.MonkeyPatch, answers: list[queueing_hint_map.HintAnswer] | None
) -> None:
    """A pod whose plugin said that an event helps would wait for five minutes."""
    asked = _Asked(world, monkeypatch)
    call_id = asked.happen()
    assert (asked.place, asked.woken) == (states.Unschedulable, 1)
    asked.executor._hint_answered(call_id, answers)
    assert asked.place in (states.Active, states.BackOff)
    assert asked.woken == 2


def test_a_hint_that_says_no_leaves_the_pod(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _Asked(world, monkeypatch)
    asked.executor._hint_answered(asked.happen(), [queueing_hint_map.HintAnswer.SKIP])
    assert asked.place is states.Unschedulable


def test_activated_pods_are_named_once_and_unknown_ones_never(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _Asked(world, monkeypatch)
    pod = ("ns/p", world.api.pods["p"]["metadata"]["uid"])
    assert asked.executor.activate([pod, ("ns/unknown", "unknown"), pod]) == [pod]
    assert (asked.place, asked.woken) == (states.Active, 1)
