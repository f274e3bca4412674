"""One score plugin's raw scores of one class about all slots, cached between calls.

Classes with equal node terms share the columns of plugins that read no more of a class. A change of such a score
follows a change of its node, whose slot every class ranks anew (`ClassScores.refresh_open_slots`).

Also change: internal/trireme/evaluation/filtering/filter_column.py (filter and score are alike here).

Tests: tests/unit/evaluation/test_batches_with_remote_scores.py.
"""

from dataclasses import dataclass, field
from typing import Any

from trireme.evaluation.scoring import copy_scores
from trireme.plugin_api import interfaces, scorers
from trireme.snapshot import arrays, slot_changes, snapshot


@dataclass(slots=True, eq=False, weakref_slot=True)
class ScoreColumn:
    """One plugin's raw scores. Shape: (slot,). `silent`: the plugin has nothing to say about the class.

    `copies` are those with copies of the pod on the node, of plugins that have to be called for them.
    """

    state: Any
    state_generation: int
    generation: int = -1
    silent: bool = False
    raw: arrays.Int64Array = field(default_factory=lambda: arrays.EMPTY_INT64)
    # What all slots have that were ever written; None: not all the same.
    uniform: int | None = None
    copies: copy_scores.CopyScores = field(default_factory=copy_scores.CopyScores)

    def copy(self) -> "ScoreColumn":
        """A column with the same scores, for another class. Not for that of a plugin that is called for copies."""
        return ScoreColumn(
            self.state, self.state_generation, self.generation, self.silent, self.raw.copy(), self.uniform
        )

    def ensure_capacity(self, size: int) -> None:
        """Make room for so many slots."""
        if self.raw.shape[0] < size:
            self.raw = arrays.grow_last_axis(self.raw, size)

    def write_scores(self, slots: arrays.SlotArray, raw: arrays.Int64Array, size: int) -> None:
        """Store a plugin's raw scores of these slots; `size` is how many slots there may be."""
        self.ensure_capacity(size)
        self.raw[arrays.slot_index(slots)] = raw
        self.copies.drop(slots)
        if self.generation < 0:
            self.uniform = int(raw[0])
        if self.uniform is not None and (raw != self.uniform).any():
            self.uniform = None

    def is_stale(self, plugin: scorers.ScorePlugin | scorers.JointScorePlugin, snap: snapshot.Snapshot) -> bool:
        """Whether PreScore of the plugin may answer something else by now."""
        if plugin.depends_on == interfaces.Dependency.CLUSTER:
            return self.state_generation != snap.generation
        return snap.last_change(plugin.reads) > self.state_generation

    def due_slots(self, depends_on: interfaces.Dependency, snap: snapshot.Snapshot) -> arrays.SlotArray:
        """The slots whose score may have changed, for a plugin that depends on this, ascending."""
        if self.generation == snap.generation and depends_on != interfaces.Dependency.CLUSTER:
            return slot_changes.NO_SLOTS
        if self.generation < 0 or depends_on == interfaces.Dependency.CLUSTER:
            return snap.nodes.live_slots()
        live = snap.nodes.alive[: snap.nodes.size]
        changed = snap.nodes.changed_since(self.generation, depends_on == interfaces.Dependency.NODE_PODS)
        return changed[live[changed]]
