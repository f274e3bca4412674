"""A remote filter plugin's answer about one class: the state that its PreFilter returns.

The plugin's verdicts are stored here and nowhere else; the column of the class reads them. Where classes share the
plugin's answers, there is one array for all of these classes (`shared_answers`), and the state is a view of it.

Tests: tests/unit/remote/test_prepared_states.py.
"""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import numpy as np

from trireme.plugin_api import interfaces
from trireme.remote import shared_answers
from trireme.snapshot import arrays, nodes, snapshot

# Calls the plugin about slots; the verdicts have numbers of the table.
CallFilter = Callable[[arrays.SlotArray, interfaces.StatusTable], Awaitable[interfaces.Verdicts]]

SharedVerdicts: TypeAlias = shared_answers.AnswersAboutPod[interfaces.PreFilterResult, np.int16]


class RemoteFilterState:
    """The verdicts about a class that shares none. Shapes: (slot,). `pre_filter` is the plugin's own state."""

    __slots__ = ("_capacity", "_index", "pre_filter", "unanswered")

    def __init__(self, pre_filter: bytes) -> None:
        self.pre_filter = pre_filter
        self.unanswered = False
        self._index = np.zeros(0, dtype=np.int16)
        self._capacity = np.zeros(0, dtype=np.int32)

    @property
    def nbytes(self) -> int:
        """Memory of the verdicts, in bytes."""
        return self._index.nbytes + self._capacity.nbytes

    async def update(
        self, snap: snapshot.Snapshot, slots: arrays.SlotArray, table: interfaces.StatusTable, call: CallFilter
    ) -> None:
        """Call the plugin about these slots, and store the verdicts. Raises: as `call`."""
        self.write(slots, await call(slots, table))

    def write(self, slots: arrays.SlotArray, verdicts: interfaces.Verdicts) -> None:
        """Store the verdicts about these slots."""
        self._ensure_capacity(slots)
        self._index[slots] = verdicts.index
        self._capacity[slots] = interfaces.UNLIMITED if verdicts.capacity is None else verdicts.capacity

    def pass_for_now(self, slots: arrays.SlotArray) -> None:
        """Let the slots pass: the call about them failed, and the policy ignores that."""
        self.write(slots, interfaces.Verdicts(np.zeros(slots.shape[0], dtype=np.int16)))

    def read(self, slots: arrays.SlotArray, table: interfaces.StatusTable) -> interfaces.Verdicts:
        """The verdicts about these slots."""
        self._ensure_capacity(slots)
        return interfaces.Verdicts(self._index[slots], self._capacity[slots])

    def _ensure_capacity(self, slots: arrays.SlotArray) -> None:
        """Grow the columns to include the slots."""
        size = int(slots.max(initial=-1)) + 1
        if self._index.shape[0] < size:
            self._index = arrays.grow_last_axis(self._index, size)
            self._capacity = arrays.grow_last_axis(self._capacity, size)


class SharedFilterState:
    """The verdicts about a class, in an array that it shares with the classes that are equal to the plugin."""

    __slots__ = ("_table", "answers", "pre_filter", "unanswered")

    def __init__(self, pre_filter: bytes, answers: SharedVerdicts, table: nodes.NodeTable) -> None:
        self.pre_filter = pre_filter
        self.unanswered = False
        self.answers = answers
        self._table = table

    @property
    def nbytes(self) -> int:
        """Memory of the shared verdicts, in bytes: it counts for each class that shares them."""
        return self.answers.nbytes

    async def update(
        self, snap: snapshot.Snapshot, slots: arrays.SlotArray, table: interfaces.StatusTable, call: CallFilter
    ) -> None:
        """Call the plugin about those of the slots that it has not answered about for another class.

        Raises: as `call`; OutOfStepError if the snapshot was replaced meanwhile.
        """

        async def call_about_missing(missing: arrays.SlotArray) -> arrays.Int16Array:
            return (await call(missing, self.answers.statuses)).index

        await self.answers.complete(snap, slots, self.pre_filter, call_about_missing)

    def pass_for_now(self, slots: arrays.SlotArray) -> None:
        """Nothing is to be stored: slots without an answer pass."""

    def read(self, slots: arrays.SlotArray, table: interfaces.StatusTable) -> interfaces.Verdicts:
        """The verdicts about these slots, without capacities: the plugin depends on the node alone, so none limits."""
        numbers = self.answers.numbers_of(self._table, slots)
        return interfaces.Verdicts(table.translate(self.answers.statuses.statuses, numbers))
