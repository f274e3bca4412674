"""The cluster cache: what the frontend knows of the cluster, assumed pods included, and the deltas that tell replicas.

It is the authority that every snapshot follows. It gives nodes their slots, pods their rows and classes their numbers,
and keeps no more of each than a full sync needs. A pod is assumed on a node before it is bound; the informer confirms
it, or the frontend forgets it.

Pure: it is told what happened and hands out deltas; it neither waits nor calls anyone. Invariants: applying every delta
in order gives the same state as a full sync taken after the last one; and what is recorded for the next delta is
bounded by the cluster as it is and as the last delta left it, however much comes and goes between them (a standby takes
no delta before it leads).
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
        #: Grows with every change after which pods may have to be placed otherwise; by one for each pod assumed.
        self.revision = 0
        self._slots: dict[str, int] = {}
        self._entries: dict[int, bytes] = {}  # slot → serialised NodeEntry
        self._names: dict[int, tuple[str, int]] = {}  # slot → node, and the generation since which it is there
        self._free_slots: list[int] = []
        self._next_slot = 0
        self._pods: dict[str, PlacedPod] = {}  # by UID
        self._label_keys = label_keys.LabelKeys()
        self._on_node: dict[str, set[PlacedPod]] = {}  # node name, of a node that is known or not → its pods
        self._free_rows: list[int] = []
        self._next_row = 0
        self._assumed: set[str] = set()
        self._objects: dict[tuple[str, str, str], snapshot_pb2.ClusterObject] = {}
        self._overlay = assumed_objects.AssumedObjects(self._objects)
        self._nominations: dict[str, snapshot_pb2.Nomination] = {}
        # What nominations the pods have, by UID: node and nomination, also where the node is not known (yet).
        self._pod_nominations: dict[str, tuple[str, snapshot_pb2.Nomination]] = {}
        self._changes = _Changes()
        self._pending_deltas: collections.deque[snapshot_pb2.Delta] = collections.deque()
        # Objects and nominations as of the last delta.
        self._published_objects: set[tuple[str, str, str]] = set()
        self._published_nominations: set[str] = set()
        self._when_going: dict[str, list[Callable[[], None]]] = {}  # by UID of a placed pod: who is told when it goes

    def statistics(self) -> CacheStatistics:
        """How much it holds now."""
        return CacheStatistics(
            self.generation, len(self._slots), len(self._pods), len(self._assumed), len(self.registry)
        )

    # Nodes

    @property
    def node_count(self) -> int:
        """How many nodes there are."""
        return len(self._slots)

    def slot_of(self, name: str) -> int:
        """The node's slot, or NO_SLOT."""
        return self._slots.get(name, NO_SLOT)

    def node_at(self, slot: int, generation: int) -> str | None:
        """The node that was at the slot at the generation and still is; None where there is no such node."""
        name, since = self._names.get(slot, ("", 0))
        return name if name and since <= generation else None

    def node_names(self) -> list[str]:
        """Names of all nodes."""
        return list(self._slots)

    def node(self, name: str) -> core_pb2.Node | None:
        """The node as it was told last."""
        slot = self._slots.get(name)
        return None if slot is None else snapshot_pb2.NodeEntry.FromString(self._entries[slot]).node

    def set_node(self, node: core_pb2.Node, json: bytes = b"") -> tuple[bool, core_pb2.Node | None]:
        """The node is this from now on; answers whether that changes anything, and what it was (None: it is new)."""
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
        """The node is gone, and what was nominated to it; its pods stay known until they are gone too. Answers what it
        was.
        """
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
            # No replica has been told of it.
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
        """The informer shows the pod on a node; answers the pod as known before. Takes over the caller's hold on the
        class.

        An assumed pod is confirmed by it.
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
            # Since when a pod runs says who is preempted first, and nothing of where pods go.
            self.revision += pod.flags != parsed.flags
            pod.flags, pod.start = parsed.flags, parsed.start
            self._touch(pod)
            if pod.flags & TERMINATING:
                self._goes(parsed.uid)
        return before

    def remove_pod(self, uid: str) -> PlacedPod | None:
        """The pod is gone; answers what it was."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return None
        self._assumed.discard(uid)
        self._leave(pod)
        self.registry.release(pod.class_id)
        self._label_keys.remove(uid, pod.labels)
        if len(self._overlay):
            self.forget_objects(uid)
        self._goes(uid)
        return pod

    def when_going(self, uid: str, tell: Callable[[], None]) -> None:
        """`tell` once when the placed pod is gone, or is being deleted: before anybody else hears of it."""
        self._when_going.setdefault(uid, []).append(tell)

    def _goes(self, uid: str) -> None:
        for tell in self._when_going.pop(uid, ()):
            tell()

    def assume(self, key: str, uid: str, node_name: str, base: int, labels: Labels, class_id: int) -> None:
        """The pod is taken to be on the node before it is bound. Takes a hold on the class of its own."""
        if uid in self._pods:
            raise ValueError(f"pod {key} is on node {self._pods[uid].node_name} already")
        interned = self.registry.intern(base, labels)
        pod = self._place(key, uid, node_name, base, labels, interned)
        pod.assumed = True
        self._assumed.add(uid)

    def count_claims(self, uid: str, statuses: Sequence[core_pb2.NodeAllocatableResourceClaimStatus]) -> None:
        """The assumed pod takes these resources of its node for its claims, beside what it requests."""
        pod = self._pods[uid]
        base = self.registry.base_with_claims(pod.base, statuses)
        self._reclassify(pod, base, pod.labels, self.registry.intern(base, pod.labels))

    def forget(self, uid: str) -> bool:
        """The pod is not assumed any more; False if it was not, or is bound by now."""
        if uid not in self._assumed:
            return False
        self.remove_pod(uid)
        return True

    def hide(self, uids: Iterable[str]) -> None:
        """The replicas are told that these pods are not on their nodes, until `show`: what would be if they went."""
        for uid in uids:
            pod = self._pods.get(uid)
            if pod is not None and pod.slot != NO_SLOT:
                self._free_row(pod)

    def show(self, uids: Iterable[str]) -> None:
        """Those of the hidden pods that are still there are on their nodes again."""
        for uid in uids:
            pod = self._pods.get(uid)
            slot = NO_SLOT if pod is None else self.slot_of(pod.node_name)
            if pod is not None and pod.slot == NO_SLOT and slot != NO_SLOT:
                self._assign_row(pod, slot)

    def set_evicting(self, uid: str, evicting: bool) -> None:
        """The pod is, or is not, about to be evicted: the replicas see it as preempted before its object says so."""
        pod = self._pods.get(uid)
        flag = PREEMPTED if evicting else 0
        if pod is not None and pod.evicting != flag:
            pod.evicting = flag
            self.revision += 1
            self._touch(pod)

    @property
    def assumed_count(self) -> int:
        """How many pods are on a node by assumption alone."""
        return len(self._assumed)

    def is_assumed(self, uid: str) -> bool:
        """Whether the pod is on a node by assumption alone."""
        return uid in self._assumed

    def reclassify(self, keys: frozenset[str]) -> None:
        """Somebody selects by these label keys now: pods that carry one get their class anew."""
        for uid in self._label_keys.carrying(keys):
            pod = self._pods[uid]
            self._reclassify(pod, pod.base, pod.labels, self.registry.intern(pod.base, pod.labels))

    # Other objects

    def set_object(self, entry: snapshot_pb2.ClusterObject) -> None:
        """The object is this from now on."""
        key = _object_key(entry)
        self._objects[key] = entry
        self._change_objects((key, *self._overlay.on_informed(key)))

    def remove_object(self, kind: str, namespace: str, name: str) -> None:
        """The object is gone."""
        key = (kind, namespace, name)
        if self._objects.pop(key, None) is not None:
            self._change_objects((key, *self._overlay.on_informed(key)))

    def get_object(self, kind: str, namespace: str, name: str) -> snapshot_pb2.ClusterObject | None:
        """The object as the informer shows it."""
        return self._objects.get((kind, namespace, name))

    def get_assumed(self, kind: str, namespace: str, name: str) -> snapshot_pb2.ClusterObject | None:
        """The object as it is assumed to be; as the informer shows it where nothing is assumed of it."""
        return self._overlay.get((kind, namespace, name))

    def assume_objects(self, uid: str, entries: Iterable[snapshot_pb2.ClusterObject]) -> list[assumed_objects.Change]:
        """The objects are taken to be so for the pod, until their informer shows another version of them; answers what
        that changed.

        Raises: OutOfSyncError where one of them is another version already; then nothing is assumed.
        """
        keyed = {_object_key(entry): entry for entry in entries}
        changes: list[assumed_objects.Change] = [(self._overlay.get(key), entry) for key, entry in keyed.items()]
        self._overlay.assume(uid, keyed)
        self._change_objects(keyed)
        return changes

    def forget_objects(self, uid: str) -> list[assumed_objects.Change]:
        """Nothing is assumed of objects for the pod any more; answers what that changed."""
        dropped = self._overlay.forget(uid)
        self._change_objects(dropped)
        return [(entry, self._overlay.get(key)) for key, entry in dropped.items()]

    def close_objects(self, uids: Collection[str]) -> None:
        """What is assumed of objects for these pods of a group is not open to others of it any more."""
        closed = self._overlay.close(uids)
        if closed:
            self._change_objects(closed)

    def object_keys(self, kind: str) -> set[tuple[str, str]]:
        """Namespace and name of all objects of a kind."""
        return {(namespace, name) for object_kind, namespace, name in self._objects if object_kind == kind}

    def nominate(self, uid: str, nomination: snapshot_pb2.Nomination | None) -> None:
        """The pod waits for a node from now on; None: it does not."""
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

    def promise(self, nomination: snapshot_pb2.Nomination, node_name: str) -> None:
        """The pod waits for the node, known or not, from now on; empty: for none."""
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
        """The next delta, to the next generation, of what has changed; None where nothing has.

        Much is divided into several deltas (`delta_chunks`), so call this until it answers None.
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
        """What has changed, in such an order that no delta refers to what only a later one brings, and that none
        removes what is still referred to.
        """
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
        """As take_delta where nobody follows: whoever begins to gets all of it by a full sync."""
        self._pending_deltas.clear()
        if self._take_changes() is not None:
            self.generation += 1

    def _take_changes(self) -> "tuple[_Changes, list[class_registry.ClassEntry], list[int]] | None":
        """What has changed since this was last called; None where nothing has."""
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
        """All of the cache as chunks, at the generation of the last delta. Call take_delta until it answers None first.

        Chunks are made as they are asked for: nothing may change the cache before the last one is.
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
            # An object that came and went since the last delta is in none.
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
        """The pod, which is on no node, is on this one, known or not."""
        pod.node_name = node_name
        pods_on_node = self._on_node.get(node_name)
        if pods_on_node is None:
            pods_on_node = self._on_node[node_name] = set()
        pods_on_node.add(pod)
        slot = self._slots.get(node_name)
        if slot is not None:
            self._assign_row(pod, slot)

    def _leave(self, pod: PlacedPod) -> None:
        """The pod is on no node any more."""
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
        """The pod's row is free: at once where no delta has had it, otherwise with the next one."""
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
        """Give the pod a class that was interned for it; the hold on the old one is released."""
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
    """Whether the object that is told of is an older version of the one that is known. One made again is not."""
    old, new = current.metadata, update.metadata
    if old.uid != new.uid or not (old.resource_version.isdigit() and new.resource_version.isdigit()):
        return False
    return int(new.resource_version) < int(old.resource_version)


def _replace_present(published: set[T], changed: set[T], exists: Callable[[T], bool]) -> None:
    """Bring `published` up to date with the elements that changed."""
    for each in changed:
        if exists(each):
            published.add(each)
        else:
            published.discard(each)


def _is_heartbeat(before: core_pb2.Node, now: core_pb2.Node) -> bool:
    """Whether the node is as it was, and its kubelet only said so once more, as it does every few minutes."""
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
