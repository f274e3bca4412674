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


def find_disagreement(
    cache: cluster_cache.ClusterCache,
    group: queued_group.QueuedPodGroupInfo,
    members: Sequence[queued_pod.QueuedPodInfo],
    *,
    own_policy: bool,
) -> str:
    """Return what the group's pods do not agree on, as an error message; empty: they agree.

    They must have one scheduler, the group's priority, and one preemption policy; `own_policy`: that of the group's
    object (PreemptLowerPriority if it has none). Members that are assumed or placed count too.
    """
    name, policy, whose = "", "", ""
    if own_policy and group.tree is not None:
        policy, whose = group.tree.message.spec.preemption_policy or _LOWER, " as the pod group's preemption policy"
    for scheduler, priority, preemption in _compared_fields_of_members(cache, group, members):
        name, policy = name or scheduler, policy or preemption
        if scheduler != name:
            return (
                "all pods in a single pod group should have the same .spec.schedulerName set, got: "
                f'"{scheduler}" and "{name}"'
            )
        if priority != group.priority:
            return (
                "all pods in a single pod group should have the same priority as the pod group's priority, got "
                f"{priority} and {group.priority}"
            )
        if preemption != policy:
            return (
                f"all pods in a single pod group should have the same preemption policy{whose}, got "
                f"{preemption} and {policy}"
            )
    return ""


def _compared_fields_of_members(
    cache: cluster_cache.ClusterCache,
    group: queued_group.QueuedPodGroupInfo,
    members: Sequence[queued_pod.QueuedPodInfo],
) -> Iterator[tuple[str, int, str]]:
    """Yield schedulerName, priority and preemption policy of each class of the group's pods, once.

    First come the `members` to be tried, then those that are placed or assumed. Members without a class (their object
    is invalid) are left out.
    """
    seen: set[int] = set()
    for pod in members:
        class_id = pod.record.class_id
        if class_id and class_id not in seen:
            seen.add(class_id)
            yield _compared_fields_of_class(cache.registry[class_id].pod)
    assumed = [uid for uid in group.members if cache.is_assumed(uid)]
    for uid in (*group.placed, *assumed):
        placed = cache.pod(uid)
        if placed is not None and placed.class_id not in seen:
            seen.add(placed.class_id)
            yield _compared_fields_of_class(cache.registry[placed.class_id].pod)


def _compared_fields_of_class(pod: core_pb2.Pod) -> tuple[str, int, str]:
    spec = pod.spec
    return spec.scheduler_name, spec.priority, spec.preemption_policy or _LOWER
