"""What the scheduling queue holds: one QueuedPodInfo for each pending pod, small, because there may be very many.

What it knows of the API object is a `PodInfo`; the rest is the queue's own: counters, times, rejectors and its state.

The structures of the queue look only at what `QueuedEntity` names.

Tests: tests/unit/queueing/test_pre_enqueue.py, tests/unit/queueing/test_gates_and_updates.py.
"""

from collections.abc import Callable
from typing import TypeGuard

from trireme.queueing.pod_info import PodInfo
from trireme.queueing.queued_entity import Container, QueuedEntity
from trireme.queueing.states import GONE, Done, Gated, InFlight, QueueState

NO_PLUGINS: frozenset[str] = frozenset()


class QueuedPodInfo:
    """A pending pod, and what the queue knows of its attempts. Times are Unix seconds of the steady clock."""

    __slots__ = (
        "attempts",
        "backoff_expiration",
        "consecutive_errors",
        "container",
        "first_queued_at",
        "flushed",
        "flushed_at",
        "had_node",
        "initial_attempt_timestamp",
        "pending_plugins",
        "popped_at",
        "record",
        "rejectors",
        "stamp",
        "state",
        "timestamp",
        "unschedulable_count",
    )

    def __init__(self, record: PodInfo, now: float) -> None:
        self.record = record
        #: When it was enqueued, or requeued after a failed attempt.
        self.timestamp = now
        #: When the queue first heard of it; stays.
        self.first_queued_at = now
        #: Assigned by `Transitions` alone.
        self.state: QueueState = GONE
        self.container: Container | None = None
        #: Of its last transition; grows over all pods of a queue: it breaks ties and shows that an answer is too late.
        self.stamp = 0
        self.attempts = 0
        self.unschedulable_count = 0
        self.consecutive_errors = 0
        #: When its last attempt began; 0: none did.
        self.popped_at = 0.0
        #: End of its back-off; 0: not computed since it was last requeued.
        self.backoff_expiration = 0.0
        #: Plugins that refused it, in its last attempt or at PreEnqueue.
        self.rejectors: frozenset[str] = NO_PLUGINS
        #: The last attempt had a node, and a plugin refused the pod there at a later step.
        self.had_node = False
        #: Those of them that returned Pending in its last attempt: what they wait for wakes it without back-off.
        self.pending_plugins: frozenset[str] = NO_PLUGINS
        #: When it first entered the active queue; 0: not yet.
        self.initial_attempt_timestamp = 0.0
        #: When the five-minute flush last moved it.
        self.flushed_at = 0.0
        #: Its current attempt is due to that flush, not to an event.
        self.flushed = False

    def waiting_since(self, to_wall: Callable[[float], float]) -> float:
        """Since when it has waited, by the API server's clock and across leaders: its creation. Units: Unix seconds.

        A running pod whose resize is deferred, or one whose creation is not known, waits since the queue heard of it.
        `to_wall` turns moments of the queue's clock into Unix seconds.
        """
        pod = self.record.pod
        created = 0 if pod.has_deferred_resize else pod.parsed.created
        return created or to_wall(self.first_queued_at)

    @property
    def key(self) -> str:
        """namespace/name."""
        return self.record.key

    @property
    def uid(self) -> str:
        """The object's uid."""
        return self.record.uid

    @property
    def gated_by(self) -> str:
        """The PreEnqueue plugin that holds it back; empty: none."""
        return self.state.plugin if isinstance(self.state, Gated) else ""

    @property
    def gate_reason(self) -> str:
        """The reason that this plugin gave; empty: none."""
        return self.state.reason if isinstance(self.state, Gated) else ""

    @property
    def popped(self) -> bool:
        """It is being tried, or bound."""
        return isinstance(self.state, (InFlight, Done))

    @property
    def in_attempt(self) -> bool:
        """It is being tried, or bound, and was not deleted meanwhile."""
        return not self.state.deleted if isinstance(self.state, InFlight) else isinstance(self.state, Done)

    @property
    def latest(self) -> PodInfo:
        """What is known of its object, in updates since it was popped too."""
        return (self.state.latest if isinstance(self.state, (InFlight, Done)) else None) or self.record

    def __repr__(self) -> str:
        return f"QueuedPodInfo({self.record.key}, {self.state.label})"


def are_pods(entities: list[QueuedEntity]) -> TypeGuard[list[QueuedPodInfo]]:
    """Whether entries that were taken out of the queue together are pods; otherwise it is one group."""
    return isinstance(entities[0], QueuedPodInfo)
