"""The delta log: the changes since the last delta, and the numbers by which replicas know nodes and placed pods.

It assigns slots to nodes and rows to pods, and reuses a number only once the replicas have removed its owner.

Invariants: applying all deltas in order gives the same state as a full sync taken after the last one; the changes
recorded for the next delta are bounded by the size of the cluster now and at the last delta, however much changed in
between (a standby takes no delta before it leads).

Tests: tests/unit/cache/test_cluster_cache_deltas.py, tests/unit/simulation/test_scenarios.py.
"""

import collections
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from trireme.cache import assumed_objects, class_registry, delta_chunks
from trireme.cache.placed_pod import NO_SLOT, PlacedPod
from trireme.v1 import snapshot_pb2

T = TypeVar("T")


class DeltaLog:
    """Records what changes in the cache, assigns slots and rows, and makes deltas and full syncs of it."""

    def __init__(
        self,
        registry: class_registry.ClassRegistry,
        nodes: Mapping[int, bytes],
        objects: assumed_objects.AssumedObjects,
        nominations: Mapping[str, snapshot_pb2.Nomination],
    ) -> None:
        """The contents of the cache: `nodes` are serialised NodeEntries by slot, `nominations` are by pod UID."""
        self.generation = 0
        self._registry = registry
        self._nodes = nodes
        self._objects = objects
        self._nominations = nominations
        self._free_slots: list[int] = []
        self._next_slot = 0
        self._free_rows: list[int] = []
        self._next_row = 0
        self._changes = _Changes()
        # Whether a group is being tried, and whether the last delta was made while one was.
        self._trial = self._trial_published = False
        self._pending_deltas: collections.deque[snapshot_pb2.Delta] = collections.deque()
        # Objects and nominations as of the last delta.
        self._published_objects: set[tuple[str, str, str]] = set()
        self._published_nominations: set[str] = set()

    def resume(
        self,
        generation: int,
        *,
        slots: tuple[int, Sequence[int]],
        rows: tuple[int, Sequence[int]],
        objects: set[tuple[str, str, str]],
    ) -> None:
        """Go on from this generation, at which replicas know all that the tables hold.

        `slots` and `rows` are the first number that was never given, and the free ones below it; the last of these is
        given first. `objects` are the keys of all objects, which are updated from now on.
        """
        self.generation = generation
        self._next_slot, self._free_slots = slots[0], list(slots[1])
        self._next_row, self._free_rows = rows[0], list(rows[1])
        self._published_objects = objects
        self._published_nominations = set(self._nominations)

    # Nodes

    def assign_slot(self) -> int:
        """Return a free slot for a new node."""
        if self._free_slots:
            slot = self._free_slots.pop()
        else:
            slot = self._next_slot
            self._next_slot += 1
        self._changes.new_slots.add(slot)
        return slot

    def record_node_change(self, slot: int) -> None:
        """Record that the node at the slot is new or has changed."""
        self._changes.nodes.add(slot)

    def free_slot(self, slot: int) -> None:
        """Record that the node at the slot was deleted."""
        self._changes.nodes.discard(slot)
        if slot in self._changes.new_slots:
            # No replica knows of it.
            self._free_slots.append(slot)
        else:
            self._changes.removed_slots.add(slot)

    # Placed pods

    def assign_row(self, pod: PlacedPod, slot: int) -> None:
        """Give the pod a row, on the node at the slot."""
        if self._free_rows:
            pod.row = self._free_rows.pop()
        else:
            pod.row = self._next_row
            self._next_row += 1
        pod.slot = slot
        self._changes.rows[pod.row] = pod

    def free_row(self, pod: PlacedPod) -> None:
        """Free the pod's row: at once if no delta had it, else with the next one."""
        changes = self._changes
        if pod.row in changes.rows and pod.row not in changes.known_rows:
            del changes.rows[pod.row]
            self._free_rows.append(pod.row)
        else:
            changes.known_rows.add(pod.row)
            changes.rows[pod.row] = None
        pod.row = pod.slot = NO_SLOT

    def record_pod_change(self, pod: PlacedPod) -> None:
        """Record that the pod has changed, if it has a row."""
        if pod.slot == NO_SLOT:
            return
        if pod.row not in self._changes.rows:
            self._changes.known_rows.add(pod.row)
        self._changes.rows[pod.row] = pod

    # Other objects

    def record_object_change(self, key: tuple[str, str, str]) -> None:
        """Record that the object was added, changed or removed."""
        # An object added and removed since the last delta is in none.
        if key in self._published_objects or self._objects.get(key) is not None:
            self._changes.objects.add(key)
        else:
            self._changes.objects.discard(key)

    def record_nomination_change(self, uid: str) -> None:
        """Record that the pod's nomination was added, changed or removed."""
        if uid in self._published_nominations or uid in self._nominations:
            self._changes.nominations.add(uid)
        else:
            self._changes.nominations.discard(uid)

    # Deltas

    def set_trial(self, trial: bool) -> None:
        """Mark the deltas from now on: whether a group is being tried, so that what they show may be taken back."""
        self._trial = trial

    @property
    def has_changes(self) -> bool:
        """Whether nodes, pods, objects or nominations have changes that `take_delta` has not returned."""
        return bool(self._pending_deltas) or not self._changes.empty

    def take_delta(self) -> snapshot_pb2.Delta | None:
        """Return the next delta, to the next generation; None if nothing has changed.

        Many changes are split into several deltas (`delta_chunks`), so call this until it returns None. After a trial
        an empty delta of the same generation ends it, if nothing else does.
        """
        if not self._pending_deltas:
            changes = self._take_changes()
            if changes is not None:
                self._pending_deltas.extend(
                    delta_chunks.pack_into_deltas(self._parts_of_changes(*changes), self._begin_delta)
                )
            elif self._trial_published and not self._trial:
                end = snapshot_pb2.Delta(from_generation=self.generation, to_generation=self.generation)
                self._pending_deltas.append(end)
            else:
                return None
        delta = self._pending_deltas.popleft()
        self._trial_published = delta.trial
        return delta

    def _begin_delta(self) -> snapshot_pb2.Delta:
        """Make an empty delta to the next generation."""
        self.generation += 1
        return snapshot_pb2.Delta(from_generation=self.generation - 1, to_generation=self.generation, trial=self._trial)

    def _parts_of_changes(
        self, changes: "_Changes", added: Iterable[class_registry.ClassEntry], removed: Sequence[int]
    ) -> Iterator[delta_chunks.Part]:
        """The changes, in an order in which no delta refers to a later one, or removes what is still referred to."""
        for uid in changes.nominations:
            if uid not in self._nominations:
                yield delta_chunks.BYTES_PER_NAME, functools.partial(_add_removed_nomination, uid)
        removed_rows = [row for row, pod in changes.rows.items() if pod is None]
        yield from delta_chunks.removed_number_parts(removed_rows, lambda delta, rows: delta.removed_pods.extend(rows))
        slots = sorted(changes.removed_slots)
        yield from delta_chunks.removed_number_parts(slots, lambda delta, some: delta.removed_slots.extend(some))
        for entry in added:
            yield delta_chunks.pod_class_part(_pod_class_message(entry))
        for slot in sorted(changes.nodes):
            yield delta_chunks.node_part(self._nodes[slot])
        placed = [pod for pod in changes.rows.values() if pod is not None]
        yield from delta_chunks.pod_parts(placed, changes.known_rows)
        for key in changes.objects:
            entry_ = self._objects.get(key)
            yield delta_chunks.removed_object_part(*key) if entry_ is None else delta_chunks.cluster_object_part(entry_)
        for uid in changes.nominations:
            if uid in self._nominations:
                yield delta_chunks.nomination_part(self._nominations[uid])
        yield from delta_chunks.removed_number_parts(removed, lambda delta, some: delta.removed_classes.extend(some))

    def drop_delta(self) -> None:
        """Discard the changes if there are no followers: new ones start with a full sync."""
        self._pending_deltas.clear()
        self._trial_published = False
        if self._take_changes() is not None:
            self.generation += 1

    def _take_changes(self) -> "tuple[_Changes, list[class_registry.ClassEntry], list[int]] | None":
        """Return the changes since the last call; None if there are none.

        From now on they count as published: freed slots and rows may be given again.
        """
        changes, self._changes = self._changes, _Changes()
        added, removed = self._registry.take_changes()
        if changes.empty and not added and not removed:
            return None
        self._free_slots.extend(changes.removed_slots)
        self._free_rows.extend(row for row, pod in changes.rows.items() if pod is None)
        _update_published(self._published_objects, changes.objects, lambda key: self._objects.get(key) is not None)
        _update_published(self._published_nominations, changes.nominations, self._nominations.__contains__)
        return changes, added, removed

    def full_sync(self, pods: Iterable[PlacedPod]) -> Iterator[snapshot_pb2.Delta]:
        """Yield the whole cache with these pods in chunks, at the last delta's generation.

        First call take_delta until it returns None. Chunks are made lazily: nothing may change the cache before the
        last one is taken.
        """
        chunk_numbers = itertools.count()

        def begin_chunk() -> snapshot_pb2.Delta:
            delta = snapshot_pb2.Delta(partial=True, to_generation=self.generation, trial=self._trial)
            if next(chunk_numbers) == 0:
                delta.reset = True
            else:
                delta.from_generation = self.generation
            return delta

        yield from delta_chunks.pack_into_deltas(self._parts_of_full_sync(pods), begin_chunk)
        last = begin_chunk()
        last.partial = False
        yield last

    def _parts_of_full_sync(self, pods: Iterable[PlacedPod]) -> Iterator[delta_chunks.Part]:
        """All that a full sync consists of, nothing before what it refers to."""
        for entry in self._registry.entries():
            yield delta_chunks.pod_class_part(_pod_class_message(entry))
        for node in self._nodes.values():
            yield delta_chunks.node_part(node)
        with_row = [pod for pod in pods if pod.slot != NO_SLOT]
        yield from delta_chunks.pod_parts(with_row, frozenset())
        for entry_ in self._objects.all():
            yield delta_chunks.cluster_object_part(entry_)
        for nomination in self._nominations.values():
            yield delta_chunks.nomination_part(nomination)


class _Changes:
    """What has changed since the last delta.

    `known_rows` are rows that the replicas know of, `new_slots` slots that are new to them.
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
        """Whether nothing of the cache has changed; changes of classes are in the registry."""
        return not (self.nodes or self.removed_slots or self.rows or self.objects or self.nominations)


def _update_published(published: set[T], changed: set[T], exists: Callable[[T], bool]) -> None:
    """Add to `published` the changed elements that exist, and remove those that do not."""
    for each in changed:
        if exists(each):
            published.add(each)
        else:
            published.discard(each)


def _pod_class_message(entry: class_registry.ClassEntry) -> snapshot_pb2.PodClass:
    return snapshot_pb2.PodClass(id=entry.id, pod=entry.pod, labels_projected=entry.projected)


def _add_removed_nomination(uid: str, delta: snapshot_pb2.Delta) -> None:
    delta.removed_nominations.append(uid)
