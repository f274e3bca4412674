"""What all pods of a group have to agree on: schedulerName, priority and preemption policy.

Source: pkg/scheduler/schedule_one_podgroup.go.

Tests: tests/unit/scheduling/test_pod_group_cycle.py.
"""

from collections.abc import Iterator, Sequence

from trireme.cache import cluster_cache
from trireme.queueing import queued_pod
from trireme.queueing.groups import queued_group
from trireme.v1 import core_pb2

_LOWER = "PreemptLowerPriority"
_ALL = "all pods in a pod group hierarchy should have"


def find_disagreement(
    cache: cluster_cache.ClusterCache,
    group: queued_group.QueuedPodGroupInfo,
    members: Sequence[queued_pod.QueuedPodInfo],
) -> str:
    """Return what the group's pods do not agree on, as an error message; empty: they agree.

    They must have one scheduler, the priority of the root, and its preemption policy; where the root has none, that of
    the first member. Members that are assumed or placed count too.
    """
    compared = list(_first_pod_of_each_class(cache, group, members))
    if not compared:
        return ""
    first_name, first = compared[0]
    own_policy = "" if group.tree is None else group.tree.message.spec.preemption_policy
    policy = own_policy or first.preemption_policy or _LOWER
    root = f"{group.group_key.kind}/{group.full_name}"
    for name, spec in compared:
        if spec.scheduler_name != first.scheduler_name:
            return (
                f'{_ALL} the same .spec.schedulerName set, got: "{spec.scheduler_name}" ("{name}") and '
                f'"{first.scheduler_name}" ("{first_name}")'
            )
        if spec.priority != group.priority:
            return (
                f"{_ALL} the same priority as the root pod group's priority, got "
                f'{spec.priority} ("{name}") and {group.priority} ("{root}")'
            )
        preemption = spec.preemption_policy or _LOWER
        if preemption != policy:
            return f'{_ALL} the same preemption policy, got {preemption} ("{name}") and {policy}'
    return ""


def _first_pod_of_each_class(
    cache: cluster_cache.ClusterCache,
    group: queued_group.QueuedPodGroupInfo,
    members: Sequence[queued_pod.QueuedPodInfo],
) -> Iterator[tuple[str, core_pb2.PodSpec]]:
    """Yield name and spec of a pod of each class of the group's pods.

    First come the `members` to be tried, then those that are placed or assumed. Members without a class (their object
    is invalid) are left out.
    """
    seen: set[int] = set()
    assumed = [uid for uid in group.members if cache.is_assumed(uid)]
    placed = [cache.pod(uid) for uid in (*group.placed, *assumed)]
    for record in (*(pod.record for pod in members), *placed):
        if record is not None and record.class_id and record.class_id not in seen:
            seen.add(record.class_id)
            yield record.key.partition("/")[2], cache.registry[record.class_id].pod.spec
