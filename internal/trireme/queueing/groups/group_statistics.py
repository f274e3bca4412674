"""The queue in numbers where there are groups: groups are queued, and what is counted are pods.

Tests: tests/unit/queueing/test_group_state_machine.py.
"""

import dataclasses
from collections import Counter

from trireme.queueing.groups.queued_group import PodGroups
from trireme.queueing.queue_status import QueueStatistics
from trireme.queueing.states import (
    Active,
    BackOff,
    Done,
    Gated,
    GroupInFlight,
    InFlight,
    PreEnqueuePending,
    QueueState,
    WaitingForGroup,
)

# The states of groups by the label of metrics: what is held back is never unschedulable.
_QUEUES: dict[str, tuple[type[QueueState], ...]] = {
    "active": (Active,),
    "backoff": (BackOff,),
    "gated": (Gated, PreEnqueuePending),
}


def by_pod(whole: QueueStatistics, groups: PodGroups) -> QueueStatistics:
    """The statistics, which count a group that is queued as one pod and its members not at all, with the members.

    Members of a group that backs off count by how the group's last attempt failed. The group itself is in `whole` among
    the errors either way: groups are never taken early.
    """
    counts: Counter[type[QueueState]] = Counter()
    queued: Counter[type[QueueState]] = Counter()
    refused_members = 0
    calls = 0
    for group in groups:
        of_group = Counter(type(pod.state) for pod in group.members.values())
        counts += of_group
        if not group.consecutive_errors:
            refused_members += of_group[BackOff]
        calls += len(group.calls.open)
        queued[type(group.state)] += 1
    return dataclasses.replace(
        whole,
        active=whole.active + counts[Active] - queued[Active],
        backoff=whole.backoff + refused_members,
        error_backoff=whole.error_backoff + counts[BackOff] - refused_members - queued[BackOff],
        gated=whole.gated + counts[Gated],
        pre_enqueue_pending=whole.pre_enqueue_pending + counts[PreEnqueuePending] - calls,
        in_flight=whole.in_flight + counts[InFlight],
        done=whole.done + counts[Done],
        waiting_for_group=counts[WaitingForGroup],
        group_in_flight=counts[GroupInFlight],
        groups_by_queue={label: sum(queued[state] for state in states) for label, states in _QUEUES.items()},
        members_by_queue={label: sum(counts[state] for state in states) for label, states in _QUEUES.items()},
    )
