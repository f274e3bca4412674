"""Place: the hosts of the next pods of one class, in order, as one-by-one cycles would choose them.

Each placement takes the node with the highest total, ties broken by a fixed order of the slots that depends on a seed
and on nothing else: so a batch and one-by-one cycles choose alike, on any replica. After a placement only what it
changed is scored again: the chosen node's own scores, from a table made for the likeliest nodes at once; and the
normalised scores of all nodes where the chosen one is full now and was the last to hold a maximum.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from trireme.plugins import interfaces
from trireme.snapshot import arrays

MAX_SCORE = 100

# A key is a total and, below it, the slot's place among equals.
_TIE_BITS = 20


@dataclass(frozen=True, slots=True)
class ScoredPlugin:
    """One plugin's raw scores over the feasible nodes, and what its scores become. Shape of raw: (node,)."""

    name: str
    weight: int
    normalization: interfaces.Normalization
    raw: arrays.Int64Array


# The weighted scores, of the plugins that a placement changes, of the n-th node with one more copy, two, …
# (nodes, copies) → shape (node, copy).
OwnScores = Callable[[arrays.SlotArray, int], arrays.Int64Array]


@dataclass(frozen=True, slots=True)
class Choice:
    """Where one pod goes, and the weighted total of that node at that moment; 0 where no other node was feasible."""

    node: int
    total: int


def normalized(raw: arrays.Int64Array, normalization: interfaces.Normalization) -> arrays.Int64Array:
    """Scores of 0 to 100. Shape: as `raw`. Source: framework/plugins/helper DefaultNormalizeScore."""
    if normalization not in (interfaces.Normalization.MAX, interfaces.Normalization.MAX_REVERSED):
        return raw
    reverse = normalization == interfaces.Normalization.MAX_REVERSED
    most = max(int(raw.max(initial=0)), 0)
    if most == 0:
        return np.full_like(raw, MAX_SCORE) if reverse else raw
    scaled = raw * MAX_SCORE // most
    return MAX_SCORE - scaled if reverse else scaled


def tie_order(seed: int, slots: arrays.SlotArray) -> arrays.Int64Array:
    """The slots' places among equals, below 2^20. Shape: as `slots`. Source: the splitmix64 generator's finaliser."""
    x = slots.astype(np.uint64) + np.uint64(seed & 0xFFFF_FFFF_FFFF_FFFF) + np.uint64(0x9E37_79B9_7F4A_7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    return ((x ^ (x >> np.uint64(31))) >> np.uint64(64 - _TIE_BITS)).astype(np.int64)


class Placer:
    """Places pods of one class on nodes numbered 0 … n−1.

    `capacity` is how many copies each takes (n,); `ties` their places among equals (n,); `static` the plugins whose raw
    scores a placement does not change; `own` the scores of those that change on the chosen node alone.
    """

    def __init__(
        self,
        capacity: arrays.Int32Array,
        ties: arrays.Int64Array,
        static: Sequence[ScoredPlugin],
        own: OwnScores | None,
    ) -> None:
        self._capacity = capacity.copy()
        self._open = int(np.count_nonzero(capacity > 0))  # nodes that take more
        self._ties = ties
        self._static = static
        self._own = own
        self._copies: dict[int, int] = {}
        self._rows: dict[int, arrays.Int64Array] = {}
        self._own_now = np.zeros(capacity.shape[0], dtype=np.int64)
        if own is not None:
            self._own_now = own(np.arange(capacity.shape[0]), 1)[:, 0]
        self._keys = np.zeros(capacity.shape[0], dtype=np.int64)
        self._total_all()

    def place(self, count: int) -> list[Choice]:
        """The hosts of the next `count` pods, in order; fewer where no more fit."""
        choices: list[Choice] = []
        if not self._keys.size:
            return choices
        if self._own is not None and count > 1:
            self._prepare_rows(count)
        while len(choices) < count:
            node = int(self._keys.argmax())
            key = int(self._keys[node])
            if key < 0:
                break
            choices.append(Choice(node, key >> _TIE_BITS if self._open > 1 else 0))
            if len(choices) < count:
                self._take(node, count)
        return choices

    def _take(self, node: int, count: int) -> None:
        self._capacity[node] -= 1
        placed = self._copies[node] = self._copies.get(node, 0) + 1
        if self._capacity[node] == 0:
            self._open -= 1
            self._keys[node] = -1
            if any(self._held_maximum(plugin, node) for plugin in self._static):
                self._total_all()
            return
        if self._own is not None:
            row = self._rows.get(node)
            if row is None:
                row = self._rows[node] = self._own(np.array([node]), count)[0]
            after = row[placed]
            self._keys[node] += (after - self._own_now[node]) << _TIE_BITS
            self._own_now[node] = after

    def _prepare_rows(self, count: int) -> None:
        """Own scores after each copy, for the nodes that are best now: no other is chosen before one of them is
        full.
        """
        assert self._own is not None
        likely = np.arange(self._keys.shape[0])
        if likely.size > count:
            likely = np.argpartition(self._keys, -count)[-count:]
        most = min(count, int(self._capacity[likely].max()))
        rows = self._own(likely, most)
        self._rows = dict(zip(likely.tolist(), rows, strict=True))

    def _total_all(self) -> None:
        feasible = self._capacity > 0
        totals = self._own_now.copy()
        for plugin in self._static:
            scores = normalized(plugin.raw[feasible], plugin.normalization)
            totals[feasible] += scores * plugin.weight
        self._keys = np.where(feasible, (totals << _TIE_BITS) + self._ties, -1)

    def _held_maximum(self, plugin: ScoredPlugin, node: int) -> bool:
        """Whether the node, full now, was the last to hold the plugin's maximum, by which all others are normalised."""
        if plugin.normalization not in (interfaces.Normalization.MAX, interfaces.Normalization.MAX_REVERSED):
            return False
        raw = plugin.raw[node]
        return bool(raw > 0 and plugin.raw[self._capacity > 0].max(initial=0) < raw)
