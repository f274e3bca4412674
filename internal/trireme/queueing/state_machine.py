"""Which state may follow which, and why: what tests check each transition by, and what is drawn in the documents.

A pod that is in no group, a member of a group, and a group (which is queued in place of its waiting members) have each
their own machine. Members follow their group while it waits; `GroupInFlight` and `WaitingForGroup` are theirs alone.
"""

from collections.abc import Iterable, Mapping

from trireme.framework import cluster_event
from trireme.queueing.states import (
    Active,
    BackOff,
    Done,
    Gated,
    Gone,
    GroupInFlight,
    InFlight,
    PreEnqueuePending,
    QueueState,
    Unschedulable,
    WaitingForGroup,
)

State = type[QueueState]
# The states that may follow, each with the causes.
Machine = Mapping[State, Mapping[State, str]]

_ALLOWED = "PreEnqueue allows it"
_REFUSED = "PreEnqueue refuses it"
_CALLED = "remote plugins are called for PreEnqueue or its sort key"
_ANSWERED = "PreEnqueue allows it, and it has its sort key"
_REMOVED = "it is deleted, or has a node"
_RECHECKED = "PreEnqueue is called again"
_FAILED = "the attempt failed"

PODS: Machine = {
    Gone: {Active: _ALLOWED, Gated: _REFUSED, PreEnqueuePending: _CALLED},
    PreEnqueuePending: {Active: _ANSWERED, BackOff: _ANSWERED, Gated: _REFUSED, Gone: _REMOVED},
    Gated: {
        Active: "an event, or activated",
        BackOff: "an event",
        PreEnqueuePending: _CALLED,
        Gone: _REMOVED,
    },
    Active: {InFlight: cluster_event.POPPED, Gated: _RECHECKED, PreEnqueuePending: _RECHECKED, Gone: _REMOVED},
    InFlight: {
        Done: "it is being bound",
        Unschedulable: "plugins refused it",
        BackOff: "an error, or an event meanwhile",
        Active: "an event meanwhile, for a plugin that returned Pending",
        Gated: _REFUSED,
        PreEnqueuePending: _CALLED,
        Gone: _REMOVED,
    },
    Unschedulable: {
        Active: "an event after its back-off, or activated",
        BackOff: "an event",
        Gated: _REFUSED,
        PreEnqueuePending: _CALLED,
        Gone: _REMOVED,
    },
    BackOff: {
        Active: "the time is over, or activated",
        InFlight: "popped early",
        Gated: _RECHECKED,
        PreEnqueuePending: _RECHECKED,
        Gone: _REMOVED,
    },
    Done: {
        BackOff: "binding failed",
        Active: "binding failed, without back-off",
        Gated: _REFUSED,
        PreEnqueuePending: _CALLED,
        Gone: _REMOVED,
    },
}

_JOINS = {
    Active: "its group is active",
    BackOff: "its group backs off",
    Gated: "its group is held back",
    PreEnqueuePending: "plugins are called for members of its group",
    GroupInFlight: "its group is being tried",
    WaitingForGroup: "an object of its group is missing",
}

MEMBERS: Machine = {
    Gone: _JOINS,
    **{
        state: {follower: cause for follower, cause in _JOINS.items() if follower is not state} | {Gone: _REMOVED}
        for state in (BackOff, Gated, PreEnqueuePending, GroupInFlight, WaitingForGroup)
    },
    Active: {follower: cause for follower, cause in _JOINS.items() if follower is not Active}
    | {InFlight: "its group is popped", Gone: _REMOVED},
    InFlight: _JOINS | {Done: "it is being bound", Gone: _REMOVED},
    Done: _JOINS | {Gone: _REMOVED},
}

# Who members follow: what is queued for a tree of groups.
GROUPS: Machine = {
    Gone: {Active: _ALLOWED, Gated: _REFUSED, PreEnqueuePending: _CALLED},
    PreEnqueuePending: {Active: _ANSWERED, BackOff: _ANSWERED, Gated: _REFUSED, Gone: "no member waits"},
    Gated: {Active: "an event, or a member", BackOff: "an event", PreEnqueuePending: _CALLED, Gone: "no member waits"},
    Active: {InFlight: cluster_event.POPPED, Gated: _RECHECKED, PreEnqueuePending: _RECHECKED, Gone: "no member waits"},
    BackOff: {
        Active: "the time is over, or activated",
        Gated: _RECHECKED,
        PreEnqueuePending: _RECHECKED,
        Gone: "no member waits",
    },
    InFlight: {
        Active: "some members are left",
        BackOff: _FAILED,
        Gated: _REFUSED,
        PreEnqueuePending: _CALLED,
        Gone: "no member is left",
    },
}


def impossible_transitions(states: Iterable[State], machine: Machine) -> list[tuple[str, str]]:
    """The steps of a history, which begins outside of the queue, that the machine does not have."""
    found: list[tuple[str, str]] = []
    last: State = Gone
    for state in states:
        if state is not last and state not in machine[last]:
            found.append((last.__name__, state.__name__))
        last = state
    return found
