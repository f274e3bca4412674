"""What a tree of groups and its pods must agree on: depth, Workload, policies, priority and scheduler.

Source: pkg/scheduler/schedule_one_podgroup.go (validatePodGroupHierarchy).

Tests: tests/unit/scheduling/test_pod_group_cycle.py, tests/unit/scheduling/test_pod_group_trees.py.
"""

from collections.abc import Iterator, Sequence

from trireme.cache import cluster_cache
from trireme.framework import group_ancestry
from trireme.queueing import queued_pod
from trireme.queueing.groups import forest, queued_group
from trireme.v1 import core_pb2

_LOWER = "PreemptLowerPriority"
_PODS = "all pods in a pod group hierarchy should have"
_GROUPS = "all pod groups in a hierarchy should have"

# Name and spec of a pod.
_NamedSpec = tuple[str, core_pb2.PodSpec]


def find_disagreement(
    cache: cluster_cache.ClusterCache,
    group: queued_group.QueuedPodGroupInfo,
    tree: forest.GroupNode,
    members: Sequence[queued_pod.QueuedPodInfo],
) -> str:
    """Return what the group's tree and its pods do not agree on, as an error message; empty: they agree.

    All must have the priority of the root and its preemption policy; where it has none, that of the first member. Pods
    must have one scheduler. Members that are assumed or placed count too.
    """
    pods = list(_first_pod_of_each_class(cache, group, members))
    policy = tree.message.spec.preemption_policy or (pods and pods[0][1].preemption_policy) or _LOWER
    return _find_disagreement_of_groups(tree, policy) or _find_disagreement_of_pods(pods, tree, policy)


def _find_disagreement_of_groups(tree: forest.GroupNode, policy: str) -> str:
    """What groups of the tree do not agree on with the root or with the group above; empty: nothing."""
    root = tree.message.spec
    workload, priority = root.workload_ref.workload_name, root.priority

    def find_below(node: forest.GroupNode, level: int) -> str:
        if node.composite and level == group_ancestry.MAX_LEVELS:
            return f'hierarchy depth exceeds maximum allowed depth {group_ancestry.MAX_LEVELS} at "{node.key}"'
        above = node.message.spec
        for child in node.children:
            spec = child.message.spec
            of_workload = spec.workload_ref.workload_name
            if of_workload != workload:
                return (
                    f'pod group workload does not match root workload, got: "{of_workload}" ("{child.key}") and '
                    f'"{workload}" ("{tree.key}")'
                )
            if spec.priority != priority:
                return (
                    f"{_GROUPS} the same priority as the root pod group's priority, got "
                    f'{spec.priority} ("{child.key}") and {priority} ("{tree.key}")'
                )
            if spec.preemption_policy and spec.preemption_policy != policy:
                got = f'{spec.preemption_policy} ("{child.key}") and {policy}'
                return f"{_GROUPS} the same preemption policy, got {got}"
            if above.scheduling_policy.HasField("gang") and spec.scheduling_policy.HasField("basic"):
                return f'gang parent "{node.key}" cannot have basic child "{child.key}"'
            if above.disruption_mode.HasField("all") and spec.disruption_mode.HasField("single"):
                return (
                    f'parent "{node.key}" with All disruption mode cannot have child "{child.key}" with Single '
                    "disruption mode"
                )
            found = find_below(child, level + 1)
            if found:
                return found
        return ""

    return find_below(tree, 1)


def _find_disagreement_of_pods(pods: Sequence[_NamedSpec], tree: forest.GroupNode, policy: str) -> str:
    """What these pods do not agree on with each other or with the root; empty: nothing."""
    priority = tree.message.spec.priority
    for name, spec in pods:
        first_name, first = pods[0]
        if spec.scheduler_name != first.scheduler_name:
            return (
                f'{_PODS} the same .spec.schedulerName set, got: "{spec.scheduler_name}" ("{name}") and '
                f'"{first.scheduler_name}" ("{first_name}")'
            )
        if spec.priority != priority:
            return (
                f"{_PODS} the same priority as the root pod group's priority, got "
                f'{spec.priority} ("{name}") and {priority} ("{tree.key}")'
            )
        preemption = spec.preemption_policy or _LOWER
        if preemption != policy:
            return f'{_PODS} the same preemption policy, got {preemption} ("{name}") and {policy}'
    return ""


def _first_pod_of_each_class(
    cache: cluster_cache.ClusterCache,
    group: queued_group.QueuedPodGroupInfo,
    members: Sequence[queued_pod.QueuedPodInfo],
) -> Iterator[_NamedSpec]:
    """Yield name and spec of a pod of each class of the group's pods.

    First come the `members` to be tried, then those that are placed or assumed. Members without a class (their object
    is invalid) are left out.
    """
    seen: set[int] = set()
    placed = [cache.pod(uid) for uid in (*group.placed, *group.members)]
    for record in (*(pod.record for pod in members), *placed):
        if record is not None and record.class_id and record.class_id not in seen:
            seen.add(record.class_id)
            yield record.key.partition("/")[2], cache.registry[record.class_id].pod.spec
