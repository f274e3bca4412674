"""One class's raw scores and capacities about all slots, cached between calls.

Raw scores are this replica's own, brought up to date by what changed. Capacities are what filter answered: the frontend
passes them on, whole or as a patch to the ones of a generation that this replica has. What follows from both, which
slots are open and how they rank, is brought up to date for the slots that changed.

Tests: tests/unit/evaluation/test_class_scores.py, tests/unit/evaluation/test_batches_with_remote_scores.py,
tests/unit/evaluation/test_scoring.py, tests/unit/evaluation/test_kept_scores.py.
"""

import asyncio
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from trireme.evaluation import request_errors
from trireme.evaluation.scoring import ranking, score_column
from trireme.snapshot import arrays, nodes, slot_changes
from trireme.wire import node_columns


@dataclass(slots=True)
class ClassScores:
    """All that is cached of one class under one profile. Shapes: (slot,).

    `capacity` is how many more copies each node takes by itself; `refused` marks nodes that filter refused, which keep
    a capacity where a domain constraint alone refuses them. `capacity_generation` −1: not known.
    """

    plugins: dict[str, score_column.ScoreColumn] = field(default_factory=dict)
    capacity_generation: int = -1
    capacity: arrays.Int32Array = field(default_factory=lambda: arrays.EMPTY_INT32)
    refused: arrays.BoolArray = field(default_factory=lambda: arrays.EMPTY_BOOL)
    # The slots that take pods now, and how many there are; None: not known of any.
    open: arrays.BoolArray = field(default_factory=lambda: arrays.EMPTY_BOOL)
    open_count: int = 0
    cached_ranking: ranking.Ranking | None = None
    # The most copies that one node got of a batch, the last time: for so many, scores are found out ahead.
    copies_on_a_node: int = 1
    # Slots that changed since they were ranked; None: all.
    unranked: list[arrays.SlotArray] | None = None
    # When nodes were looked at for `open`, and the slots with another capacity since; None: all.
    _seen: int = -1
    _unopened: list[arrays.SlotArray] | None = None
    # Held while an AsyncScore prepares scores of the class.
    preparing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def begin_with(self, sibling: "ClassScores", plugins: Iterable[str], shared: Container[str]) -> None:
        """Begin with the scores of another class, to which these plugins give the same; some share the column."""
        self.plugins = {
            name: sibling.plugins[name] if name in shared else sibling.plugins[name].copy()
            for name in plugins
            if name in sibling.plugins
        }

    @property
    def nbytes(self) -> int:
        """Memory of the columns, in bytes."""
        own = self.capacity.nbytes + self.refused.nbytes + self.open.nbytes
        own += 0 if self.cached_ranking is None else self.cached_ranking.nbytes
        return own + sum(column.raw.nbytes + column.copies.nbytes for column in self.plugins.values())

    def refresh_open_slots(self, table: nodes.NodeTable) -> None:
        """Update which slots take pods of the class: filter admits them, and there is a node in this snapshot."""
        # Filter may be ahead of this replica, or behind it: what is no node here cannot be chosen here.
        size = min(table.size, self.capacity.shape[0])
        if self._unopened is None or self.open.shape[0] != size:
            slots = arrays.first_slots(size)
            self.open, self.open_count = np.zeros(size, dtype=np.bool_), 0
            self.unranked = None
        else:
            parts = [*self._unopened, table.object_changes.since(self._seen, size)]
            slots = slot_changes.union(parts, self.capacity.shape[0])
            slots = slots[: np.searchsorted(slots, size)]
        where = arrays.slot_index(slots)
        opened = (self.capacity[where] > 0) & table.alive[where] & ~self.refused[where]
        self.open_count += int(np.count_nonzero(opened)) - int(np.count_nonzero(self.open[where]))
        self.open[where] = opened
        self.mark_unranked(slots)
        self._unopened = []
        self._seen = table.object_changes.latest

    def mark_unranked(self, slots: arrays.SlotArray) -> None:
        """Have the next `refresh_ranking` rank these slots again. Shape: (n,)."""
        if self.unranked is not None and slots.shape[0]:
            self.unranked.append(slots)

    def store_filter_answer(self, answer: node_columns.NodeColumns) -> None:
        """Store filter's answer, complete or a patch.

        Raises: StaleRequestError if it patches an answer that is not here.
        """
        if answer.base_generation:
            if answer.generation == self.capacity_generation:
                return
            if answer.base_generation != self.capacity_generation:
                text = f"capacities.base_generation: {answer.base_generation} is not here; send them complete"
                raise request_errors.StaleRequestError(text)
        self.store_capacities(answer.slots, answer.size, answer.index != 0, answer.capacity, answer.generation)

    def store_capacities(
        self,
        slots: arrays.SlotArray | None,
        size: int,
        refused: arrays.BoolArray,
        capacity: arrays.Int32Array,
        generation: int,
    ) -> None:
        """Store filter's answer of this generation: complete where `slots` is None, else a patch.

        Shapes: (size,) or as slots.
        """
        if slots is None:
            self.refused = refused
            self.capacity = capacity
            self._unopened = None
        else:
            if self.capacity.shape[0] < size:
                self.refused = arrays.grow_last_axis(self.refused, size)
                self.capacity = arrays.grow_last_axis(self.capacity, size)
            self.refused[slots] = refused
            self.capacity[slots] = capacity
            if self._unopened is not None:
                self._unopened.append(slots)
        self.capacity_generation = generation

    def take_over(self, before: "ClassScores") -> None:
        """Take over what filter answered from the columns that were dropped while a batch of the class was placed.

        What plugins said is not taken over. An answer of filter that is here and as new stays.
        """
        if before.capacity_generation > self.capacity_generation:
            self.store_capacities(None, 0, before.refused.copy(), before.capacity.copy(), before.capacity_generation)
        self.copies_on_a_node = max(self.copies_on_a_node, before.copies_on_a_node)

    def refresh_ranking(
        self, plugins: Sequence[ranking.RankedPlugin], common: int, ties: arrays.Int64Array
    ) -> ranking.Ranking:
        """Return the ranking of the open slots under these plugins, brought up to date.

        `common` is what others add that score all slots alike. Shape: ties (slot,), or longer.
        """
        size = self.open.shape[0]
        if self.cached_ranking is None or not self.cached_ranking.has_same_columns(plugins, common, size):
            self.cached_ranking, self.unranked = ranking.Ranking(plugins, common, size), None
        if self.unranked is None:
            slots = arrays.first_slots(size)
        else:
            slots = slot_changes.union(self.unranked, ties.shape[0])
            slots = slots[: np.searchsorted(slots, size)]
        self.cached_ranking.update(slots, arrays.entries_at(self.open, slots), ties)
        self.unranked = []
        return self.cached_ranking
