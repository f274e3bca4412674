"""A snapshot changed in thought: some pods removed, others added, and the snapshot itself left as it is.

Preemption asks whether a pod would fit without its victims, and filters whether it fits beside the nominated pods. Both
call plugins over an overlay. What pods use of their nodes is held as differences from the snapshot's columns, in
buffers that are used again: an overlay costs as much as it changes, whatever the size of the cluster, and a reading
costs one more gather.
"""

import types
from collections import Counter
from collections.abc import Callable, Hashable

import numpy as np

from trireme.snapshot import arrays, pod_overlay, snapshot

Semantics = pod_overlay.Semantics

# Rows of the differences: pods, then one for each resource.
_PODS = 0
_RESOURCES = 1

_ONE = np.ones(1, dtype=np.int64)


class _DifferenceBuffers:
    """Arrays of zeros for overlays' differences, to be borrowed and given back. Shape: each (row, slot)."""

    nbytes = None

    def __init__(self, snap: snapshot.Snapshot) -> None:
        self._free: list[arrays.Int64Array] = []

    def refresh(self, snap: snapshot.Snapshot) -> None:
        """Nothing to update: the borrower of a buffer checks its size."""

    def borrow(self, rows: int, capacity: int) -> arrays.Int64Array:
        """A buffer of zeros with at least so many rows and slots."""
        while self._free:
            buffer = self._free.pop()
            if buffer.shape[0] >= rows and buffer.shape[1] >= capacity:
                return buffer
        return np.zeros((rows, capacity), dtype=np.int64)

    def give_back(self, buffer: arrays.Int64Array, touched: list[int]) -> None:
        """Clear the touched slots and keep the buffer for the next overlay."""
        buffer[:, touched] = 0
        self._free.append(buffer)


class _PodUsage:
    """What one pod of a class adds to each row of the differences, of the classes that overlays had many pods of.

    Shape: amounts (row, class).
    """

    nbytes = None

    def __init__(self, snap: snapshot.Snapshot) -> None:
        self.amounts = np.zeros((_RESOURCES, 0), dtype=np.int64)
        #: The rows in which some class has an amount.
        self.rows: list[int] = []
        # The number of the class at each index: indices are used again, numbers are not.
        self._numbers = np.zeros(0, dtype=np.int64)

    def refresh(self, snap: snapshot.Snapshot) -> None:
        """Nothing to update: what a class requests does not change."""

    def add_missing(self, snap: "SnapshotOverlay", class_ids: arrays.Int32Array, indices: arrays.Int32Array) -> None:
        """Add the classes of these pods that are not there yet. Shapes: both (n,)."""
        if self._numbers.shape[0] < snap.class_capacity:
            self._numbers = arrays.grow_last_axis(self._numbers, snap.class_capacity)
            self.amounts = arrays.grow_last_axis(self.amounts, snap.class_capacity)
        missing = np.flatnonzero(self._numbers[indices] != class_ids)
        if not missing.size:
            return
        for number, index in set(zip(class_ids[missing].tolist(), indices[missing].tolist(), strict=True)):
            vector = snap.usage_of_one_pod(number)
            if vector.shape[0] > self.amounts.shape[0]:
                more = np.zeros((vector.shape[0] - self.amounts.shape[0], self.amounts.shape[1]), dtype=np.int64)
                self.amounts = np.concatenate([self.amounts, more])
            self.amounts[:, index] = 0
            self.amounts[: vector.shape[0], index] = vector
            self._numbers[index] = number
        self.rows = np.flatnonzero(self.amounts.any(axis=1)).tolist()


class SnapshotOverlay:
    """A `SnapshotView` of `base` with some pods removed and others added. A context manager.

    It is valid for one generation of the snapshot: `check` after an await. Overlays do not see each other.
    """

    def __init__(self, base: snapshot.Snapshot, semantics: Semantics) -> None:
        self.base = base
        self.generation = base.generation
        self.nodes = base.nodes
        self.objects = base.objects
        self.classes = base.classes
        self.class_capacity = base.class_capacity
        self.nominations = base.nominations
        self._incarnation = base.incarnation
        self.overlaid_pods = pod_overlay.OverlaidPods(base.pods, semantics)
        self.dry_run = self.overlaid_pods if semantics is Semantics.DRY_RUN else None
        self._buffers = base.derived("overlay_buffers", _DifferenceBuffers)
        self._usage = base.derived("overlay_pod_usage", _PodUsage)
        self._differences: arrays.Int64Array | None = None
        self._touched: set[int] = set()

    def __enter__(self) -> "SnapshotOverlay":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        if self._differences is not None:
            self._buffers.give_back(self._differences, list(self._touched))
            self._differences = None

    def check(self) -> None:
        """Check after an await that the snapshot is as it was. Raises: OutOfStepError."""
        if self.base.generation != self.generation or self.base.incarnation != self._incarnation:
            raise snapshot.OutOfStepError("the cluster changed while plugins were called")

    def fork(self) -> snapshot.Snapshot:
        """A snapshot of its own with the changes, as if it had been synced so. It outlives the overlay and deltas."""
        return self.base.fork(self.overlaid_pods.removed, *self.overlaid_pods.added)

    # Changes

    def remove(self, rows: arrays.RowArray) -> None:
        """Remove the pods of these present rows. Shape: (n,)."""
        if rows.size:
            self.overlaid_pods.remove(rows)
            self._count_rows(rows, -1)

    def restore(self, rows: arrays.RowArray) -> None:
        """Restore the pods of these removed rows. Shape: (n,)."""
        if rows.size:
            self.overlaid_pods.restore(rows)
            self._count_rows(rows, 1)

    def add(self, class_ids: arrays.Int32Array, slots: arrays.Int32Array) -> None:
        """Add pods of these classes on these slots. Shapes: both (n,)."""
        if class_ids.size:
            numbers = class_ids.tolist()
            indices = [self.classes[number].index for number in numbers]
            self.overlaid_pods.add(numbers, indices, slots.tolist())
            self._count_pods_on_nodes(class_ids, np.array(indices, dtype=np.int32), slots, 1)

    @property
    def added_mark(self) -> int:
        """A mark for `drop_added` that keeps the pods added so far; removals have none."""
        return self.overlaid_pods.added_count

    def drop_added(self, mark: int = 0) -> None:
        """Drop the added pods, or those added after the mark."""
        class_ids, slots = self.overlaid_pods.added
        if mark < class_ids.size:
            indices = self.overlaid_pods.added_indices[mark:]
            self.overlaid_pods.drop_added(mark)
            self._count_pods_on_nodes(class_ids[mark:], indices, slots[mark:], -1)

    # The view

    def last_change(self, kinds: tuple[str, ...]) -> int:
        """The last change of any of the kinds."""
        return self.base.last_change(kinds)

    def class_mask(self, class_ids: list[int]) -> arrays.BoolArray:
        """A mask of the classes with these numbers; none may be gone. Shape: (class,)."""
        return self.base.class_mask(class_ids)

    def derived(
        self, key: Hashable, make: Callable[[snapshot.Snapshot], snapshot.Entry], of_class: int | None = None
    ) -> snapshot.Entry:
        """The value that is derived from the snapshot under this key; see Snapshot.derived."""
        return self.base.derived(key, make, of_class)

    def requested(self, resource: int, slots: arrays.SlotArray) -> arrays.Int64Array:
        """What the pods of each slot request of the resource. Shape: as `slots`."""
        column = arrays.entries_at(self.nodes.requested[resource], slots)
        return arrays.saturated(self._with_differences(column, _RESOURCES + resource, slots))

    def pod_count(self, slots: arrays.SlotArray) -> arrays.Int64Array:
        """The number of pods on each slot. Shape: as `slots`."""
        return self._with_differences(self.base.pod_count(slots), _PODS, slots)

    def count_pods(self, chosen: arrays.BoolArray) -> arrays.Int64Array:
        """The number of pods of the marked classes on each slot. Shapes: chosen (class,), result (slot,)."""
        return self.overlaid_pods.adjusted(self.base.count_pods(chosen), chosen.astype(np.int64), live_only=False)

    def placed_pods(self, chosen: arrays.BoolArray) -> tuple[arrays.Int32Array, arrays.Int32Array]:
        """Class number and slot of each pod of the marked classes. Shapes: chosen (class,), results (pod,)."""
        table = self.base.pods
        rows = table.rows_of(chosen)
        rows = rows[~np.isin(rows, self.overlaid_pods.removed)]
        class_ids, slots = self.overlaid_pods.added
        marked = chosen[self.overlaid_pods.added_indices]
        return (
            np.concatenate([table.pod_class[rows], class_ids[marked]]),
            np.concatenate([table.slot[rows], slots[marked]]),
        )

    def class_of_pod(self, uid: str, slot: int) -> int | None:
        """The number of the class of the pod with this UID on the slot; None if it is not there."""
        row = self.base.pods.find(uid, slot)
        return None if row is None or self.overlaid_pods.is_removed(row) else int(self.base.pods.pod_class[row])

    def _count_rows(self, rows: arrays.RowArray, sign: int) -> None:
        """Add the pods of these rows to what is used of their nodes, or subtract them. Shape: (n,)."""
        pods = self.base.pods
        self._count_pods_on_nodes(pods.pod_class[rows], pods.class_index[rows], pods.slot[rows], sign)

    def _with_differences(self, column: arrays.Int64Array, row: int, slots: arrays.SlotArray) -> arrays.Int64Array:
        """The column with the overlay's differences of that row, which are 0 if there are none."""
        if self._differences is None or row >= self._differences.shape[0]:
            return column
        out: arrays.Int64Array = column + arrays.entries_at(self._differences[row], slots)
        return out

    def _count_pods_on_nodes(
        self, class_ids: arrays.Int32Array, indices: arrays.Int32Array, slots: arrays.Int32Array, sign: int
    ) -> None:
        """Add pods to what is used of their nodes, or subtract them; `indices` are their classes'. Shapes: all (n,)."""
        self._touched.update(slots.tolist())
        if class_ids.shape[0] <= arrays.FEW:
            for (kind, slot), count in Counter(zip(class_ids.tolist(), slots.tolist(), strict=True)).items():
                vector = self.usage_of_one_pod(kind)
                self._ensure_capacity(vector.shape[0])[: vector.shape[0], slot] += vector * (count * sign)
            return
        usage = self._usage
        usage.add_missing(self, class_ids, indices)
        differences = self._ensure_capacity(usage.amounts.shape[0])
        for row in usage.rows:
            np.add.at(differences[row], slots, usage.amounts[row][indices] * sign)

    def usage_of_one_pod(self, number: int) -> arrays.Int64Array:
        """What one pod of the class with this number adds to each row of the differences. Shape: (row,)."""
        return np.concatenate([_ONE, self.classes[number].placed_requests(self.nodes.resource_names)])

    def _ensure_capacity(self, rows: int) -> arrays.Int64Array:
        """The differences with at least so many rows; borrowed from the pool at first."""
        known = self._differences
        if known is None:
            wanted = max(rows, _RESOURCES + len(self.nodes.resource_names))
            known = self._differences = self._buffers.borrow(wanted, self.nodes.capacity)
        elif known.shape[0] < rows:
            more = np.zeros((rows - known.shape[0], known.shape[1]), dtype=np.int64)
            known = self._differences = np.concatenate([known, more])
        return known
