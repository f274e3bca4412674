"""The states of entities in the scheduling queue: frozen values, each with the facts known only in that state.

Only `transitions`, and `groups.group_transitions` for groups and their members, give an entity another state. States
are shared: all pods of a batch are in one `InFlight`, all pods that wait for the same events in one `Unschedulable`, so
that a state costs a queued pod one reference.

Also change: console/src/parts.tsx, internal/trireme/insight/console/pending_pods.py,
console/src/views/reasons.tsx (the words for states of the queue).
Also change: internal/trireme/frontend/serving/metrics_collector.py (the words of the queue's states).
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, NamedTuple

from trireme.framework.cluster_event import ClusterEvent
from trireme.queueing.in_flight_events import EventCursor
from trireme.queueing.pod_info import PodInfo

# With more own updates than this during one attempt the pod is tried again without evaluating them.
_MAX_OWN_EVENTS = 64


class Destination(enum.Enum):
    """Which queue an entity enters once PreEnqueue allows it."""

    ACTIVE = "active"
    BACKOFF = "backoff"


class PreEnqueueCall(NamedTuple):
    """A call of remote PreEnqueue plugins that has no answer yet."""

    call_id: int
    #: The events since the call are recorded for it.
    cursor: EventCursor
    destination: Destination
    #: Why the entity is to enter: the label of an event.
    label: str


@dataclass(frozen=True, slots=True)
class Active:
    """May be tried now, in QueueSort's order."""

    label: ClassVar[str] = "active"


@dataclass(frozen=True, slots=True)
class BackOff:
    """Failed, and waits a time."""

    label: ClassVar[str] = "backoff"
    #: Unix seconds of the steady clock.
    until: float


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """Refused by plugins, and waits for an event that may help."""

    label: ClassVar[str] = "unschedulable"
    rejectors: frozenset[str]
    #: Those of them that returned Pending: what they wait for ends the wait without back-off.
    pending: frozenset[str]


@dataclass(frozen=True, slots=True)
class Gated:
    """Held back by a PreEnqueue plugin."""

    label: ClassVar[str] = "unschedulable"
    plugin: str
    #: The reason that the plugin gave; empty: none.
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PreEnqueuePending:
    """Remote plugins are called before it enters the queue: PreEnqueue, and QueueSort for its sort key.

    The calls for a member of a group are not in its state.
    """

    label: ClassVar[str] = "pre-enqueue pending"
    call: PreEnqueueCall | None = None


@dataclass(frozen=True, slots=True)
class WaitingForGroup:
    """A member of a group that cannot be scheduled yet, because an object is missing."""

    label: ClassVar[str] = "incomplete"
    #: What it waits for, to be written after "waits".
    missing: str


@dataclass(frozen=True, slots=True)
class GroupInFlight:
    """A member whose group is being tried without it: it joins the group when the attempt is over."""

    label: ClassVar[str] = "pending"


@dataclass(frozen=True, slots=True)
class InFlight:
    """Popped and not done."""

    label: ClassVar[str] = "in flight"
    #: From where on events are recorded for it; None: it is a member of a group, which has the cursor.
    cursor: EventCursor | None
    #: Its object as updated meanwhile; None: it was not.
    latest: PodInfo | None = None
    #: What those updates changed: (event, old object, new object).
    own_events: tuple[tuple[ClusterEvent, Any, Any], ...] = ()
    #: It is to be tried again whatever the events were.
    activated: bool = False
    deleted: bool = False

    def updated(self, record: PodInfo, events: Sequence[ClusterEvent], old: Any, new: Any) -> "InFlight":
        """This attempt after an update of the pod's object: the pod exists, even if it was reported as deleted."""
        own_events, activated = self.own_events, self.activated
        if len(own_events) + len(events) > _MAX_OWN_EVENTS:
            own_events, activated = (), True
        own_events += tuple((event, old, new) for event in events)
        return replace(self, latest=record, deleted=False, own_events=own_events, activated=activated)


@dataclass(frozen=True, slots=True)
class Done:
    """The pod is being bound or deleted.

    It leaves this state when it is requeued, or when a watch event shows its node or its deletion.
    """

    label: ClassVar[str] = "done"
    #: Its object as updated since it was popped; None: it was not.
    latest: PodInfo | None = None


@dataclass(frozen=True, slots=True)
class Gone:
    """Not in the queue: not yet, or no longer."""

    label: ClassVar[str] = "gone"


QueueState = (
    Active
    | BackOff
    | Unschedulable
    | Gated
    | PreEnqueuePending
    | WaitingForGroup
    | GroupInFlight
    | InFlight
    | Done
    | Gone
)

ACTIVE: Final = Active()
GROUP_PRE_ENQUEUE_PENDING: Final = PreEnqueuePending()
GROUP_IN_FLIGHT: Final = GroupInFlight()
DONE: Final = Done()
GONE: Final = Gone()
