"""One class's verdicts about all slots, cached between calls and brought up to date by what changed.

For each plugin of the profile that has something to say about the class there is a column of verdicts; the class's own
verdict on a slot is the first refusal in the plugins' order. `generation` of a column is the snapshot generation that
it has seen; `changed` says when the combined verdict on each slot last changed, so that a caller who has an older
answer gets a patch. An AsyncFilter may change its verdict while the snapshot stands still, after an answer was given:
such a change is stamped as later than that answer's generation (`next_stamp`).

Tests: tests/unit/evaluation/test_filtering.py, tests/unit/evaluation/test_preparing.py,
tests/unit/evaluation/test_answered_statuses.py, tests/unit/evaluation/test_verdict_columns.py.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from trireme.evaluation.filtering import filter_column
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, nodes, slot_changes

# So many statuses of a class are kept for its next answers, whether or not a node still has them.
_MANY_ANSWERED = 64


@dataclass(slots=True)
class ClassVerdicts:
    """All that is cached of one class under one profile.

    `capacity` is the nodes' own: 0 where a node refuses, but for refusals by domain constraints alone.
    """

    table: interfaces.StatusTable = field(default_factory=interfaces.StatusTable)
    plugins: dict[str, filter_column.FilterColumn] = field(default_factory=dict)
    generation: int = -1
    # The lowest stamp of `changed` that no answer given so far has seen.
    next_stamp: int = 0
    # The generation from which on answers taken from these columns can be patched; −1: none was taken.
    first_answered: int = -1
    # Slots whose plugins' verdicts are newer than the combined one.
    uncombined: list[arrays.SlotArray] = field(default_factory=list)
    # Why PreFilter refused the pod, or what a plugin failed with: then the columns below say nothing.
    refusal: status.Status | None = None
    # The nodes that PreFilter narrowed to, and the status of all others.
    narrowed: frozenset[str] | None = None
    # The plugins that narrowed them.
    narrowed_by: tuple[str, ...] = ()
    index: arrays.Int16Array = field(default_factory=lambda: arrays.EMPTY_INT16)
    capacity: arrays.Int32Array = field(default_factory=lambda: arrays.EMPTY_INT32)
    changed: slot_changes.SlotChanges = field(default_factory=slot_changes.SlotChanges)
    # The slots that pods are nominated to which count for the class.
    nominated: arrays.SlotArray = field(default_factory=lambda: arrays.EMPTY_SLOTS)
    # Held while an AsyncFilter prepares answers about the class.
    preparing: asyncio.Lock = field(default_factory=asyncio.Lock)
    # Stands for these columns in keys of what follows from them: columns that are made anew have another.
    identity: object = field(default_factory=object)
    # The statuses of nodes that an AsyncFilter has given no answer about as they are now.
    unanswered_statuses: set[int] = field(default_factory=set)
    # The statuses of answers about the class so far, in the order of their numbers there; these numbers by the table's.
    answered_statuses: list[status.Status] = field(default_factory=list)
    _answered_numbers: arrays.Int16Array = field(default_factory=lambda: arrays.EMPTY_INT16)

    def begin_with(self, sibling: "ClassVerdicts", plugins: Iterable[str]) -> None:
        """Begin with the verdicts of another class, about which these plugins say the same.

        Both number their statuses alike.
        """
        self.table = sibling.table
        self.plugins = {name: sibling.plugins[name].copy() for name in plugins if name in sibling.plugins}

    def passing(self, size: int) -> arrays.BoolArray:
        """Which of the first slots, so many, take the class. Shape: (slot,)."""
        return (self.index[:size] == interfaces.PASSES) & (self.capacity[:size] > 0)

    def as_answered(self, index: arrays.Int16Array) -> arrays.Int16Array:
        """Number these statuses as answers about the class do: they leave out those of classes that share the table.

        Shapes: (n,).
        """
        known = self._answered_numbers
        if known.shape[0] <= len(self.table.statuses):
            known = self._answered_numbers = arrays.grow_last_axis(known, len(self.table.statuses) + 1)
        for number in np.flatnonzero(np.bincount(index)).tolist():
            if number and not known[number]:
                self.answered_statuses.append(self.table.statuses[number - 1])
                known[number] = len(self.answered_statuses)
        numbers: arrays.Int16Array = known[index]
        return numbers

    def forget_answered(self) -> None:
        """Number statuses anew where most that were in answers are no node's any more.

        Answers up to this generation are not patched any more: the next one is complete, for each caller.
        """
        answered = len(self.answered_statuses)
        if answered > _MANY_ANSWERED and answered > 4 * np.unique(self.index).size:
            self.answered_statuses = []
            self._answered_numbers = arrays.EMPTY_INT16
            self.first_answered = self.generation + 1

    @property
    def has_feasible_node(self) -> bool:
        """Whether some node takes the class."""
        return bool(self.passing(self.index.shape[0]).any())

    @property
    def is_passing(self) -> bool:
        """Whether some node takes the class, and no plugin failed."""
        return self.refusal is None and not self.has_error and self.has_feasible_node

    @property
    def has_error(self) -> bool:
        """Whether a plugin failed for some node."""
        errors = [number for number, each in enumerate(self.table.statuses, 1) if each.code is status.Code.ERROR]
        return bool(errors) and bool(np.isin(self.index, errors).any())

    @property
    def only_unanswered_may_pass(self) -> bool:
        """Whether no node passes, and some are refused only because an AsyncFilter has not answered about them."""
        if not self.unanswered_statuses or self.has_feasible_node:
            return False
        return bool(np.isin(self.index, list(self.unanswered_statuses)).any())

    def unanswered_status(self, name: str) -> int:
        """The status of a node that changed while the plugin of this name was called about it."""
        text = f"node(s) changed while plugin {name} was called"
        number = self.table.intern(status.unschedulable(name, text, reasons=(status.Reason("nodeChanged"),)))
        self.unanswered_statuses.add(number)
        return number

    @property
    def nbytes(self) -> int:
        """Memory of the columns, in bytes."""
        own = self.index.nbytes + self.capacity.nbytes + self.changed.nbytes
        return own + sum(column.nbytes for column in self.plugins.values())

    def ensure_capacity(self, size: int) -> None:
        """Make room for so many slots."""
        if self.index.shape[0] < size:
            self.index = arrays.grow_last_axis(self.index, size)
            self.capacity = arrays.grow_last_axis(self.capacity, size)
            self.changed.ensure_capacity(size)

    def combine_verdicts(
        self,
        slots: arrays.SlotArray,
        order: Sequence[str],
        table: nodes.NodeTable,
        *,
        allowed: arrays.BoolArray | None,
        outside: int,
        with_nominees: Sequence[tuple[arrays.SlotArray, interfaces.Verdicts]],
        stamp: int,
    ) -> None:
        """Recompute the class's verdicts on the slots of `table`: the first refusal in the plugins' `order`.

        The verdict of an AsyncFilter on a node before it changed does not count; a node that no plugin refuses
        otherwise is then refused as unanswered. `allowed` marks which of the slots PreFilter left in (None: all); the
        others get the status `outside`. `with_nominees` are verdicts on some of the slots with the pods there that are
        nominated to them: such a refusal comes first. What changes is stamped with `stamp`.

        Shapes: slots (ascending) and allowed (n,).
        """
        index = np.zeros(slots.shape[0], dtype=np.int16)
        capacity = np.full(slots.shape[0], interfaces.UNLIMITED, dtype=np.int32)
        if allowed is not None:
            index[~allowed] = outside
            capacity[~allowed] = 0
        self.merge_in_order(slots, order, table, index, capacity)
        for part, verdicts in with_nominees:
            at = np.searchsorted(slots, part)
            refuses = verdicts.index != interfaces.PASSES
            if allowed is not None:
                refuses &= allowed[at]
            index[at] = np.where(refuses, verdicts.index, index[at])
            assert verdicts.capacity is not None
            capacity[at] = np.minimum(capacity[at], verdicts.capacity)
        where = arrays.slot_index(slots)
        differs = (self.index[where] != index) | (self.capacity[where] != capacity)
        self.index[where] = index
        self.capacity[where] = capacity
        if differs.all():
            self.changed.touch(slots, stamp, where if isinstance(where, slice) else None)
        else:
            self.changed.touch(slots[differs], stamp)

    def merge_in_order(
        self,
        slots: arrays.SlotArray,
        order: Iterable[str],
        table: nodes.NodeTable,
        index: arrays.Int16Array,
        capacity: arrays.Int32Array,
    ) -> None:
        """Put the plugins' verdicts on the slots into `index` (the first refusal counts) and `capacity`. Shapes: (n,).

        A refusal of a whole domain leaves the capacity: a placement elsewhere may lift it. An asynchronous plugin whose
        answer is out of date refuses with a status of its own, but only where no other plugin does.
        """
        unanswered: arrays.Int16Array | None = None
        for name in order:
            column = self.plugins[name]
            if column.prefilter.skip:
                continue
            refused, limit = column.read(slots, self.table)
            stale = None if column.asynchronous is None else column.unanswered_slots(table, slots)
            if stale is not None:
                refused = np.where(stale, interfaces.PASSES, refused)
                unanswered = np.zeros_like(index) if unanswered is None else unanswered
                unanswered[stale] = self.unanswered_status(name)
            refuses = refused != interfaces.PASSES
            if refuses.any():
                np.copyto(index, refused, where=index == interfaces.PASSES)
                if column.domain_refused is not None:
                    refuses &= ~arrays.entries_at(column.domain_refused, slots)
                np.copyto(capacity, 0, where=refuses)
            if limit is not None:
                np.minimum(capacity, limit, out=capacity)
        if unanswered is not None:
            capacity[unanswered != interfaces.PASSES] = 0
            np.copyto(index, unanswered, where=index == interfaces.PASSES)

    def clear_slots(self, slots: arrays.SlotArray, stamp: int) -> None:
        """The slots hold no node any more."""
        gone = slots[(self.index[slots] != 0) | (self.capacity[slots] != 0)]
        self.index[gone] = 0
        self.capacity[gone] = 0
        self.changed.touch(gone, stamp)
