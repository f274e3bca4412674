"""Groups of groups (gate CompositePodGroup): which PodGroups and CompositePodGroups there are, and how they belong.

A group names its parent; whether that is there is another matter. What is scheduled is a whole tree: the root is the
one group that names no parent. As long as a parent is missing, or parents go round in a circle, there is no root, and
the pods below wait.

Pure: objects in, trees out. Where the gate is off no group has a parent, and each PodGroup is a tree of its own.

Source: pkg/scheduler/backend/queue/workload_forest.go.

Also change: docs/pod-groups.md.

Tests: tests/unit/queueing/test_pod_group_forest.py, tests/e2e/test_e2e_composite_groups.py.
"""

import dataclasses
from collections.abc import Callable, Iterator

from trireme.framework import group_ancestry
from trireme.queueing.batch_key import GroupKey
from trireme.v1 import scheduling_pb2

Group = group_ancestry.Group


@dataclasses.dataclass(frozen=True, slots=True)
class GroupNode:
    """A group, and the groups in it in the order in which they are scheduled.

    Made by `of`: what is needed of a tree for each pod that comes is read from the object once.
    """

    message: Group
    children: "tuple[GroupNode, ...]"
    #: Its name within the namespace.
    name: str
    #: Whether it is made of groups, not of pods.
    composite: bool
    #: How many pods must have a node, or groups must fit, for any to be bound.
    min_count: int

    @classmethod
    def of(cls, message: Group, children: "tuple[GroupNode, ...]" = ()) -> "GroupNode":
        """The node of this object."""
        composite, min_count = isinstance(message, scheduling_pb2.CompositePodGroup), 1
        if message.spec.scheduling_policy.HasField("gang"):
            gang = message.spec.scheduling_policy.gang
            min_count = (
                gang.min_count if isinstance(gang, scheduling_pb2.GangSchedulingPolicy) else gang.min_group_count
            )
        return cls(message, children, message.metadata.name, composite, min_count)

    @property
    def key(self) -> GroupKey:
        """Its key."""
        return key_of(self.message)

    @property
    def topology(self) -> str:
        """The node label that all pods have to agree on; empty: none."""
        topology = self.message.spec.scheduling_constraints.topology
        return topology[0].key if topology else ""

    def leaves(self) -> "Iterator[GroupNode]":
        """The PodGroups, in order."""
        if not self.composite:
            yield self
        for child in self.children:
            yield from child.leaves()

    def nodes(self) -> "Iterator[GroupNode]":
        """It and all groups below it, each before the groups in it."""
        yield self
        for child in self.children:
            yield from child.nodes()

    def has_minimum(self, count: Callable[[str], int]) -> bool:
        """Whether the minimums of the whole tree are met, where so many pods of a PodGroup (its name) count."""
        if not self.composite:
            return count(self.name) >= self.min_count
        return sum(child.has_minimum(count) for child in self.children) >= self.min_count


def key_of(message: Group) -> GroupKey:
    """The key of the object."""
    metadata = message.metadata
    return GroupKey(f"{metadata.namespace}/{metadata.name}", isinstance(message, scheduling_pb2.CompositePodGroup))


class Forest:
    """The trees of all groups that have an object, by their roots."""

    def __init__(self, *, composite: bool) -> None:
        """`composite`: groups may have parents."""
        self._composite = composite
        self._known: dict[GroupKey, Group] = {}
        # By the parent's key, whether it is there or not.
        self._children: dict[GroupKey, set[GroupKey]] = {}

    def set(self, message: Group) -> None:
        """Add the group, or replace its object; its parent may be another one now."""
        key = key_of(message)
        self.remove(key)
        self._known[key] = message
        parent = self._parent_of_key(key)
        if parent is not None:
            self._children.setdefault(parent, set()).add(key)

    def remove(self, key: GroupKey) -> None:
        """Remove the group, if it is there; its children stay, without a root."""
        parent = self._parent_of_key(key)
        if parent is not None:
            self._children[parent].discard(key)
            if not self._children[parent]:
                del self._children[parent]
        self._known.pop(key, None)

    def root(self, key: GroupKey) -> GroupKey | None:
        """The root of the tree that the group is in; None: it has none, as it is missing, or a group above it."""
        return self._root_and_topmost(key)[0]

    def missing_ancestor(self, key: GroupKey) -> GroupKey | None:
        """The group that keeps this one from having a root; None: it has a root.

        It is one that does not exist, or, if `knows` it, one that is part of itself.
        """
        root, last = self._root_and_topmost(key)
        return None if root is not None else last

    def knows(self, key: GroupKey) -> bool:
        """Whether there is such a group."""
        return key in self._known

    def pod_groups_below(self, key: GroupKey) -> list[str]:
        """The PodGroups (namespace/name) under the group, itself included."""
        if not key.composite:
            return [key.name]
        out, ahead, seen = [], [key], {key}
        while ahead:
            for child in self._children.get(ahead.pop(), ()):
                if not child.composite:
                    out.append(child.name)
                elif child not in seen:
                    seen.add(child)
                    ahead.append(child)
        return out

    def tree(self, root: GroupKey) -> GroupNode | None:
        """The tree of this root; None: there is no such group. The root has to be one."""
        message = self._known.get(root)
        if message is None:
            return None
        children = [node for key in self._children.get(root, ()) if (node := self.tree(key)) is not None]
        return GroupNode.of(message, tuple(sorted(children, key=_creation_order)))

    def _root_and_topmost(self, key: GroupKey) -> tuple[GroupKey | None, GroupKey]:
        """The root, and the last group on the way to it, which may be one that is not there."""
        last, group = group_ancestry.root_of(key, self._known.get, self._parent_of)
        return None if group is None else last, last

    def _parent_of_key(self, key: GroupKey) -> GroupKey | None:
        """The key of the group's parent, there or not; None: it has none, or the group is not there."""
        message = self._known.get(key)
        return None if message is None else self._parent_of(key, message)

    def _parent_of(self, key: GroupKey, message: Group) -> GroupKey | None:
        """The key of the parent that this object names; None: it names none, or composite groups are off."""
        if not self._composite or not message.spec.parent_composite_pod_group_name:
            return None
        return GroupKey(f"{message.metadata.namespace}/{message.spec.parent_composite_pod_group_name}", composite=True)


def _creation_order(node: GroupNode) -> tuple[int, int, str]:
    created = node.message.metadata.creation_timestamp
    return created.seconds, created.nanos, node.name
