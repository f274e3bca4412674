"""The snapshot: a replica's state of the cluster at one generation, changed only by deltas.

Filter and score have one each, or share one in the frontend's process. Applying a delta does not await, so an
evaluation without an await sees one generation. Nodes and pods are columns (nodes.py, pods.py), everything else
objects (objects.py).

Tests: tests/unit/snapshot/test_deltas.py, tests/unit/snapshot/test_derived.py,
tests/unit/snapshot/test_shared_columns.py.
"""

from collections import Counter, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from trireme.framework import amounts
from trireme.snapshot import arrays, classes, derived, nodes, nominations, objects, placement_log, pods
from trireme.v1 import snapshot_pb2

Entry = TypeVar("Entry", bound="derived.Derived[Snapshot]")

# So many indices of classes that are gone wait before one is used again: what counts pods by class, and has not seen
# all changes of the class before, has to count all pods then.
SPARE_CLASSES = 1024


class OutOfStepError(Exception):
    """The state of the snapshot does not match the request: a full sync is needed."""


@dataclass(frozen=True, slots=True)
class SnapshotStatistics:
    """The size of the snapshot."""

    generation: int
    nodes: int
    pods: int
    classes: int
    nominations: int


class Snapshot:
    """The cluster as columns, at `generation`; 0 before the first full sync is complete. Only deltas change it."""

    def __init__(self) -> None:
        self._keep_messages = False
        self._keep_json = False
        # The rules for counting pods' resources, from the next full sync on.
        self.amount_rules = amounts.DEFAULT_RULES
        self.incarnation = 0
        self._reset_to_empty()

    def check_incarnation(self, incarnation: int) -> None:
        """Check after an await that the snapshot was not reset meanwhile. Raises: OutOfStepError."""
        if self.incarnation != incarnation:
            raise OutOfStepError("the snapshot was replaced meanwhile")

    def store_node_objects(self, *, messages: bool = False, json: bool = False) -> None:
        """Also store node objects (`messages`, `json`), from the next full sync on, for plugins that need them."""
        self._keep_messages |= messages
        self._keep_json |= json

    def _reset_to_empty(self) -> None:
        """Empty the snapshot, as a full sync begins or a delta did not fit; what is derived from it is dropped.

        `incarnation` grows, which is how callers notice after an await that it is not the snapshot that they began
        with.
        """
        self.incarnation += 1
        self.generation = 0
        self.synced = False
        self.nodes = nodes.NodeTable(self._keep_messages, self._keep_json)
        self.pods = pods.PodTable()
        self.objects = objects.ObjectTable()
        self.classes: dict[int, classes.PodClass] = {}
        # One past the highest index of a class.
        self.class_capacity = 1
        # The highest number that a class has had.
        self.highest_class = 0
        # The indices of classes that are gone, with the generations at which these went, the oldest first.
        self._free_indices: deque[tuple[int, int]] = deque()
        # The last change of the set of classes.
        self.classes_generation = 0
        self._class_arrivals = 0
        self.placements = placement_log.PlacementLog()
        self._derived: derived.DerivedTable[Snapshot] = derived.DerivedTable()
        self.nominations = nominations.Nominations()
        # Whether these are those of a fork too, or of what was forked.
        self._shares_classes = self._shares_nominations = False

    def fork(self, removed: arrays.RowArray, class_ids: arrays.Int32Array, slots: arrays.Int32Array) -> "Snapshot":
        """Copy the snapshot without the pods of the removed rows, and with pods of these classes on these slots.

        Deltas of the copy and of this snapshot do not concern each other. The copy is of this generation, and follows
        with a log of changes and derived values of its own.

        It shares all tables until it, or this snapshot, changes them (`forkable_columns`, and for small tables a copy
        before the change). Added pods have no names. Shapes: removed (n,), class_ids and slots (pod,).
        """
        out = Snapshot()
        out._keep_messages, out._keep_json, out.amount_rules = self._keep_messages, self._keep_json, self.amount_rules
        out.incarnation, out.generation, out.synced = self.incarnation, self.generation, self.synced
        out.nodes, out.pods, out.objects = self.nodes.fork(), self.pods.fork(), self.objects.fork()
        out.classes, out.class_capacity = self.classes, self.class_capacity
        out.highest_class, out._free_indices = self.highest_class, self._free_indices
        out.nominations = self.nominations
        out._shares_classes = self._shares_classes = True
        out._shares_nominations = self._shares_nominations = True
        out.classes_generation, out._class_arrivals = self.classes_generation, self._class_arrivals
        out.placements.floor = self.generation
        out._remove_pods(removed, self.generation)
        out._append_unnamed_pods(class_ids, slots, self.generation)
        return out

    def compact(self) -> None:
        """Keep of a fork's columns what differs from the snapshot; the next who reads them makes them again."""
        self.nodes.compact()
        self.pods.compact()

    @property
    def differing_nbytes(self) -> int:
        """Memory of the columns that it has of its own, in bytes: of a fork what differs from what was forked."""
        return self.nodes.differing_nbytes + self.pods.differing_nbytes

    def make_independent(self) -> None:
        """Copy what this fork shares with what changes: from then on another thread may read it, if nothing changes it.

        Tables that are copied before a change stay shared.
        """
        self.nodes.make_independent()
        self.pods.make_independent()

    def _own_classes(self) -> None:
        """Copy the classes if a fork shares them, before a change."""
        if self._shares_classes:
            self.classes, self._free_indices = self.classes.copy(), self._free_indices.copy()
            self._shares_classes = False

    def _own_nominations(self) -> None:
        """Copy the nominations if a fork shares them, before a change."""
        if self._shares_nominations:
            self.nominations = self.nominations.copy()
            self._shares_nominations = False

    def statistics(self) -> SnapshotStatistics:
        """A snapshot of the sizes."""
        return SnapshotStatistics(
            self.generation, self.nodes.count, self.pods.count, len(self.classes), len(self.nominations)
        )

    def apply(self, delta: snapshot_pb2.Delta) -> None:
        """Advance to the delta's generation.

        Raises: OutOfStepError if it does not start at this generation, with nothing changed, or if it refers to missing
        entries, with the snapshot cleared.
        """
        if delta.reset:
            self._reset_to_empty()
        elif delta.from_generation != self.generation:
            raise OutOfStepError(f"at generation {self.generation}, the delta begins at {delta.from_generation}")
        try:
            self._apply_changes(delta)
        except (LookupError, ValueError) as error:
            self._reset_to_empty()
            raise OutOfStepError(f"the delta does not fit: {type(error).__name__}: {error}") from error

    def _apply_changes(self, delta: snapshot_pb2.Delta) -> None:
        """Apply a delta's changes, in the order in which they may refer to each other.

        In the middle of a full sync (`partial`) the snapshot is not `synced` yet.
        """
        generation = delta.to_generation
        self._remove_pods(delta.removed_pods, generation)
        for slot in delta.removed_slots:
            self.nodes.remove(slot, generation)
        for entry in delta.classes:
            self._add_class(
                classes.PodClass(entry.id, entry.pod, entry.labels_projected, self.amount_rules), generation
            )
        self.nodes.upsert(delta.nodes, generation)
        self._upsert_pods(delta.pods, generation)
        if delta.removed_classes:
            # What their nominated pods take of these nodes is not known any more.
            self.nodes.pod_changes.touch(self.nominations.slots_of(delta.removed_classes), generation)
        for class_id in delta.removed_classes:
            self._own_classes()
            self._free_indices.append((self.classes.pop(class_id).index, generation))
            self._derived.drop_entries_of_class(class_id)
            self.classes_generation = generation
        for changed in delta.objects:
            self.objects.upsert(changed, generation)
        for removed in delta.removed_objects:
            self.objects.remove(removed, generation)
        self._apply_nominations(delta, generation)
        self.generation = generation
        self.synced = not delta.partial

    def last_change(self, kinds: tuple[str, ...]) -> int:
        """The last change of any of the kinds: kinds of objects, `images`, `node_count` and `classes`."""
        return max((self._generation_of_last_change(kind) for kind in kinds), default=0)

    def _generation_of_last_change(self, kind: str) -> int:
        """The last change of one kind, as `last_change` names them."""
        if kind == "images":
            return self.nodes.images.generation
        if kind == "node_count":
            return self.nodes.count_generation
        if kind == "classes":
            return self.classes_generation
        return self.objects.last_change(kind)

    def derived(self, key: Hashable, make: "Callable[[Snapshot], Entry]", of_class: int | None = None) -> Entry:
        """The value that is derived from the snapshot under this key, made if missing, and refreshed.

        Where `make` holds a class, `of_class` is its number: the value is dropped with it.
        """
        return self._derived.get(key, make, self, self.nodes.capacity, of_class)

    # What an overlay answers otherwise; see SnapshotView

    @property
    def base(self) -> "Snapshot":
        """The snapshot itself."""
        return self

    @property
    def overlaid_pods(self) -> None:
        """None: no pod is removed or added."""

    @property
    def dry_run(self) -> None:
        """None: no pod is removed or added."""

    def requested(self, resource: int, slots: arrays.SlotArray) -> arrays.Int64Array:
        """What the pods of each slot request of the resource. Shape: as `slots`."""
        return arrays.saturated(arrays.entries_at(self.nodes.requested[resource], slots))

    def pod_count(self, slots: arrays.SlotArray) -> arrays.Int64Array:
        """The number of pods on each slot. Shape: as `slots`."""
        return arrays.entries_at(self.nodes.pod_count, slots)

    def count_pods(self, chosen: arrays.BoolArray) -> arrays.Int64Array:
        """The number of pods of the marked classes on each slot. Shapes: chosen (class,), result (slot,)."""
        return self.pods.count_by_slot(chosen, self.nodes.size)

    def placed_pods(self, chosen: arrays.BoolArray) -> tuple[arrays.Int32Array, arrays.Int32Array]:
        """Class number and slot of each pod of the marked classes. Shapes: chosen (class,), results (pod,)."""
        rows = self.pods.rows_of(chosen)
        return self.pods.pod_class[rows], self.pods.slot[rows]

    def class_of_pod(self, uid: str, slot: int) -> int | None:
        """The number of the class of the pod with this UID on the slot; None if it is not there."""
        row = self.pods.find(uid, slot)
        return None if row is None else int(self.pods.pod_class[row])

    def class_mask(self, class_ids: list[int]) -> arrays.BoolArray:
        """Make a mask of the classes with these numbers, for PodTable; none may be gone. Shape: (class,)."""
        table = np.zeros(self.class_capacity, dtype=np.bool_)
        table[[self.classes[class_id].index for class_id in class_ids]] = True
        return table

    def _add_class(self, pod_class: classes.PodClass, generation: int) -> None:
        """Add a class, as the newest."""
        self._own_classes()
        self._class_arrivals += 1
        pod_class.arrival = self._class_arrivals
        # A class that is sent again moves to the end, for the table is in order of arrival, and its pods are where they
        # are.
        before = self.classes.pop(pod_class.id, None)
        pod_class.index = self._take_index() if before is None else before.index
        self.classes[pod_class.id] = pod_class
        self.highest_class = max(self.highest_class, pod_class.id)
        self.classes_generation = generation

    def _take_index(self) -> int:
        """Return an index for a new class: a new one, or that of the class that has been gone longest.

        A reader that has not seen the placements of that class counts all pods again, for its changes would count as
        those of the new one.
        """
        if len(self._free_indices) <= SPARE_CLASSES:
            self.class_capacity += 1
            return self.class_capacity - 1
        index, gone_at = self._free_indices.popleft()
        self.placements.floor = max(self.placements.floor, gone_at)
        return index

    def _class_indices(self, class_ids: arrays.Int32Array) -> arrays.Int32Array:
        """Return the indices of the classes with these numbers. Raises: KeyError. Shapes: both (n,)."""
        if class_ids.size <= arrays.FEW:
            return np.array([self.classes[number].index for number in class_ids.tolist()], dtype=np.int32)
        numbers, which = np.unique(class_ids, return_inverse=True)
        found = np.array([self.classes[number].index for number in numbers.tolist()], dtype=np.int32)
        return found[which]

    def _apply_nominations(self, delta: snapshot_pb2.Delta, generation: int) -> None:
        """Apply a delta's nominations; the slots that they leave and enter count as changed."""
        if not delta.nominations and not delta.removed_nominations:
            return
        self._own_nominations()
        moved = []
        for uid in delta.removed_nominations:
            nominee = self.nominations.remove(uid)
            if nominee is not None:
                moved.append(nominee.slot)
        for entry in delta.nominations:
            old = self.nominations.get(entry.pod.uid)
            if old is not None:
                moved.append(old.slot)
            self.nominations.put(nominations.Nominee(entry.pod.uid, entry.pod_class, entry.slot))
            moved.append(entry.slot)
        self.nodes.pod_changes.touch(np.array(moved, dtype=np.intp), generation)

    def _upsert_pods(self, columns: snapshot_pb2.PodColumns, generation: int) -> None:
        """Write the rows of pods, and count each where it is now and no longer where it was.

        Known names may be left out.
        """
        table = self.pods
        rows = np.array(columns.row, dtype=np.intp)
        if not rows.size:
            return
        table.before_change(rows)
        table.ensure_capacity(int(rows.max()))
        class_ids = np.array(columns.pod_class, dtype=np.int32)
        slots = np.array(columns.slot, dtype=np.int32)
        flags = np.array(columns.flags, dtype=np.uint8)
        starts = np.array(columns.start_time_s, dtype=np.int64)
        occupied, added = table.slot[rows] >= 0, rows
        if occupied.any():
            moved = (table.slot[rows] != slots) | (table.pod_class[rows] != class_ids) | (table.flags[rows] != flags)
            self._add_or_subtract_pods_on_nodes(rows[occupied & moved], -1, generation)
            restarted = slots[occupied & (table.start[rows] != starts)].astype(np.intp)
            self.nodes.start_changes.touch(restarted, generation)
            added = rows[moved | ~occupied]
        table.count += rows.size - int(np.count_nonzero(occupied))
        table.pod_class[rows] = class_ids
        table.class_index[rows] = self._class_indices(class_ids)
        table.slot[rows] = slots
        table.flags[rows] = flags
        table.start[rows] = starts
        table.write_names(rows.tolist(), columns.uid, columns.name)
        self._add_or_subtract_pods_on_nodes(added, 1, generation)

    def _append_unnamed_pods(self, class_ids: arrays.Int32Array, slots: arrays.Int32Array, generation: int) -> None:
        """Add pods without names in rows at the end of the table, where all is 0 yet. Shapes: both (n,)."""
        table = self.pods
        rows = np.arange(table.size, table.size + slots.size)
        if not rows.size:
            return
        table.before_change(rows)
        table.ensure_capacity(int(rows[-1]))
        table.pod_class[rows], table.slot[rows] = class_ids, slots
        table.class_index[rows] = self._class_indices(class_ids)
        table.count += rows.size
        self._add_or_subtract_pods_on_nodes(rows, 1, generation)

    def _remove_pods(self, removed: "list[int] | object", generation: int) -> None:
        """Empty the rows of removed pods, and count these no more on their nodes."""
        rows = np.array(removed, dtype=np.intp)
        if not rows.size:
            return
        self.pods.before_change(rows)
        self._add_or_subtract_pods_on_nodes(rows, -1, generation)
        self.pods.slot[rows] = pods.NO_SLOT
        self.pods.flags[rows] = 0
        self.pods.count -= rows.size
        self.pods.clear_names(rows.tolist())

    def _add_or_subtract_pods_on_nodes(self, rows: arrays.RowArray, sign: int, generation: int) -> None:
        """Add the pods of these rows to their nodes (or subtract them), vectorised if they are many."""
        if not rows.size:
            return
        names = self.nodes.resource_names
        class_ids = self.pods.pod_class[rows]
        on = self.pods.slot[rows]
        slots = on.astype(np.intp)
        self.nodes.before_change(slots)
        self.placements.append(generation, self.pods.class_index[rows], on, self.pods.flags[rows], sign)
        if rows.size <= arrays.FEW:
            for (class_id, slot), count in Counter(zip(class_ids.tolist(), on.tolist(), strict=True)).items():
                pod_class = self.classes[class_id]
                self.nodes.add_pods_unrecorded(
                    slot, count * sign, pod_class.placed_requests(names), pod_class.placed_nonzero_requests
                )
            self.nodes.pod_changes.touch(slots, generation)
            return
        distinct, which = np.unique(class_ids, return_inverse=True)
        of_class = [self.classes[class_id] for class_id in distinct.tolist()]
        if len(of_class) == 1:
            requests = of_class[0].placed_requests(names)[:, None]
            nonzero = of_class[0].placed_nonzero_requests[:, None]
        else:
            # The first look at a class may add names.
            vectors = [pod_class.placed_requests(names) for pod_class in of_class]
            columns = np.zeros((len(names), len(of_class)), dtype=np.int64)
            for column, own in enumerate(vectors):
                columns[: own.shape[0], column] = own
            requests = columns[:, which]
            nonzero = np.stack([pod_class.placed_nonzero_requests for pod_class in of_class], axis=1)[:, which]
        self.nodes.add_pods(slots, sign, requests, nonzero, generation)
