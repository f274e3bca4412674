"""Rehearsal: temporarily changes the snapshot as if some pods were removed and others added.

Preemption checks whether a pod would fit without the victims, and filters check whether it fits with the nominated
pods. Both change the pod table and the nodes' used resources for a moment, call the plugins as usual, and undo the
change. The rehearsal pauses at an await, and does not advance the generation: caches keyed by generation must not store
results computed during a rehearsal. Tallies count the real cluster and are adjusted when read.
"""

import types
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from trireme.snapshot import arrays, pods

if TYPE_CHECKING:
    from trireme.snapshot import snapshot


class Rehearsal:
    """A context manager, one at a time, that undoes its changes at the end.

    `version` is different after each change, across all rehearsals of the snapshot.
    """

    def __init__(self, snap: "snapshot.Snapshot") -> None:
        self._snap = snap
        # Removed rows, and their slots.
        self._removed: dict[int, int] = {}
        # Rows that are or were removed, and their slots.
        self._left: dict[int, int] = {}
        # Added pods, in rows at the end of the pod table.
        self._first_added = 0
        # While paused: the removed rows.
        self._paused: arrays.SlotArray | None = None
        self._deltas: tuple[arrays.Int32Array, arrays.Int32Array, arrays.Int64Array, arrays.BoolArray] | None = None

    def __enter__(self) -> "Rehearsal":
        if self._snap.rehearsal is not None:
            raise RuntimeError("a rehearsal within a rehearsal")
        self._snap.rehearsal = self
        self._first_added = self._snap.pods.size
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        if self._paused is not None:
            return
        self.clear_added()
        self.restore(np.array(list(self._removed), dtype=np.intp))
        self._snap.rehearsal = None

    def pause(self) -> None:
        """Undo the changes before an await. Requires that no pods are added."""
        self._paused = np.array(list(self._removed), dtype=np.intp)
        self.restore(self._paused)
        self._snap.rehearsal = None

    def resume(self) -> None:
        """Redo the changes; the snapshot must be unchanged since the pause."""
        assert self._paused is not None
        rows, self._paused = self._paused, None
        self.__enter__()
        self.remove(rows)

    @property
    def removed(self) -> arrays.SlotArray:
        """The removed rows. Shape: (n,)."""
        return np.array(list(self._removed), dtype=np.intp)

    @property
    def slots(self) -> arrays.SlotArray:
        """The slots with changes. Shape: (n,)."""
        table = self._snap.pods
        return np.unique([*self._removed.values(), *table.slot[self._first_added : table.size].tolist()]).astype(
            np.intp
        )

    @property
    def classes(self) -> list[int]:
        """The classes of removed and added pods."""
        return sorted(set(self._delta_columns()[0].tolist()))

    def left(self, chosen: arrays.BoolArray) -> arrays.SlotArray:
        """The slots from which a pod of the marked classes was removed, even if restored. Shape: chosen (class,)."""
        table = self._snap.pods
        return np.array([slot for row, slot in self._left.items() if chosen[table.pod_class[row]]], dtype=np.intp)

    def came(self, rows: arrays.SlotArray) -> arrays.BoolArray:
        """Which of these present rows were added, or removed and restored, in the rehearsal. Shape: as `rows`."""
        back = np.fromiter(self._left, dtype=np.intp, count=len(self._left))
        return (rows >= self._first_added) | np.isin(rows, back)

    def remove(self, rows: arrays.SlotArray) -> None:
        """Remove the pods of these present rows. Shape: (n,)."""
        if not rows.size:
            return
        table = self._snap.pods
        slots = table.slot[rows]
        self._removed.update(zip(rows.tolist(), slots.tolist(), strict=True))
        self._left.update(self._removed)
        self._shift(table.pod_class[rows], slots, -1)
        table.slot[rows] = pods.NO_SLOT

    def restore(self, rows: arrays.SlotArray) -> None:
        """Restore the pods of these removed rows. Shape: (n,)."""
        if not rows.size:
            return
        table = self._snap.pods
        slots = np.array([self._removed.pop(row) for row in rows.tolist()], dtype=np.int32)
        table.slot[rows] = slots
        self._shift(table.pod_class[rows], slots, 1)

    def add(self, class_ids: arrays.Int32Array, slots: arrays.Int32Array) -> None:
        """Add pods of these classes on these slots. Shapes: both (n,)."""
        if not class_ids.size:
            return
        table = self._snap.pods
        first = table.size
        table.reserve(first + class_ids.shape[0] - 1)
        rows = slice(first, table.size)
        table.pod_class[rows] = class_ids
        table.slot[rows] = slots
        table.flags[rows] = 0
        table.start[rows] = 0
        self._shift(class_ids, slots, 1)

    @property
    def mark(self) -> int:
        """A mark for `clear_added` that keeps the pods added so far."""
        return self._snap.pods.size

    def clear_added(self, mark: int = 0) -> None:
        """Drop the added pods, or those added after the mark."""
        table = self._snap.pods
        rows = slice(max(mark, self._first_added), table.size)
        if rows.start >= rows.stop:
            return
        self._shift(table.pod_class[rows], table.slot[rows], -1)
        table.slot[rows] = pods.NO_SLOT
        table.forget_last(rows.stop - rows.start)

    def adjusted(self, sums: arrays.Int64Array, weights: arrays.Int64Array) -> arrays.Int64Array:
        """Adjust sums of weights over the real pods for the rehearsal's changes.

        Removed pods that are terminating count like others, as in kube-scheduler. Shapes: sums (slot,), weights
        (class,).
        """
        return self._changed(sums, weights, 1, live_only=False)

    def real(self, sums: arrays.Int64Array, weights: arrays.Int64Array, *, live_only: bool) -> arrays.Int64Array:
        """Take the rehearsal's changes out of sums over the current pod table. Shapes: as adjusted."""
        return self._changed(sums, weights, -1, live_only=live_only)

    def _changed(
        self, sums: arrays.Int64Array, weights: arrays.Int64Array, sign: int, *, live_only: bool
    ) -> arrays.Int64Array:
        class_ids, slots, signs, live = self._delta_columns()
        has_weight = class_ids < weights.shape[0]
        if live_only:
            has_weight = has_weight & live
        added = np.where(has_weight, weights[np.where(has_weight, class_ids, 0)], 0) * signs * sign
        if not added.any():
            return sums
        out = sums.copy()
        np.add.at(out, slots, added)
        return out

    def _delta_columns(self) -> tuple[arrays.Int32Array, arrays.Int32Array, arrays.Int64Array, arrays.BoolArray]:
        """The changes: classes, slots, signs, and which of the pods are not terminating."""
        if self._deltas is None:
            table = self._snap.pods
            removed = np.array(list(self._removed), dtype=np.intp)
            added = np.arange(self._first_added, table.size)
            rows = np.concatenate([removed, added])
            slots = np.concatenate([np.array(list(self._removed.values()), dtype=np.int32), table.slot[added]])
            signs = np.ones(rows.shape[0], dtype=np.int64)
            signs[: removed.shape[0]] = -1
            live = (table.flags[rows] & pods.TERMINATING) == 0
            self._deltas = table.pod_class[rows], slots, signs, live
        return self._deltas

    def _shift(self, class_ids: arrays.Int32Array, slots: arrays.Int32Array, sign: int) -> None:
        """Add pods to their nodes' used resources, or subtract them."""
        self._deltas = None
        self._snap.rehearsal_version += 1
        nodes = self._snap.nodes
        if class_ids.shape[0] <= arrays.FEW:
            for (kind, slot), count in Counter(zip(class_ids.tolist(), slots.tolist(), strict=True)).items():
                pod_class = self._snap.classes[kind]
                nodes.count_pods(slot, count * sign, pod_class.placed(nodes.resource_names), pod_class.placed_nonzero)
            return
        kinds, which = np.unique(class_ids, return_inverse=True)
        vectors = [self._snap.classes[kind].placed(nodes.resource_names) for kind in kinds.tolist()]
        nodes.reserve_resources()
        amounts = np.zeros((len(nodes.resource_names), kinds.shape[0]), dtype=np.int64)
        nonzero = np.zeros((2, kinds.shape[0]), dtype=np.int64)
        for at, (kind, vector) in enumerate(zip(kinds.tolist(), vectors, strict=True)):
            amounts[: vector.shape[0], at] = vector
            nonzero[:, at] = self._snap.classes[kind].placed_nonzero
        for resource in np.flatnonzero(amounts.any(axis=1)).tolist():
            np.add.at(nodes.requested[resource], slots, amounts[resource][which] * sign)
        for resource in (0, 1):
            np.add.at(nodes.nonzero[resource], slots, nonzero[resource][which] * sign)
        np.add.at(nodes.pod_count, slots, sign)
