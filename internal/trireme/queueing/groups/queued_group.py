"""Pod groups: which pods are scheduled together, and what is known of them.

Pure: it is given members and the objects of groups, and has a `QueuedPodGroupInfo` for each tree of groups (`forest`)
whose root object or any member is known; mostly the tree is one PodGroup. Members of a PodGroup that is in no
tree have one of their own, without a tree. When a group is tried is the business of `queue_groups`, how of
`pod_group_cycle`.

The invariant: a member without a node is in `members`, and in exactly one of `waiting`, `pending`, or its attempt or
binding (then it is in flight, or done); one that the watch shows on a node is in `placed` alone.

Source: pkg/scheduler/backend/cache/podgroupstate.go, pkg/scheduler/backend/queue/workload_forest.go.

Tests: tests/unit/queueing/test_group_state_machine.py, tests/unit/queueing/test_group_queue.py.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from trireme.framework.sort_key import SortNumbers
from trireme.queueing.batch_key import GroupKey
from trireme.queueing.groups.forest import Forest, GroupNode
from trireme.queueing.groups.member_pre_enqueue_calls import MemberPreEnqueueCalls
from trireme.queueing.pod_info import key_by_priority
from trireme.queueing.queued_entity import Container
from trireme.queueing.queued_pod import NO_PLUGINS, QueuedPodInfo
from trireme.queueing.states import GONE, Gated, Gone, QueueState


class PodGroupInfo(NamedTuple):
    """The sort key of a group in the queue. It is a batch of its own, ordered by priority, then by age.

    Where a remote QueueSort plugin orders pods, the group is where the first of its waiting members would be.
    """

    #: A pod's key is namespace/name; this has the group's kind before.
    key: str
    #: As `key`: the group stands for objects of more than one UID.
    uid: str
    profile: str = ""
    priority: int = 0
    level: SortNumbers = (0,)
    rest: SortNumbers = ()
    exclusive: bool = True
    nominated: bool = False


class QueuedPodGroupInfo:
    """The pods of one tree of groups, which are scheduled together, named after the root.

    While members wait it is queued in their place. Times are Unix seconds of the steady clock.
    """

    __slots__ = (
        "attempt",
        "backoff_expiration",
        "blocker",
        "calls",
        "consecutive_errors",
        "container",
        "flushed_at",
        "group_key",
        "initial_attempt_timestamp",
        "known",
        "members",
        "notified",
        "pending",
        "placed",
        "record",
        "stamp",
        "state",
        "timestamp",
        "tree",
        "unschedulable_count",
        "waiting",
        "waiting_since",
    )

    def __init__(self, group_key: GroupKey) -> None:
        self.group_key = group_key
        #: None: there is no such tree (yet), and the members wait for it.
        self.tree: GroupNode | None = None
        #: By UID: members without a node.
        self.members: dict[str, QueuedPodInfo] = {}
        #: Those of them that wait, in the queued group, or for the tree.
        self.waiting: dict[str, QueuedPodInfo] = {}
        #: Those of them that were added, or requeued, during an attempt at the group: they wait for its end.
        self.pending: dict[str, QueuedPodInfo] = {}
        #: By UID: members that have a node, with the name of their PodGroup.
        self.placed: dict[str, str] = {}
        #: By name of a PodGroup, how many members are known, with a node or without.
        self.known: Counter[str] = Counter()
        #: UIDs of the members that are being tried together now; None: no attempt is under way.
        self.attempt: frozenset[str] | None = None
        #: The member for which PreEnqueue holds the group back, if it is one member.
        self.blocker: QueuedPodInfo | None = None
        #: Of remote PreEnqueue plugins, for the members.
        self.calls = MemberPreEnqueueCalls()
        #: Since when an object or members are missing; 0: nothing is.
        self.waiting_since = 0.0
        #: Its owner was notified that it does.
        self.notified = False
        #: Assigned by `GroupTransitions`, and by `Transitions` where it enters. Gone: nothing is queued for the group.
        self.state: QueueState = GONE
        #: Of when it was queued, and requeued, last.
        self.record = PodGroupInfo(str(group_key), str(group_key))
        self.timestamp = 0.0
        #: When the five-minute flush last checked whether it is still held back.
        self.flushed_at = 0.0
        self.initial_attempt_timestamp = 0.0
        self.container: Container | None = None
        self.stamp = 0
        self.unschedulable_count = 0
        self.consecutive_errors = 0
        self.backoff_expiration = 0.0

    @property
    def key(self) -> str:
        """Its key in the queue; its slash keeps it apart from names of pods."""
        return self.record.key

    @property
    def uid(self) -> str:
        """The same key, by which preemption knows the group."""
        return self.record.uid

    @property
    def rejectors(self) -> frozenset[str]:
        """None: the members have theirs, and no hints are evaluated for a group."""
        return NO_PLUGINS

    @property
    def full_name(self) -> str:
        """Namespace/name of the root."""
        return self.group_key.name

    @property
    def namespace(self) -> str:
        """The group's namespace."""
        return self.full_name.partition("/")[0]

    @property
    def name(self) -> str:
        """The root's name."""
        return self.full_name.partition("/")[2]

    @property
    def priority(self) -> int:
        """The root's priority, whatever that of its pods."""
        return self.tree.message.spec.priority if self.tree is not None else 0

    @property
    def queued(self) -> bool:
        """It is queued in place of its waiting members, or being tried."""
        return not isinstance(self.state, Gone)

    @property
    def gated_by(self) -> str:
        """The PreEnqueue plugin that holds it back; empty: none."""
        return self.state.plugin if isinstance(self.state, Gated) else ""

    @property
    def gate_reason(self) -> str:
        """The reason that this plugin gave; empty: none."""
        return self.state.reason if isinstance(self.state, Gated) else ""

    @property
    def lacks_pods(self) -> bool:
        """Fewer members are known than have to go at once."""
        return self.tree is not None and not self.tree.has_minimum(self.known.__getitem__)

    @property
    def empty(self) -> bool:
        """Nothing is known of it."""
        return self.tree is None and not self.members and not self.placed and self.attempt is None

    def refresh_record(self) -> None:
        """Takes over the priority of the root, and the profile of the members; some member must be waiting."""
        first = next(iter(self.waiting.values()))
        given = [pod.record.level for pod in self.waiting.values() if pod.record.pod.given_sort_key is not None]
        level = min(given) if given else key_by_priority(self.priority).level
        self.record = self.record._replace(profile=first.record.profile, priority=self.priority, level=level)

    def start_queueing(self) -> None:
        """Begins to be queued: as old as the first member that waits, with no failure behind it."""
        first = next(iter(self.waiting.values()))
        self.timestamp, self.initial_attempt_timestamp = first.timestamp, first.initial_attempt_timestamp
        self.unschedulable_count = self.consecutive_errors = 0
        self.backoff_expiration = 0.0


class PodGroupBatch(NamedTuple):
    """A batch of one group, with all members that wait (`group.attempt`)."""

    key: GroupKey
    profile: str
    group: QueuedPodGroupInfo

    @property
    def size(self) -> int:
        """How many pods it has."""
        return len(self.group.attempt or ())


def pod_group_name(pod: QueuedPodInfo) -> str:
    """The name of the member's PodGroup."""
    return pod.record.pod.parsed.group


def in_scheduling_order(members: list[QueuedPodInfo]) -> list[QueuedPodInfo]:
    """Members of a PodGroup in the order in which they are scheduled."""
    return sorted(
        members, key=lambda pod: (-pod.record.priority, -pod.attempts, pod.timestamp, pod.record.key.partition("/")[2])
    )


class PodGroups:
    """All groups, by their roots."""

    def __init__(self, *, composite: bool) -> None:
        """`composite`: groups may be made of groups."""
        self.forest = Forest(composite=composite)
        self._groups: dict[GroupKey, QueuedPodGroupInfo] = {}
        self._of_member: dict[str, QueuedPodGroupInfo] = {}
        self._of_placed: dict[str, QueuedPodGroupInfo] = {}

    def __iter__(self) -> Iterator[QueuedPodGroupInfo]:
        return iter(self._groups.values())

    def __len__(self) -> int:
        return len(self._groups)

    def get(self, key: GroupKey) -> QueuedPodGroupInfo | None:
        """The group, if anything is known of it."""
        return self._groups.get(key)

    def with_queue_key(self, key: str) -> QueuedPodGroupInfo | None:
        """The group that the queue calls by this key; None: there is none."""
        return self._groups.get(GroupKey.parse(key))

    def get_or_add(self, key: GroupKey) -> QueuedPodGroupInfo:
        """The group, made if nothing was known of it."""
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = QueuedPodGroupInfo(key)
        return group

    def group_for(self, name: str) -> QueuedPodGroupInfo:
        """Where members of the PodGroup (namespace/name) belong: the state of the tree it is in, or of its own."""
        key = GroupKey(name)
        return self.get_or_add(self.forest.root(key) or key)

    def group_of_member(self, uid: str) -> QueuedPodGroupInfo | None:
        """The group of a member without a node."""
        return self._of_member.get(uid)

    def group_of_placed(self, uid: str) -> QueuedPodGroupInfo | None:
        """The group of a member that has a node."""
        return self._of_placed.get(uid)

    def add_member(self, group: QueuedPodGroupInfo, pod: QueuedPodInfo) -> None:
        """Enter a member without a node."""
        group.members[pod.record.uid] = pod
        group.known[pod_group_name(pod)] += 1
        self._of_member[pod.record.uid] = group

    def drop_member(self, uid: str) -> None:
        """Remove a member without a node, which is gone, has one now, or moves to another tree."""
        group = self._of_member.pop(uid)
        _decrement_and_drop_zero(group.known, pod_group_name(group.members.pop(uid)))
        group.waiting.pop(uid, None)
        group.pending.pop(uid, None)

    def add_placed(self, group: QueuedPodGroupInfo, uid: str, name: str) -> None:
        """Enter a member, of the PodGroup of this name, that has a node."""
        group.placed[uid] = name
        group.known[name] += 1
        self._of_placed[uid] = group

    def drop_placed(self, uid: str) -> QueuedPodGroupInfo | None:
        """Remove a member that had a node; return its group."""
        group = self._of_placed.pop(uid, None)
        if group is not None:
            _decrement_and_drop_zero(group.known, group.placed.pop(uid))
        return group

    def missing_text(self, group: QueuedPodGroupInfo) -> str:
        """The object that a group without a tree waits for, as words that follow "waits"."""
        missing = self.forest.missing_ancestor(group.group_key) or group.group_key
        if self.forest.knows(missing):
            return f"in vain: {missing.api_kind} {missing.name} is part of itself"
        return f"for {missing.api_kind} {missing.name} to appear"

    def drop_if_empty(self, group: QueuedPodGroupInfo) -> None:
        """Forget the group if nothing is known of it."""
        if group.empty:
            self._groups.pop(group.group_key, None)


def _decrement_and_drop_zero(counted: Counter[str], name: str) -> None:
    """Count one fewer of `name`; a count of 0 is removed."""
    counted[name] -= 1
    if not counted[name]:
        del counted[name]
