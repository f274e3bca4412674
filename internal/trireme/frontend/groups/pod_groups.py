"""Pod groups: which pods belong to which PodGroup, and what is known of each group.

Pure: it is told of members and of PodGroup objects, and keeps a `GroupState` for each group of which the object or any
member is known. When a group is tried is the business of `pod_group_queue`, how of `pod_group_cycle`.

The invariant: a member without a node is in `members`, and in exactly one of `waiting`, `pending`, or its attempt or
binding (then it has a flight); one that the watch shows on a node is in `placed` alone.

Source: pkg/scheduler/backend/cache/podgroupstate.go, pkg/scheduler/backend/queue/workload_forest.go.
"""

from collections.abc import Iterator
from typing import Final

from trireme.frontend.groups.pod_group_entry import GroupEntry
from trireme.frontend.queueing.queue_pod import PodRecord, QueuedPod, by_priority
from trireme.v1 import scheduling_pb2

GANG_SCHEDULING: Final = "GangScheduling"


class GroupState:
    """One group. `key` is the PodGroup's namespace/name."""

    __slots__ = (
        "attempt",
        "blocker",
        "class_id",
        "entity",
        "entry",
        "key",
        "members",
        "pending",
        "placed",
        "pod_group",
        "told",
        "waiting",
        "waiting_since",
    )

    def __init__(self, key: str, number: int) -> None:
        self.key = key
        #: Groups are classes of their own: negative, so that no class of pods has the number.
        self.class_id = -number
        #: None: there is no such object (yet), and its members are held.
        self.pod_group: scheduling_pb2.PodGroup | None = None
        #: What is queued in place of the waiting members; None: nothing is.
        self.entity: QueuedPod | None = None
        #: By UID: members without a node.
        self.members: dict[str, QueuedPod] = {}
        #: Those of them that wait, in the entity, or for the object.
        self.waiting: dict[str, QueuedPod] = {}
        #: Those of them that came, or came back, while the group was being tried: they wait for the attempt's end.
        self.pending: dict[str, QueuedPod] = {}
        #: UIDs of members that have a node.
        self.placed: set[str] = set()
        #: UIDs of the members that are being tried together now; None: no attempt is under way.
        self.attempt: frozenset[str] | None = None
        #: The member for which PreEnqueue holds the group back, if it is one member.
        self.blocker: QueuedPod | None = None
        #: What remote plugins were asked, and said, of the members.
        self.entry = GroupEntry()
        #: Since when the group lacks what only others can give (its object, or members); 0: it lacks nothing.
        self.waiting_since = 0.0
        #: Somebody was told that it does.
        self.told = False

    @property
    def namespace(self) -> str:
        """The group's namespace."""
        return self.key.partition("/")[0]

    @property
    def name(self) -> str:
        """The group's name."""
        return self.key.partition("/")[2]

    @property
    def entity_key(self) -> str:
        """What the queue calls the entity: no pod has a name with a slash in it."""
        return f"podgroup/{self.key}"

    @property
    def priority(self) -> int:
        """The group's priority, whatever that of its pods."""
        return self.pod_group.spec.priority if self.pod_group is not None else 0

    @property
    def gang(self) -> bool:
        """Whether a minimum goes at once or none."""
        return self.pod_group is not None and self.pod_group.spec.scheduling_policy.HasField("gang")

    @property
    def min_count(self) -> int:
        """How many pods must have a node for any to be bound."""
        if self.pod_group is None or not self.gang:
            return 1
        return self.pod_group.spec.scheduling_policy.gang.min_count

    @property
    def known_pods(self) -> int:
        """How many members are known, with a node or without."""
        return len(self.members) + len(self.placed)

    @property
    def lacks_pods(self) -> bool:
        """Fewer members are known than have to go at once."""
        return self.gang and self.known_pods < self.min_count

    @property
    def empty(self) -> bool:
        """Nothing is known of it any more."""
        return self.pod_group is None and not self.members and not self.placed and self.attempt is None

    def record(self) -> PodRecord:
        """The entity's record; some member must be waiting."""
        first = next(iter(self.waiting.values()))
        return by_priority(
            self.entity_key, self.entity_key, self.class_id, first.record.profile, self.priority, single=True, pod=self
        )


def in_order(members: list[QueuedPod]) -> list[QueuedPod]:
    """Members in the order in which they are scheduled."""
    return sorted(
        members, key=lambda pod: (-pod.record.priority, -pod.attempts, pod.timestamp, pod.record.key.partition("/")[2])
    )


class PodGroups:
    """All groups, by namespace/name."""

    def __init__(self) -> None:
        self._groups: dict[str, GroupState] = {}
        self._of_member: dict[str, GroupState] = {}
        self._of_placed: dict[str, GroupState] = {}
        self._next_number = 1

    def __iter__(self) -> Iterator[GroupState]:
        return iter(self._groups.values())

    def __len__(self) -> int:
        return len(self._groups)

    def get(self, key: str) -> GroupState | None:
        """The group, if anything is known of it."""
        return self._groups.get(key)

    def made(self, key: str) -> GroupState:
        """The group, made if nothing was known of it."""
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = GroupState(key, self._next_number)
            self._next_number += 1
        return group

    def of_member(self, uid: str) -> GroupState | None:
        """The group of a member without a node."""
        return self._of_member.get(uid)

    def of_placed(self, uid: str) -> GroupState | None:
        """The group of a member that has a node."""
        return self._of_placed.get(uid)

    def add_member(self, group: GroupState, pod: QueuedPod) -> None:
        """A member without a node is known."""
        group.members[pod.record.uid] = pod
        self._of_member[pod.record.uid] = group

    def drop_member(self, uid: str) -> GroupState | None:
        """The member is gone, or has a node; answers its group."""
        group = self._of_member.pop(uid, None)
        if group is not None:
            del group.members[uid]
            group.waiting.pop(uid, None)
            group.pending.pop(uid, None)
        return group

    def add_placed(self, group: GroupState, uid: str) -> None:
        """A member has a node."""
        group.placed.add(uid)
        self._of_placed[uid] = group

    def drop_placed(self, uid: str) -> GroupState | None:
        """A member that had a node is gone; answers its group."""
        group = self._of_placed.pop(uid, None)
        if group is not None:
            group.placed.discard(uid)
        return group

    def tidy(self, group: GroupState) -> None:
        """Forget the group if nothing is known of it any more."""
        if group.empty:
            self._groups.pop(group.key, None)
