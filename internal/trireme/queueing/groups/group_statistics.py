"""The queue in numbers where there are groups: it holds entities, and what is counted are pods."""

import dataclasses

from trireme.queueing.groups.queued_group import PodGroups
from trireme.queueing.queue_status import QueueStatistics
from trireme.queueing.queued_pod import Place

# Where groups may be, by the label of metrics: what is held back is never unschedulable.
_QUEUES = {
    "active": (Place.ACTIVE,),
    "backoff": (Place.BACKOFF,),
    "gated": (Place.UNSCHEDULABLE, Place.ASKED),
}


def with_groups(whole: QueueStatistics, groups: PodGroups) -> QueueStatistics:
    """`whole` counts each group as one pod where it is queued; this counts its members instead."""
    counts = dict.fromkeys(Place, 0)
    entities = dict.fromkeys(Place, 0)
    questions = 0
    for group in groups:
        for pod in group.members.values():
            counts[pod.place] += 1
        questions += len(group.entry.open)
        if group.entity is not None:
            entities[group.entity.place] += 1
    return dataclasses.replace(
        whole,
        active=whole.active + counts[Place.ACTIVE] - entities[Place.ACTIVE],
        error_backoff=whole.error_backoff + counts[Place.BACKOFF] - entities[Place.BACKOFF],
        gated=whole.gated + counts[Place.UNSCHEDULABLE],
        asked=whole.asked + counts[Place.ASKED] - questions,
        in_flight=whole.in_flight + counts[Place.IN_FLIGHT] - entities[Place.IN_FLIGHT],
        done=whole.done + counts[Place.DONE],
        incomplete=counts[Place.INCOMPLETE],
        pending_members=counts[Place.PENDING],
        groups_by_queue={label: sum(entities[place] for place in places) for label, places in _QUEUES.items()},
        members_by_queue={label: sum(counts[place] for place in places) for label, places in _QUEUES.items()},
    )
