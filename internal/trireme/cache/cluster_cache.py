"""The cluster cache: the frontend's state of the cluster, assumed pods included, and its deltas for replicas.

Every snapshot follows it. It assigns slots to nodes, rows to pods and numbers to classes, and stores no more of each
than a full sync needs. A pod is assumed on a node before it is bound; then the informer confirms it, or the frontend
forgets it.

Pure: callers report changes and take deltas; it never waits. Invariants: applying all deltas in order gives the same
state as a full sync taken after the last one; the changes recorded for the next delta are bounded by the size of the
cluster now and at the last delta, however much changed in between (a standby takes no delta before it leads).
"""

import collections
import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from trireme.cache import assumed_objects, class_registry, delta_chunks, label_keys
from trireme.cache.placed_pod import NO_SLOT, PlacedPod
from trireme.cache.pod_projection import PREEMPTED, TERMINATING, Labels, ParsedPod
from trireme.v1 import core_pb2, snapshot_pb2

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """How much the cache holds."""

    generation: int
    nodes: int
    pods: int
    assumed_pods: int
    classes: int


class ClusterCache:
    """Nodes, placed pods, classes and other objects."""

    def __init__(self, registry: class_registry.ClassRegistry) -> None:
        self.registry = registry
        self.generation = 0
        #: Incremented by every change that can affect placements; by one for each assumed pod.
        self.revision = 0
        self._slots: dict[str, int] = {}
        self._entries: dict[int, bytes] = {}  # slot → serialised NodeEntry
        self._names: dict[int, tuple[str, int]] = {}  # slot → node, and the generation since which it is there
        self._free_slots: list[int] = []
        self._next_slot = 0
        self._pods: dict[str, PlacedPod] = {}  # by UID
        self._label_keys = label_keys.LabelKeys()
        self._on_node: dict[str, set[PlacedPod]] = {}  # node name → its pods; the node itself may be unknown
        self._free_rows: list[int] = []
        self._next_row = 0
        self._assumed: set[str] = set()
        self._objects: dict[tuple[str, str, str], snapshot_pb2.ClusterObject] = {}
        self._overlay = assumed_objects.AssumedObjects(self._objects)
        self._nominations: dict[str, snapshot_pb2.Nomination] = {}
        # Nominations by pod UID, with the node's name; the node may be unknown.
        self._pod_nominations: dict[str, tuple[str, snapshot_pb2.Nomination]] = {}
        self._changes = _Changes()
        self._pending_deltas: collections.deque[snapshot_pb2.Delta] = collections.deque()
        # Objects and nominations as of the last delta.
        self._published_objects: set[tuple[str, str, str]] = set()
        self._published_nominations: set[str] = set()
        self._deletion_callbacks: dict[str, list[Callable[[], None]]] = {}  # by a placed pod's UID: deletion callbacks

    def statistics(self) -> CacheStatistics:
        """Count the entries."""
        return CacheStatistics(
            self.generation, len(self._slots), len(self._pods), len(self._assumed), len(self.registry)
        )

    # Nodes

    @property
    def node_count(self) -> int:
        """The number of nodes."""
        return len(self._slots)

    def slot_of(self, name: str) -> int:
        """The node's slot, or NO_SLOT."""
        return self._slots.get(name, NO_SLOT)

    def node_at(self, slot: int, generation: int) -> str | None:
        """The node at the slot if it has been there since the generation; else None."""
        name, since = self._names.get(slot, ("", 0))
        return name if name and since <= generation else None

    def node_names(self) -> list[str]:
        """Names of all nodes."""
        return list(self._slots)

    def node(self, name: str) -> core_pb2.Node | None:
        """The node's latest version."""
        slot = self._slots.get(name)
        return None if slot is None else snapshot_pb2.NodeEntry.FromString(self._entries[slot]).node

    def set_node(self, node: core_pb2.Node, json: bytes = b"") -> tuple[bool, core_pb2.Node | None]:
        """Add or update a node; return whether anything changed, and the old node (None: it is new)."""
        name = node.metadata.name
        slot = self._slots.get(name)
        exists = slot is not None
        if slot is None:
            slot = self._free_slots.pop() if self._free_slots else self._take_new_slot()
            self._slots[name] = slot
        entry = snapshot_pb2.NodeEntry(slot=slot, node=node, json=json).SerializeToString(deterministic=True)
        old = self._entries.get(slot)
        if exists and old == entry:
            return False, node
        before = None if old is None else snapshot_pb2.NodeEntry.FromString(old).node
        if before is not None and is_older_version(before, node):
            return False, before
        self._entries[slot] = entry
        self._changes.nodes.add(slot)
        if before is not None:
            self.revision += bool(json) or not _is_heartbeat(before, node)
            return True, before
        self.revision += 1
        self._names[slot] = (name, self.generation + 1)
        self._changes.new_slots.add(slot)
        for pod in self._on_node.get(name, ()):
            self._assign_row(pod, slot)
        for uid, nomination in self._pod_nominations.items():
            if nomination[0] == name:
                self._place_nomination(uid, slot)
        return True, None

    def remove_node(self, name: str) -> core_pb2.Node | None:
        """Remove the node and nominations to it; its pods stay known until they are deleted too. Returns the node."""
        slot = self._slots.pop(name, None)
        if slot is None:
            return None
        self.revision += 1
        del self._names[slot]
        before = snapshot_pb2.NodeEntry.FromString(self._entries.pop(slot)).node
        for pod in self._on_node.get(name, ()):
            if pod.slot != NO_SLOT:
                self._free_row(pod)
        for uid in [uid for uid, nomination in self._nominations.items() if nomination.slot == slot]:
            self.nominate(uid, None)
        self._changes.nodes.discard(slot)
        if slot in self._changes.new_slots:
            # No replica knows of it.
            self._changes.new_slots.discard(slot)
            self._free_slots.append(slot)
        else:
            self._changes.removed_slots.add(slot)
        return before

    # Pods

    def pod(self, uid: str) -> PlacedPod | None:
        """The placed pod of this UID."""
        return self._pods.get(uid)

    def pods(self) -> Iterable[PlacedPod]:
        """All placed pods."""
        return self._pods.values()

    def set_pod(self, parsed: ParsedPod, class_id: int, base: int) -> PlacedPod | None:
        """The informer shows the pod on a node; returns the previous pod.

        Takes over the caller's reference to the class. Confirms an assumed pod.
        """
        pod = self._pods.get(parsed.uid)
        if pod is None:
            pod = self._place(parsed.key, parsed.uid, parsed.node_name, base, parsed.labels, class_id)
            before = None
        else:
            before = pod
            self._assumed.discard(parsed.uid)
            pod.assumed = False
            self._reclassify(pod, base, parsed.labels, class_id)
            if pod.node_name != parsed.node_name:
                self._leave(pod)
                self._enter(pod, parsed.node_name)
        pod.version, pod.generation = parsed.resource_version, parsed.generation
        if pod.flags != parsed.flags or pod.start != parsed.start:
            # The start time decides who is preempted first, but not where pods can be placed.
            self.revision += pod.flags != parsed.flags
            pod.flags, pod.start = parsed.flags, parsed.start
            self._touch(pod)
            if pod.flags & TERMINATING:
                self._notify_deletion(parsed.uid)
        return before

    def remove_pod(self, uid: str) -> PlacedPod | None:
        """Remove a pod; return it."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return None
        self._assumed.discard(uid)
        self._leave(pod)
        self.registry.release(pod.class_id)
        self._label_keys.remove(uid, pod.labels)
        if len(self._overlay):
            self.forget_objects(uid)
        self._notify_deletion(uid)
        return pod

    def on_deletion(self, uid: str, callback: Callable[[], None]) -> None:
        """Call `callback` once, when the placed pod is deleted or terminating, before any other notification."""
        self._deletion_callbacks.setdefault(uid, []).append(callback)

    def _notify_deletion(self, uid: str) -> None:
        for callback in self._deletion_callbacks.pop(uid, ()):
            callback()

    def assume(self, key: str, uid: str, node_name: str, base: int, labels: Labels, class_id: int) -> None:
        """Assume the pod on the node before it is bound. Counts the pod in its class."""
        if uid in self._pods:
            raise ValueError(f"pod {key} is on node {self._pods[uid].node_name} already")
        interned = self.registry.intern(base, labels)
        pod = self._place(key, uid, node_name, base, labels, interned)
        pod.assumed = True
        self._assumed.add(uid)

    def count_claims(self, uid: str, statuses: Sequence[core_pb2.NodeAllocatableResourceClaimStatus]) -> None:
        """Count the resources that the assumed pod takes for its claims, in addition to its requests."""
        pod = self._pods[uid]
        base = self.registry.base_with_claims(pod.base, statuses)
        self._reclassify(pod, base, pod.labels, self.registry.intern(base, pod.labels))

    def forget(self, uid: str) -> bool:
        """Forget an assumed pod; False if it was not assumed, or is bound by now."""
        if uid not in self._assumed:
            return False
        self.remove_pod(uid)
        return True

    def hide(self, uids: Iterable[str]) -> None:
        """Remove these pods from their nodes in the replicas' view, until `show`, to try what their eviction allows."""
        for uid in uids:
            pod = self._pods.get(uid)
            if pod is not None and pod.slot != NO_SLOT:
                self._free_row(pod)

    def show(self, uids: Iterable[str]) -> None:
        """Put hidden pods that still exist back on their nodes in the replicas' view."""
        for uid in uids:
            pod = self._pods.get(uid)
            slot = NO_SLOT if pod is None else self.slot_of(pod.node_name)
            if pod is not None and pod.slot == NO_SLOT and slot != NO_SLOT:
                self._assign_row(pod, slot)

    def set_evicting(self, uid: str, evicting: bool) -> None:
        """Mark a pod as being evicted: replicas see it as preempted before its object does."""
        pod = self._pods.get(uid)
        flag = PREEMPTED if evicting else 0
        if pod is not None and pod.evicting != flag:
            pod.evicting = flag
            self.revision += 1
            self._touch(pod)

    @property
    def assumed_count(self) -> int:
        """The number of assumed pods."""
        return len(self._assumed)

    def is_assumed(self, uid: str) -> bool:
        """Whether the pod is assumed and not confirmed by the informer."""
        return uid in self._assumed

    def reclassify(self, keys: frozenset[str]) -> None:
        """Classify the pods that carry one of these newly selected label keys again."""
        for uid in self._label_keys.carrying(keys):
            pod = self._pods[uid]
            self._reclassify(pod, pod.base, pod.labels, self.registry.intern(pod.base, pod.labels))

    # Other objects

    def set_object(self, entry: snapshot_pb2.ClusterObject) -> None:
        """Add or update an object."""
        key = _object_key(entry)
        self._objects[key] = entry
        self._change_objects((key, *self._overlay.on_informed(key)))

    def remove_object(self, kind: str, namespace: str, name: str) -> None:
        """Remove an object."""
        key = (kind, namespace, name)
        if self._objects.pop(key, None) is not None:
            self._change_objects((key, *self._overlay.on_informed(key)))

    def get_object(self, kind: str, namespace: str, name: str) -> snapshot_pb2.ClusterObject | None:
        """The object as the informer last delivered it."""
        return self._objects.get((kind, namespace, name))

    def get_assumed(self, kind: str, namespace: str, name: str) -> snapshot_pb2.ClusterObject | None:
        """The assumed object, or the informer's if nothing is assumed."""
        return self._overlay.get((kind, namespace, name))

    def assume_objects(self, uid: str, entries: Iterable[snapshot_pb2.ClusterObject]) -> list[assumed_objects.Change]:
        """Assume these objects for the pod, until their informer shows another version; returns the changed ones.

        Raises: OutOfSyncError if one of them has another version already; then nothing is assumed.
        """
        keyed = {_object_key(entry): entry for entry in entries}
        changes: list[assumed_objects.Change] = [(self._overlay.get(key), entry) for key, entry in keyed.items()]
        self._overlay.assume(uid, keyed)
        self._change_objects(keyed)
        return changes

    def forget_objects(self, uid: str) -> list[assumed_objects.Change]:
        """Drop the pod's assumed objects; return what that changed."""
        dropped = self._overlay.forget(uid)
        self._change_objects(dropped)
        return [(entry, self._overlay.get(key)) for key, entry in dropped.items()]

    def close_objects(self, uids: Collection[str]) -> None:
        """Stop other pods of the group from sharing these pods' assumed objects."""
        closed = self._overlay.close(uids)
        if closed:
            self._change_objects(closed)

    def object_keys(self, kind: str) -> set[tuple[str, str]]:
        """Namespace and name of all objects of a kind."""
        return {(namespace, name) for object_kind, namespace, name in self._objects if object_kind == kind}

    def nominate(self, uid: str, nomination: snapshot_pb2.Nomination | None) -> None:
        """Set the pod's nomination, or clear it with None."""
        self.revision += 1
        if nomination is not None:
            self._nominations[uid] = nomination
            self._changes.nominations.add(uid)
            return
        self._nominations.pop(uid, None)
        if uid in self._published_nominations:
            self._changes.nominations.add(uid)
        else:
            self._changes.nominations.discard(uid)

    def nominate_node(self, nomination: snapshot_pb2.Nomination, node_name: str) -> None:
        """Nominate the node, known or not, for the pod; "" clears the nomination."""
        uid = nomination.pod.uid
        if not node_name:
            self._pod_nominations.pop(uid, None)
            self.nominate(uid, None)
            return
        self._pod_nominations[uid] = (node_name, nomination)
        self._place_nomination(uid, self.slot_of(node_name))

    def _place_nomination(self, uid: str, slot: int) -> None:
        if slot == NO_SLOT:
            self.nominate(uid, None)
            return
        nomination = self._pod_nominations[uid][1]
        nomination.slot = slot
        self.nominate(uid, nomination)

    # Deltas

    def take_delta(self) -> snapshot_pb2.Delta | None:
        """Return the next delta, to the next generation; None if nothing has changed.

        Many changes are split into several deltas (`delta_chunks`), so call this until it returns None.
        """
        if not self._pending_deltas:
            changes = self._take_changes()
            if changes is None:
                return None
            self._pending_deltas.extend(delta_chunks.chunked(self._changed_parts(*changes), self._begin_delta))
        return self._pending_deltas.popleft()

    def _begin_delta(self) -> snapshot_pb2.Delta:
        self.generation += 1
        return snapshot_pb2.Delta(from_generation=self.generation - 1, to_generation=self.generation)

    def _changed_parts(
        self, changes: "_Changes", added: Iterable[class_registry.ClassEntry], removed: Sequence[int]
    ) -> Iterator[delta_chunks.Part]:
        """The changes, in an order in which no delta refers to a later one, or removes what is still referred to."""
        for uid in changes.nominations:
            if uid not in self._nominations:
                yield delta_chunks.BYTES_PER_NAME, functools.partial(_remove_nomination, uid)
        removed_rows = [row for row, pod in changes.rows.items() if pod is None]
        yield from delta_chunks.numbers(removed_rows, lambda delta, rows: delta.removed_pods.extend(rows))
        slots = sorted(changes.removed_slots)
        yield from delta_chunks.numbers(slots, lambda delta, some: delta.removed_slots.extend(some))
        for entry in added:
            yield delta_chunks.pod_class(_class_message(entry))
        for slot in sorted(changes.nodes):
            yield delta_chunks.node(self._entries[slot])
        placed = [pod for pod in changes.rows.values() if pod is not None]
        yield from delta_chunks.pods(placed, changes.known_rows)
        for key in changes.objects:
            entry_ = self._overlay.get(key)
            yield delta_chunks.removed_object(*key) if entry_ is None else delta_chunks.cluster_object(entry_)
        for uid in changes.nominations:
            if uid in self._nominations:
                yield delta_chunks.nomination(self._nominations[uid])
        yield from delta_chunks.numbers(removed, lambda delta, some: delta.removed_classes.extend(some))

    def drop_delta(self) -> None:
        """Discard the changes if there are no followers: new ones start with a full sync."""
        self._pending_deltas.clear()
        if self._take_changes() is not None:
            self.generation += 1

    def _take_changes(self) -> "tuple[_Changes, list[class_registry.ClassEntry], list[int]] | None":
        """Return the changes since the last call; None if there are none."""
        changes, self._changes = self._changes, _Changes()
        added, removed = self.registry.take_changes()
        if changes.empty and not added and not removed:
            return None
        self._free_slots.extend(changes.removed_slots)
        self._free_rows.extend(row for row, pod in changes.rows.items() if pod is None)
        _replace_present(self._published_objects, changes.objects, lambda key: self._overlay.get(key) is not None)
        _replace_present(self._published_nominations, changes.nominations, self._nominations.__contains__)
        return changes, added, removed

    def full_sync(self) -> Iterator[snapshot_pb2.Delta]:
        """Yield the whole cache in chunks, at the last delta's generation. First call take_delta until it returns None.

        Chunks are made lazily: nothing may change the cache before the last one is taken.
        """
        chunk_numbers = itertools.count()

        def begin() -> snapshot_pb2.Delta:
            if next(chunk_numbers) == 0:
                return snapshot_pb2.Delta(reset=True, partial=True, to_generation=self.generation)
            return snapshot_pb2.Delta(from_generation=self.generation, to_generation=self.generation, partial=True)

        yield from delta_chunks.chunked(self._all_parts(), begin)
        last = begin()
        last.partial = False
        yield last

    def _all_parts(self) -> Iterator[delta_chunks.Part]:
        for entry in self.registry.entries():
            yield delta_chunks.pod_class(_class_message(entry))
        for node in self._entries.values():
            yield delta_chunks.node(node)
        settled = [pod for pod in self._pods.values() if pod.slot != NO_SLOT]
        yield from delta_chunks.pods(settled, frozenset())
        for entry_ in self._overlay.all():
            yield delta_chunks.cluster_object(entry_)
        for nomination in self._nominations.values():
            yield delta_chunks.nomination(nomination)

    def _change_objects(self, keys: Iterable[tuple[str, str, str]]) -> None:
        self.revision += 1
        for key in keys:
            # An object added and removed since the last delta is in none.
            if key in self._published_objects or self._overlay.get(key) is not None:
                self._changes.objects.add(key)
            else:
                self._changes.objects.discard(key)

    # Rows and slots

    def _take_new_slot(self) -> int:
        self._next_slot += 1
        return self._next_slot - 1

    def _place(self, key: str, uid: str, node_name: str, base: int, labels: Labels, class_id: int) -> PlacedPod:
        pod = PlacedPod(key, uid, node_name, base, labels, class_id)
        self._pods[uid] = pod
        self._label_keys.add(uid, labels)
        self._enter(pod, node_name)
        return pod

    def _enter(self, pod: PlacedPod, node_name: str) -> None:
        """Put a pod without a node on this one, which may be unknown."""
        pod.node_name = node_name
        pods_on_node = self._on_node.get(node_name)
        if pods_on_node is None:
            pods_on_node = self._on_node[node_name] = set()
        pods_on_node.add(pod)
        slot = self._slots.get(node_name)
        if slot is not None:
            self._assign_row(pod, slot)

    def _leave(self, pod: PlacedPod) -> None:
        """Take the pod off its node."""
        if pod.slot != NO_SLOT:
            self._free_row(pod)
        pods_on_node = self._on_node[pod.node_name]
        pods_on_node.remove(pod)
        if not pods_on_node:
            del self._on_node[pod.node_name]

    def _assign_row(self, pod: PlacedPod, slot: int) -> None:
        if self._free_rows:
            pod.row = self._free_rows.pop()
        else:
            pod.row = self._next_row
            self._next_row += 1
        pod.slot = slot
        self.revision += 1
        self._changes.rows[pod.row] = pod

    def _free_row(self, pod: PlacedPod) -> None:
        """Free the pod's row: at once if no delta had it, else with the next one."""
        changes = self._changes
        self.revision += 1
        if pod.row in changes.rows and pod.row not in changes.known_rows:
            del changes.rows[pod.row]
            self._free_rows.append(pod.row)
        else:
            changes.known_rows.add(pod.row)
            changes.rows[pod.row] = None
        pod.row = pod.slot = NO_SLOT

    def _touch(self, pod: PlacedPod) -> None:
        if pod.slot == NO_SLOT:
            return
        if pod.row not in self._changes.rows:
            self._changes.known_rows.add(pod.row)
        self._changes.rows[pod.row] = pod

    def _reclassify(self, pod: PlacedPod, base: int, labels: Labels, class_id: int) -> None:
        """Set the pod's class, already interned for it, and release the old one."""
        self.registry.release(pod.class_id)
        if labels != pod.labels:
            self._label_keys.remove(pod.uid, pod.labels)
            self._label_keys.add(pod.uid, labels)
        pod.base, pod.labels = base, labels
        if pod.class_id != class_id:
            pod.class_id = class_id
            self.revision += 1
            self._touch(pod)


class _Changes:
    """What has changed since the last delta. `known_rows` are rows that the replicas know of, `new_slots` slots of
    which they do not.
    """

    __slots__ = ("known_rows", "new_slots", "nodes", "nominations", "objects", "removed_slots", "rows")

    def __init__(self) -> None:
        self.nodes: set[int] = set()
        self.new_slots: set[int] = set()
        self.removed_slots: set[int] = set()
        self.rows: dict[int, PlacedPod | None] = {}
        self.known_rows: set[int] = set()
        self.objects: set[tuple[str, str, str]] = set()
        self.nominations: set[str] = set()

    @property
    def empty(self) -> bool:
        return not (self.nodes or self.removed_slots or self.rows or self.objects or self.nominations)


def is_older_version(current: Any, update: Any) -> bool:
    """Whether the update is an older version of the current object. A recreated object is not."""
    old, new = current.metadata, update.metadata
    if old.uid != new.uid or not (old.resource_version.isdigit() and new.resource_version.isdigit()):
        return False
    return int(new.resource_version) < int(old.resource_version)


def _replace_present(published: set[T], changed: set[T], exists: Callable[[T], bool]) -> None:
    """Update `published` for the elements that changed."""
    for each in changed:
        if exists(each):
            published.add(each)
        else:
            published.discard(each)


def _is_heartbeat(before: core_pb2.Node, now: core_pb2.Node) -> bool:
    """Whether only heartbeat times changed, which the kubelet updates every few minutes."""
    plain_nodes = []
    for node in (before, now):
        plain = core_pb2.Node()
        plain.CopyFrom(node)
        plain.metadata.resource_version = ""
        for condition in plain.status.conditions:
            condition.ClearField("last_heartbeat_time")
        plain_nodes.append(plain)
    return plain_nodes[0] == plain_nodes[1]


def _class_message(entry: class_registry.ClassEntry) -> snapshot_pb2.PodClass:
    return snapshot_pb2.PodClass(id=entry.id, pod=entry.pod, labels_projected=entry.projected)


def _remove_nomination(uid: str, delta: snapshot_pb2.Delta) -> None:
    delta.removed_nominations.append(uid)


def _object_key(entry: snapshot_pb2.ClusterObject) -> tuple[str, str, str]:
    kind = entry.WhichOneof("object")
    if kind is None:
        raise ValueError("the object is of no known kind")
    metadata = getattr(entry, kind).metadata
    return kind, metadata.namespace, metadata.name
