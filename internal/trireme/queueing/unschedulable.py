"""The pods that were refused, or are gated, until something changes.

They are held in groups of pods that each event helps all or none of: one class, refused by the same plugins, gated by
the same plugin, nominated to the same node. An event is evaluated once for a group, however many pods it has, and an
index from plugin to groups finds the groups that it concerns. While nothing happens nothing here is looked at: the
five-minute flush compares one number per group.

Tests: tests/unit/queueing/test_scheduling_queue.py.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from trireme.queueing.queued_entity import QueuedEntity
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.queueing.states import Gated, Unschedulable


class RefusalKey(NamedTuple):
    """What the pods of a group have in common."""

    class_id: int
    rejectors: frozenset[str]
    pending_plugins: frozenset[str]
    gated_by: str
    nominated_node: str


class RefusalGroup:
    """Pods that an event helps all, or none."""

    __slots__ = ("_owner", "key", "not_before", "pods", "priority", "profile", "state")

    def __init__(self, owner: "UnschedulablePods", key: RefusalKey, pod: QueuedPodInfo) -> None:
        self._owner = owner
        self.key = key
        self.profile = pod.record.profile
        self.priority = pod.record.priority
        #: The state of its pods.
        self.state = Gated(key.gated_by) if key.gated_by else Unschedulable(key.rejectors, key.pending_plugins)
        self.pods: dict[str, QueuedPodInfo] = {}
        #: No pod here was parked, or last flushed, before this moment.
        self.not_before = float("inf")

    def discard(self, entity: QueuedEntity) -> None:
        """Takes the pod out."""
        del self.pods[entity.record.key]
        entity.container = None
        self._owner.on_removed(self)

    def any_pod(self) -> QueuedPodInfo:
        """Any of them, in place of all."""
        return next(iter(self.pods.values()))


class UnschedulablePods:
    """The pods that were refused or are gated, in groups that no event can tell apart; both are counted."""

    __slots__ = ("_by_plugin", "_groups", "gated", "refused")

    def __init__(self) -> None:
        self._groups: dict[RefusalKey, RefusalGroup] = {}
        # (profile, plugin) -> groups that the plugin refused; dicts, as ordered sets.
        self._by_plugin: dict[tuple[str, str], dict[RefusalKey, RefusalGroup]] = {}
        self.gated = 0
        self.refused = 0

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (pod for group in self._groups.values() for pod in group.pods.values())

    def groups(self) -> Iterator[RefusalGroup]:
        """The groups, in the order in which their first pod came."""
        return iter(self._groups.values())

    @property
    def group_count(self) -> int:
        """How many groups there are."""
        return len(self._groups)

    def add(self, pod: QueuedPodInfo, gated_by: str = "") -> Gated | Unschedulable:
        """Takes in a pod that was refused, or is gated by a plugin; returns the state that it is in now."""
        record = pod.record
        key = RefusalKey(record.class_id, pod.rejectors, pod.pending_plugins, gated_by, record.nominated_node)
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = RefusalGroup(self, key, pod)
            for plugin in key.rejectors:
                self._by_plugin.setdefault((group.profile, plugin), {})[key] = group
        group.pods[record.key] = pod
        group.not_before = min(group.not_before, max(pod.timestamp, pod.flushed_at))
        pod.container = group
        if gated_by:
            self.gated += 1
        else:
            self.refused += 1
        return group.state

    def on_removed(self, group: RefusalGroup) -> None:
        """A pod was taken out of `group`."""
        key = group.key
        if key.gated_by:
            self.gated -= 1
        else:
            self.refused -= 1
        if not group.pods:
            del self._groups[key]
            for plugin in key.rejectors:
                groups = self._by_plugin[group.profile, plugin]
                del groups[key]
                if not groups:
                    del self._by_plugin[group.profile, plugin]

    def groups_refused_by(self, profile: str, plugins: Iterable[str]) -> list[RefusalGroup]:
        """The groups of that profile that any of the plugins refused."""
        found: dict[RefusalKey, RefusalGroup] = {}
        for plugin in plugins:
            found.update(self._by_plugin.get((profile, plugin), {}))
        return list(found.values())

    def get(self, key: RefusalKey) -> RefusalGroup | None:
        """The group of that key, if it has any pod."""
        return self._groups.get(key)

    def pods_since_before(self, moment: float) -> list[QueuedPodInfo]:
        """Return the pods that have been here, unflushed, since before `moment`; the caller takes them all out."""
        found: list[QueuedPodInfo] = []
        for group in self._groups.values():
            if group.not_before >= moment:
                continue
            earliest = float("inf")
            for pod in group.pods.values():
                since = max(pod.timestamp, pod.flushed_at)
                if since < moment:
                    found.append(pod)
                else:
                    earliest = min(earliest, since)
            group.not_before = earliest
        return found
