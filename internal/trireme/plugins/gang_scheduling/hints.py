"""Events that may help a pod that GangScheduling holds back: its group comes, needs fewer pods, or gets another pod.

Where groups may be in groups (gate CompositePodGroup), whatever happens to one group of a tree helps all pods of it.

Source: pkg/scheduler/framework/plugins/gangscheduling.
"""

from collections.abc import Sequence
from typing import Any

from trireme.framework import group_ancestry
from trireme.plugin_api.hints import ClassHint, ClusterEventWithHint, ClusterReader, HintContext, helps_none
from trireme.snapshot import classes
from trireme.v1 import core_pb2, scheduling_pb2

_GROUP = "scheduling.k8s.io/PodGroup"

_COMPOSITE = "scheduling.k8s.io/CompositePodGroup"

# A kind of group and its name.
_Key = tuple[str, str]


def events_to_register(context: HintContext) -> Sequence[ClusterEventWithHint]:
    """Register for new pods and groups of the pod's tree, and for a gang whose minimum shrinks.

    A pod never changes its group, so updates of pods do not matter.
    """
    composite = context.features.enabled("CompositePodGroup")
    hints = _GangHints(context.cluster if composite else None)
    wanted = (
        ClusterEventWithHint("UnscheduledPod", ("Add",), hints.after_pod),
        ClusterEventWithHint("AssignedPod", ("Add",), hints.after_pod),
        ClusterEventWithHint(_GROUP, ("Add",), hints.after_group),
        ClusterEventWithHint(_GROUP, ("Update",), hints.after_update),
    )
    of_composites = (
        ClusterEventWithHint(_COMPOSITE, ("Add",), hints.after_composite),
        ClusterEventWithHint(_COMPOSITE, ("Update",), hints.after_composite_update),
    )
    return (*wanted, *of_composites) if composite else wanted


class _GangHints:
    """GangScheduling's hints; `cluster` says which groups are in which."""

    def __init__(self, cluster: ClusterReader | None) -> None:
        self._cluster = cluster

    def after_pod(self, old: None, new: Any) -> ClassHint:
        """Make the hint for a new pod: it helps the pods of its group's tree. One without a group helps none."""
        pod: core_pb2.Pod = new.pod
        if not pod.spec.HasField("scheduling_group"):
            return helps_none
        return self._hint_for_members_of_tree(
            pod.metadata.namespace, ("pod_group", pod.spec.scheduling_group.pod_group_name)
        )

    def after_group(self, old: None, new: scheduling_pb2.PodGroup) -> ClassHint:
        """Make the hint for a new PodGroup: it helps the pods of its tree."""
        return self._hint_for_members_of_tree(new.metadata.namespace, ("pod_group", new.metadata.name))

    def after_composite(self, old: None, new: scheduling_pb2.CompositePodGroup) -> ClassHint:
        """Make the hint for a new CompositePodGroup: it helps the pods of its tree."""
        return self._hint_for_members_of_tree(new.metadata.namespace, ("composite_pod_group", new.metadata.name))

    def after_update(self, old: scheduling_pb2.PodGroup, new: scheduling_pb2.PodGroup) -> ClassHint:
        """Make the hint for an updated PodGroup: it helps its tree if the gang needs fewer pods than before."""
        before, after = old.spec.scheduling_policy, new.spec.scheduling_policy
        if not before.HasField("gang") or not after.HasField("gang") or after.gang.min_count >= before.gang.min_count:
            return helps_none
        return self.after_group(None, new)

    def after_composite_update(
        self, old: scheduling_pb2.CompositePodGroup, new: scheduling_pb2.CompositePodGroup
    ) -> ClassHint:
        """Make the hint for an updated CompositePodGroup: it helps its tree if it needs fewer groups than before."""
        before, after = old.spec.scheduling_policy, new.spec.scheduling_policy
        if not after.HasField("gang") or after.gang.min_group_count >= before.gang.min_group_count:
            return helps_none
        return self.after_composite(None, new)

    def _hint_for_members_of_tree(self, namespace: str, key: _Key) -> ClassHint:
        """Make the hint that helps all pods of the tree that the group is in; none, if the tree is incomplete."""
        root = self._root_of_tree(namespace, key)

        def helps(pod_class: classes.PodClass) -> bool:
            spec = pod_class.pod.spec
            if root is None or pod_class.namespace != namespace or not spec.HasField("scheduling_group"):
                return False
            return self._root_of_tree(namespace, ("pod_group", spec.scheduling_group.pod_group_name)) == root

        return helps

    def _root_of_tree(self, namespace: str, key: _Key) -> _Key | None:
        """The topmost group of the tree; None: some group on the way is not there, or is part of itself."""
        cluster = self._cluster
        if cluster is None:
            return key
        last, group = group_ancestry.root_of(
            key, lambda at: cluster.get(at[0], namespace, at[1]), _key_of_composite_parent
        )
        return None if group is None else last


def _key_of_composite_parent(key: _Key, group: group_ancestry.Group) -> _Key | None:
    """Return the key of the composite group that a group is in; None: it is in none."""
    parent = group.spec.parent_composite_pod_group_name
    return ("composite_pod_group", parent) if parent else None
