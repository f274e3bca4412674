"""The last preemptions that were decided, for people who ask what was evicted for whom.

One ring for all, so that a decision costs one append; it is read by number, from the oldest that a reader lacks.

Also change: internal/trireme/insight/console/scheduler_history.py (as many are shown).
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trireme.queueing import queued_entity
from trireme.v1 import bind_pb2

LENGTH = 256
# Victims named of one decision; a group may evict hundreds.
MAX_VICTIMS = 20


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod that is evicted, and its node."""

    namespace: str
    name: str
    uid: str
    node_name: str


@dataclass(frozen=True, slots=True)
class PreemptionDecision:
    """One decision: `key` is the preemptor's (namespace/name; of a group with its kind), `at` in seconds since 1970.

    `node_name` is empty for a group, whose victims may be on several; `victims` are MAX_VICTIMS at most.
    """

    number: int
    at: float
    key: str
    uid: str
    priority: int
    node_name: str
    victims: tuple[Victim, ...]
    victim_count: int


class PreemptionHistory:
    """The last LENGTH decisions."""

    def __init__(self, wall: Callable[[], float]) -> None:
        """`wall` returns seconds since 1970."""
        self._wall = wall
        self._number = 0
        self._decisions: deque[PreemptionDecision] = deque(maxlen=LENGTH)

    def add(self, pod: queued_entity.QueuedEntity, node_name: str, victims: Sequence[bind_pb2.Action]) -> None:
        """Remember that these victims are evicted for the pod, or group."""
        self._number += 1
        named = tuple(
            Victim(victim.pod.namespace, victim.pod.name, victim.pod.uid, victim.evict.node_name)
            for victim in victims[:MAX_VICTIMS]
        )
        self._decisions.append(
            PreemptionDecision(
                self._number,
                self._wall(),
                pod.key,
                pod.uid,
                pod.record.priority,
                node_name,
                named,
                len(victims),
            )
        )

    def after(self, number: int) -> list[PreemptionDecision]:
        """The decisions after that of this number, the oldest first."""
        found = []
        for decision in reversed(self._decisions):
            if decision.number <= number:
                break
            found.append(decision)
        return found[::-1]
