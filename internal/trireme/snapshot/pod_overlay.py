"""Which pods an overlay removes from the cluster and which it adds, and what that changes in sums over pods.

Tests: tests/unit/snapshot/test_pod_overlay.py, tests/unit/snapshot/test_overlay.py.
"""

import enum
from collections.abc import Sequence

import numpy as np

from trireme.snapshot import arrays, pods


class Semantics(enum.Enum):
    """How plugins are to answer over an overlay: as in kube-scheduler's dry runs, or as if the changes were real."""

    DRY_RUN = enum.auto()
    HYPOTHETICAL = enum.auto()


class OverlaidPods:
    """Pods removed from a pod table and pods added to it; the table itself stays as it is.

    `version` is different after each change.
    """

    __slots__ = (
        "_added_classes",
        "_added_indices",
        "_added_slots",
        "_columns",
        "_removed",
        "_semantics",
        "_table",
        "_touched",
        "version",
    )

    def __init__(self, table: pods.PodTable, semantics: Semantics) -> None:
        self._table = table
        self._semantics = semantics
        # Removed rows, and their slots.
        self._removed: dict[int, int] = {}
        # Rows that are or were removed, and their slots.
        self._touched: dict[int, int] = {}
        self._added_classes: list[int] = []
        self._added_indices: list[int] = []
        self._added_slots: list[int] = []
        self._columns: tuple[arrays.Int32Array, arrays.Int32Array, arrays.Int64Array, arrays.BoolArray] | None = None
        self.version = 0

    @property
    def removed(self) -> arrays.SlotArray:
        """The removed rows. Shape: (n,)."""
        return np.fromiter(self._removed, dtype=np.intp, count=len(self._removed))

    @property
    def added(self) -> tuple[arrays.Int32Array, arrays.Int32Array]:
        """Class numbers and slots of the added pods. Shapes: both (n,)."""
        return np.array(self._added_classes, dtype=np.int32), np.array(self._added_slots, dtype=np.int32)

    @property
    def added_indices(self) -> arrays.Int32Array:
        """Class indices of the added pods. Shape: (n,)."""
        return np.array(self._added_indices, dtype=np.int32)

    @property
    def added_count(self) -> int:
        """The number of added pods."""
        return len(self._added_slots)

    @property
    def slots(self) -> arrays.SlotArray:
        """The slots with changes, ascending. Shape: (n,)."""
        return np.unique([*self._removed.values(), *self._added_slots]).astype(np.intp)

    @property
    def classes(self) -> list[int]:
        """The numbers of the classes of removed and added pods."""
        return sorted({*self._table.pod_class[self.removed].tolist(), *self._added_classes})

    def is_removed(self, row: int) -> bool:
        """Whether the pod of the row is removed."""
        return row in self._removed

    def slots_with_removed(self, chosen: arrays.BoolArray) -> arrays.SlotArray:
        """The slots from which a pod of the marked classes was removed, even if restored. Shape: chosen (class,)."""
        table = self._table
        return np.array([slot for row, slot in self._touched.items() if chosen[table.class_index[row]]], dtype=np.intp)

    def slots_with_added(self, chosen: arrays.BoolArray) -> arrays.SlotArray:
        """The slots of present pods of the marked classes that were added, or removed and restored."""
        table = self._table
        restored = [
            slot for row, slot in self._touched.items() if row not in self._removed and chosen[table.class_index[row]]
        ]
        added = [slot for index, slot in zip(self._added_indices, self._added_slots, strict=True) if chosen[index]]
        return np.array([*restored, *added], dtype=np.intp)

    def remove(self, rows: arrays.RowArray) -> None:
        """Remove the pods of these present rows. Shape: (n,)."""
        slots = self._table.slot[rows]
        self._removed.update(zip(rows.tolist(), slots.tolist(), strict=True))
        self._touched.update(self._removed)
        self._invalidate_columns()

    def restore(self, rows: arrays.RowArray) -> None:
        """Restore the pods of these removed rows. Shape: (n,)."""
        for row in rows.tolist():
            del self._removed[row]
        self._invalidate_columns()

    def add(self, class_ids: Sequence[int], indices: Sequence[int], slots: Sequence[int]) -> None:
        """Add pods of these classes, which have these indices, on these slots."""
        self._added_classes.extend(class_ids)
        self._added_indices.extend(indices)
        self._added_slots.extend(slots)
        self._invalidate_columns()

    def drop_added(self, count: int) -> None:
        """Drop the added pods beyond the first `count`."""
        del self._added_classes[count:]
        del self._added_indices[count:]
        del self._added_slots[count:]
        self._invalidate_columns()

    def adjusted(self, sums: arrays.Int64Array, weights: arrays.Int64Array, *, live_only: bool) -> arrays.Int64Array:
        """Adjust sums of weights over the table's pods for the changes; returns `sums` itself if none counts.

        `live_only`: the sums leave out pods that are being deleted. In a dry run removed pods count nevertheless, as in
        kube-scheduler. Shapes: sums (slot,), weights (class,).
        """
        indices, slots, signs, live = self.columns()
        counted = indices < weights.shape[0]
        if live_only and self._semantics is Semantics.HYPOTHETICAL:
            counted = counted & live
        added = np.where(counted, weights[np.where(counted, indices, 0)], 0) * signs
        if not added.any():
            return sums
        out = sums.copy()
        np.add.at(out, slots, added)
        return out

    def columns(self) -> tuple[arrays.Int32Array, arrays.Int32Array, arrays.Int64Array, arrays.BoolArray]:
        """The changes: class indices, slots, signs, and which pods are not being deleted. Shapes: all (change,)."""
        if self._columns is None:
            table, removed = self._table, self.removed
            indices = np.concatenate([table.class_index[removed], self.added_indices])
            slots = np.concatenate([table.slot[removed], np.array(self._added_slots, dtype=np.int32)])
            signs = np.ones(slots.shape[0], dtype=np.int64)
            signs[: removed.shape[0]] = -1
            live = np.ones(slots.shape[0], dtype=np.bool_)
            live[: removed.shape[0]] = (table.flags[removed] & pods.TERMINATING) == 0
            self._columns = indices, slots, signs, live
        return self._columns

    def _invalidate_columns(self) -> None:
        """Note a change: columns have to be made again."""
        self._columns = None
        self.version += 1
