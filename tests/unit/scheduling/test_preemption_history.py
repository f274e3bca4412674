"""The last preemptions, for people who ask what was evicted for whom."""

import types
from typing import Any

from tests.helpers.preemption_world import World, evict, record
from trireme.queueing import queued_pod
from trireme.scheduling import preemption_history
from trireme.v1 import bind_pb2, cycle_pb2


def _add(history: preemption_history.PreemptionHistory, name: str, victims: int = 1) -> None:
    pod: Any = types.SimpleNamespace(key=f"ns/{name}", uid=name, record=types.SimpleNamespace(priority=7))
    history.add(
        pod,
        "node",
        [
            bind_pb2.Action(
                pod=cycle_pb2.PodIdentity(namespace="ns", name=f"v{number}", uid=f"u{number}"),
                evict=bind_pb2.Evict(node_name=f"n{number}"),
            )
            for number in range(victims)
        ],
    )


def test_a_reader_gets_what_it_lacks_the_oldest_first() -> None:
    history = preemption_history.PreemptionHistory(lambda: 1.5)
    assert history.after(0) == []
    for name in "abc":
        _add(history, name)
    assert [(each.number, each.key) for each in history.after(1)] == [(2, "ns/b"), (3, "ns/c")]
    assert [each.number for each in history.after(0)] == [1, 2, 3]
    assert history.after(3) == []


def test_a_decision_names_some_of_its_victims_and_counts_all() -> None:
    history = preemption_history.PreemptionHistory(lambda: 1.5)
    _add(history, "a", preemption_history.MAX_VICTIMS + 1)
    (decision,) = history.after(0)
    assert (decision.at, decision.uid, decision.priority, decision.node_name) == (1.5, "a", 7, "node")
    assert decision.victim_count == preemption_history.MAX_VICTIMS + 1
    assert len(decision.victims) == preemption_history.MAX_VICTIMS
    assert decision.victims[1] == preemption_history.Victim("ns", "v1", "u1", "n1")


def test_only_the_last_decisions_are_kept() -> None:
    history = preemption_history.PreemptionHistory(lambda: 1.5)
    for number in range(preemption_history.LENGTH + 1):
        _add(history, str(number))
    assert [each.key for each in history.after(0)][:1] == ["ns/1"]


async def test_what_is_evicted_for_whom_is_remembered() -> None:
    """The console could not say who had to go, once they are gone."""
    world = World("low-0", "low-1")
    history = world.preempting.history
    world.go.set()
    world.start("low-0", "low-1")
    (decision,) = history.after(0)
    assert (decision.number, decision.at, decision.key, decision.priority) == (1, 12.5, world.vip.key, 100)
    assert (decision.node_name, decision.victim_count) == ("node", 2)
    assert [victim.uid for victim in decision.victims] == ["low-0", "low-1"]
    assert history.after(1) == []
    await world.preempting.close()


def test_the_last_preemptions_are_remembered_with_some_victims() -> None:
    """A gang that evicts hundreds, again and again, would fill the memory."""
    history = preemption_history.PreemptionHistory(lambda: 0.0)
    vip = queued_pod.QueuedPodInfo(record("vip", 100), 0.0)
    victims = [evict(f"low-{number}") for number in range(100)]
    for _ in range(preemption_history.LENGTH + 5):
        history.add(vip, "node", victims)
    found = history.after(0)
    assert [decision.number for decision in found] == list(range(6, preemption_history.LENGTH + 6))
    assert (found[0].victim_count, len(found[0].victims)) == (100, preemption_history.MAX_VICTIMS)
    assert len(history.after(preemption_history.LENGTH)) == 5
