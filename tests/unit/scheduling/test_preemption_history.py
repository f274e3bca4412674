"""The last preemptions, for people who ask what was evicted for whom."""

import types
from typing import Any

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
