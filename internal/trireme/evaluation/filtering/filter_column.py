"""One filter plugin's verdicts of one class about all slots, cached between calls.

Also change: internal/trireme/evaluation/scoring/score_column.py (filter and score are alike here).

Tests: tests/unit/evaluation/test_preparing.py, tests/unit/evaluation/test_filtering.py,
tests/unit/evaluation/test_verdict_columns.py, tests/unit/evaluation/test_kept_verdicts.py.
"""

from dataclasses import dataclass, field

import numpy as np

from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, nodes, slot_changes, snapshot


@dataclass(slots=True)
class FilterColumn:
    """One plugin's verdicts. Shapes: (slot,). Generation −1: it has seen nothing yet.

    Those of an AsyncFilter are in its own state, and the arrays here stay empty.
    """

    prefilter: interfaces.PreFilterResult
    prefilter_generation: int
    generation: int = -1
    index: arrays.Int16Array = field(default_factory=lambda: arrays.EMPTY_INT16)
    capacity: arrays.Int32Array | None = None
    # Refusals by a domain constraint alone.
    domain_refused: arrays.BoolArray | None = None
    # The slots that Filter is due for beside those whose nodes change; None: all.
    affected: arrays.SlotArray | None = None
    # For an AsyncFilter: what its answers depend on. None: the plugin answers at once.
    asynchronous: interfaces.Dependency | None = None
    # The generation of the last call whose failure was ignored: nodes as they were then need no answer.
    unanswered_generation: int = -1

    def copy(self) -> "FilterColumn":
        """A column with the same answers, for another class. Not for that of an AsyncFilter."""
        return FilterColumn(
            self.prefilter,
            self.prefilter_generation,
            self.generation,
            self.index.copy(),
            None if self.capacity is None else self.capacity.copy(),
            None if self.domain_refused is None else self.domain_refused.copy(),
            self.affected,
        )

    @property
    def nbytes(self) -> int:
        """Memory of the verdicts, in bytes."""
        if self.asynchronous is not None:
            return 0 if self.prefilter.skip else self._prepared.nbytes
        return self.index.nbytes + (0 if self.capacity is None else self.capacity.nbytes)

    @property
    def _prepared(self) -> interfaces.PreparedVerdicts:
        """The verdicts of an AsyncFilter, which it did not skip."""
        prepared: interfaces.PreparedVerdicts = self.prefilter.state
        return prepared

    def has_verdicts(self, size: int) -> bool:
        """Whether the plugin was called about so many slots, the first ones."""
        return not self.prefilter.skip if self.asynchronous is not None else self.index.shape[0] >= size

    def read(
        self, slots: arrays.SlotArray, table: interfaces.StatusTable
    ) -> tuple[arrays.Int16Array, arrays.Int32Array | None]:
        """The statuses' numbers on these slots, and how many copies fit (None: no limit). Shapes: as `slots`."""
        if self.asynchronous is not None:
            verdicts = self._prepared.read(slots, table)
            return verdicts.index, verdicts.capacity
        where = arrays.slot_index(slots)
        return self.index[where], None if self.capacity is None else self.capacity[where]

    @property
    def answered_generation(self) -> int:
        """The last generation for which every node has an answer, or a failure that is ignored."""
        return max(self.generation, self.unanswered_generation)

    def changed_since(self, table: nodes.NodeTable, generation: int) -> arrays.SlotArray:
        """The slots about which an AsyncFilter may say something else than at the generation, ascending."""
        return table.changed_since(generation, self.asynchronous is not interfaces.Dependency.NODE)

    def unanswered_slots(self, table: nodes.NodeTable, slots: arrays.SlotArray) -> arrays.BoolArray | None:
        """Which of the slots an AsyncFilter has given no answer about as they are now; None: it has about all of them.

        Shape: as `slots`.
        """
        generation, pods = self.answered_generation, self.asynchronous is not interfaces.Dependency.NODE
        if max(table.object_changes.latest, table.pod_changes.latest if pods else 0) <= generation:
            return None
        out: arrays.BoolArray = arrays.entries_at(table.object_changes.at, slots) > generation
        if pods:
            out |= arrays.entries_at(table.pod_changes.at, slots) > generation
        return out if out.any() else None

    def is_stale(self, plugin: interfaces.FilterPlugin, snap: snapshot.Snapshot) -> bool:
        """Whether PreFilter of the plugin may answer something else by now."""
        if plugin.depends_on == interfaces.Dependency.CLUSTER:
            return self.prefilter_generation != snap.generation
        return snap.last_change(plugin.reads) > self.prefilter_generation

    def due_slots(
        self, plugin: interfaces.FilterPlugin, snap: snapshot.Snapshot, live: arrays.BoolArray
    ) -> arrays.SlotArray:
        """The slots about which Filter may answer something else by now, ascending. Shape: live (slot,).

        A plugin that depends on the whole cluster has had PreFilter called since it changed (`store_pre_filter`).
        """
        if self.generation >= 0 and self.affected is not None:
            changed = snap.nodes.changed_since(self.generation, pods=False)
            changed = slot_changes.union([self.affected, changed], live.shape[0])
            return changed[live[changed]]
        if self.generation < 0:
            return snap.nodes.live_slots()
        pods = plugin.depends_on == interfaces.Dependency.NODE_PODS
        changed = snap.nodes.changed_since(self.generation, pods)
        return changed[live[changed]]

    def store_pre_filter(
        self, prefilter: interfaces.PreFilterResult, generation: int, affected: arrays.SlotArray | None = None
    ) -> None:
        """Store PreFilter's answer of this generation.

        Filter becomes due for the slots that it affects; None: for all.
        """
        self.prefilter = prefilter
        self.prefilter_generation = generation
        if affected is None:
            self.affected = None
            self.generation = -1
        else:
            self.affected = affected if self.affected is None else np.union1d(self.affected, affected)

    def write_verdicts(self, slots: arrays.SlotArray, verdicts: interfaces.Verdicts, size: int) -> None:
        """Store a plugin's verdicts about these slots; `size` is how many slots there may be.

        Verdicts without capacities mean unlimited, and without `domain_refused` that no refusal is of a domain.
        """
        where = arrays.slot_index(slots)
        if verdicts.domain_refused is not None or self.domain_refused is not None:
            if self.domain_refused is None:
                self.domain_refused = np.zeros(size, dtype=np.bool_)
            elif self.domain_refused.shape[0] < size:
                self.domain_refused = arrays.grow_last_axis(self.domain_refused, size)
            self.domain_refused[where] = False if verdicts.domain_refused is None else verdicts.domain_refused
        if self.index.shape[0] < size:
            self.index = arrays.grow_last_axis(self.index, size)
        self.index[where] = verdicts.index
        if verdicts.capacity is not None:
            if self.capacity is None:
                self.capacity = np.full(size, interfaces.UNLIMITED, dtype=np.int32)
            elif self.capacity.shape[0] < size:
                self.capacity = arrays.grow_last_axis(self.capacity, size)
            self.capacity[where] = verdicts.capacity
        elif self.capacity is not None:
            if self.capacity.shape[0] < size:
                self.capacity = arrays.grow_last_axis(self.capacity, size)
            self.capacity[where] = interfaces.UNLIMITED

    def changed_slots(self, slots: arrays.SlotArray, verdicts: interfaces.Verdicts) -> arrays.SlotArray:
        """Those of the slots about which the verdicts say something else than is written. Shape: (n,)."""
        known = self.index.shape[0]
        if slots.size and int(slots[-1]) >= known:
            return slots
        differs = arrays.entries_at(self.index, slots) != verdicts.index
        for new, old in ((verdicts.capacity, self.capacity), (verdicts.domain_refused, self.domain_refused)):
            if new is not None:
                differs |= True if old is None else arrays.entries_at(old, slots) != new
            elif old is not None:
                return slots
        return slots[differs]
