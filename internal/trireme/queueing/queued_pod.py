"""What the scheduling queue holds: one QueuedPodInfo for each pending pod, small, because there may be very many.

It is split in two. `PodInfo` is what the queue knows of the API object: immutable, replaced as a whole by each
update. `QueuedPodInfo` is what the queue itself keeps about it: counters, times, who refused it and where it is.

The structures of the queue only look at `class_id`, `level`, `rest`, `exclusive`, `nominated`, `timestamp` and
`stamp`. So an entity of another kind (a group of pods that is scheduled as one) joins by giving itself a class of its
own and `exclusive`.
"""

import enum
from typing import Any, NamedTuple, Protocol

from trireme.framework.cluster_event import ClusterEvent
from trireme.queueing.in_flight_events import EventCursor

# What QueueSort's keys are compared by first: pods whose level is equal may go in one batch.
Level = int | bytes

NO_PLUGINS: frozenset[str] = frozenset()


class Place(enum.Enum):
    """Where a pod is. The values are the words of `trireme status`."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    ASKED = "pre-enqueue asked"
    # Of members of a group (`groups`): its PodGroup is not there, or is being tried without them.
    INCOMPLETE = "incomplete"
    PENDING = "pending"
    IN_FLIGHT = "in flight"
    DONE = "done"
    GONE = "gone"


class PodInfo(NamedTuple):
    """What the queue knows of a pod from its object.

    Pods with the same `class_id` are equal for every plugin, their profile and priority included; so what is asked
    about one of them is answered for all, and they may go in one batch.
    """

    #: namespace/name
    key: str
    uid: str
    class_id: int
    profile: str
    priority: int
    #: QueueSort's key, first part. PrioritySort: the negated priority.
    level: Level
    #: QueueSort's key, the rest: order within a class of one level, before age.
    rest: bytes = b""
    resource_version: str = ""
    nominated_node: str = ""
    #: Must be tried alone: there is something that its class does not say.
    exclusive: bool = False
    #: A node is promised to it, so it is not tried together with pods of which that is not so.
    nominated: bool = False
    #: What the caller wants back; the queue never looks at it.
    pod: Any = None


def by_priority(
    key: str,
    uid: str,
    class_id: int,
    profile: str,
    priority: int,
    *,
    resource_version: str = "",
    nominated_node: str = "",
    exclusive: bool = False,
    pod: Any = None,
) -> PodInfo:
    """The record of a pod that PrioritySort orders: priority first, then age."""
    nominated = bool(nominated_node)
    return PodInfo(
        key,
        uid,
        class_id,
        profile,
        priority,
        -priority,
        b"",
        resource_version,
        nominated_node,
        exclusive,
        nominated,
        pod,
    )


class Container(Protocol):
    """The structure that a queued pod is in."""

    def discard(self, pod: "QueuedPodInfo") -> None:
        """Takes the pod out, which must be in it."""


class Flight:
    """What is kept of a pod from pop until it is back, or gone."""

    __slots__ = ("cell", "deleted", "newest", "own_events", "woken")

    def __init__(self, cell: EventCursor | None) -> None:
        #: Since when events are kept for it; None: it is done, or none are kept.
        self.cell: EventCursor | None = cell
        #: Its object as updated meanwhile.
        self.newest: PodInfo | None = None
        self.deleted = False
        #: What those updates changed: (event, old object, new object).
        self.own_events: list[tuple[ClusterEvent, Any, Any]] = []
        #: It is to be tried again whatever the events say.
        self.woken = False


class Asking:
    """What is kept of a pod while a remote plugin is asked whether it may enter."""

    __slots__ = ("call_id", "cell", "destination", "label")

    def __init__(self, call_id: int, cell: EventCursor, destination: Place, label: str) -> None:
        self.call_id = call_id
        self.cell = cell
        self.destination = destination
        self.label = label


class QueuedPodInfo:
    """A pending pod and what the queue keeps about it. Times are Unix seconds of the steady clock."""

    __slots__ = (
        "asking",
        "attempts",
        "consecutive_errors",
        "expiry",
        "flight",
        "flushed",
        "flushed_at",
        "gate_reason",
        "gated_by",
        "home",
        "initial_attempt_timestamp",
        "pending_plugins",
        "place",
        "popped_at",
        "record",
        "rejectors",
        "stamp",
        "timestamp",
        "unschedulable_count",
    )

    def __init__(self, record: PodInfo, now: float) -> None:
        self.record = record
        #: When it was enqueued, or put back after a failed attempt.
        self.timestamp = now
        self.place = Place.GONE
        self.home: Container | None = None
        #: Of its last move; grows over all pods of a queue, so it breaks ties and tells an old answer from a new one.
        self.stamp = 0
        self.attempts = 0
        self.unschedulable_count = 0
        self.consecutive_errors = 0
        #: When its last attempt began; 0: none did.
        self.popped_at = 0.0
        #: End of its back-off; 0: not computed since it was last put back.
        self.expiry = 0.0
        #: Plugins that refused it, in its last attempt or at the gate.
        self.rejectors: frozenset[str] = NO_PLUGINS
        #: Those of them that said Pending in its last attempt: what they wait for wakes it without back-off.
        self.pending_plugins: frozenset[str] = NO_PLUGINS
        #: The PreEnqueue plugin that holds it back; empty: none.
        self.gated_by = ""
        #: What that plugin says about it; empty: nothing.
        self.gate_reason = ""
        #: When it first entered the active queue; 0: not yet.
        self.initial_attempt_timestamp = 0.0
        #: When the five-minute flush last moved it.
        self.flushed_at = 0.0
        #: Its current attempt is owed to that flush, not to an event.
        self.flushed = False
        self.flight: Flight | None = None
        self.asking: Asking | None = None

    @property
    def key(self) -> str:
        """namespace/name."""
        return self.record.key

    @property
    def uid(self) -> str:
        """The object's uid."""
        return self.record.uid

    @property
    def gated(self) -> bool:
        """A PreEnqueue plugin holds it back."""
        return bool(self.gated_by)

    def __repr__(self) -> str:
        return f"QueuedPodInfo({self.record.key}, {self.place.value})"
