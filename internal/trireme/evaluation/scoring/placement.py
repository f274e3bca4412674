"""Place: the hosts of the next pods of one class, in order, as one-by-one cycles would choose them.

Each placement takes the node with the highest total, ties broken by a fixed order of the slots that depends on a seed
and on nothing else: so a batch and one-by-one cycles choose alike, on any replica. After a placement only what it
changed is scored again: the chosen node's own scores, from a table made for the likeliest nodes at once; and the
normalised scores of all nodes where the chosen one is full now and was the last to hold a maximum.

The example of a phase in another language (`examples/score-phase-go`) chooses alike, which
`tests/conformance/test_score_phase_in_go.py` compares.

Also change: examples/score-phase-go/placing.go (placing in order).

Tests: tests/unit/evaluation/test_placement.py, tests/unit/evaluation/test_batches_with_remote_scores.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from trireme.framework import plugin_spec
from trireme.plugin_api import scorers
from trireme.snapshot import arrays

# A key is a total shifted by these bits and, below it, the slot's place among equals. So a total must stay below 2^43.
# Also change: internal/trireme/evaluation/scoring/ranking.py,
#     internal/trireme/evaluation/scoring/domain_placement.py,
#     internal/trireme/evaluation/scoring/pods_in_turn.py (how keys are made).
TIE_BITS = 20


@dataclass(frozen=True, slots=True)
class ScoredPlugin:
    """One plugin's raw scores over the feasible nodes, and what its scores become. Shape of raw: (node,).

    `even`: all are known to be the same.
    """

    name: str
    weight: int
    normalization: scorers.Normalization
    raw: arrays.Int64Array
    even: bool = False


# The weighted scores, of the plugins that a placement changes, of the n-th node with one more copy, two, …
# (nodes, copies) → shape (node, copy). UNKNOWN where a plugin has to be called for it.
# Implementers: trireme.evaluation.scoring.placers.own_scores.
OwnScores = Callable[[arrays.SlotArray, int], arrays.Int64Array]


@dataclass(frozen=True, slots=True)
class ChosenNode:
    """Where one pod goes, and the weighted total of that node at that moment; 0 where no other node was feasible."""

    node_number: int
    total: int


@dataclass(frozen=True, slots=True)
class UnknownScore:
    """A score without which the next pod cannot be placed: of this node once it has so many copies more."""

    node_number: int
    copies: int


def normalize_scores(raw: arrays.Int64Array, normalization: scorers.Normalization) -> arrays.Int64Array:
    """Scores of 0 to 100. Shape: as `raw`. Source: framework/plugins/helper DefaultNormalizeScore."""
    return scale_scores(raw, normalization, max(int(raw.max(initial=0)), 0))


def scale_scores(raw: arrays.Int64Array, normalization: scorers.Normalization, most: int) -> arrays.Int64Array:
    """Scores of 0 to 100, as `normalize_scores` gives them; `most` is the highest raw score, or 0. Shape: as `raw`."""
    if normalization not in (scorers.Normalization.MAX, scorers.Normalization.MAX_REVERSED):
        return raw
    reverse = normalization == scorers.Normalization.MAX_REVERSED
    if most == 0:
        return np.full_like(raw, plugin_spec.MAX_SCORE) if reverse else raw
    scaled = raw * plugin_spec.MAX_SCORE // most
    return plugin_spec.MAX_SCORE - scaled if reverse else scaled


def common_score(raw: int, normalization: scorers.Normalization, weight: int) -> int:
    """What a plugin that gives all nodes this raw score adds to each total."""
    if normalization == scorers.Normalization.MAX:
        raw = plugin_spec.MAX_SCORE if raw > 0 else raw
    elif normalization == scorers.Normalization.MAX_REVERSED:
        raw = 0 if raw > 0 else plugin_spec.MAX_SCORE
    return raw * weight


def apply_weight(scores: arrays.Int64Array, weight: int) -> arrays.Int64Array:
    """What a plugin's scores of 0 to 100 add to the totals. Shape: as `scores`, which it may be."""
    return scores if weight == 1 else scores * weight


def highest_keys(keys: arrays.Int64Array, count: int) -> list[int]:
    """The numbers of the `count` highest keys, or of all, in any order. Shape: keys (n,)."""
    if keys.shape[0] <= count:
        return list(range(keys.shape[0]))
    best: list[int] = np.argpartition(keys, -count)[-count:].tolist()
    return best


def tie_order(slots: arrays.SlotArray) -> arrays.Int64Array:
    """The slots' places among equals, below 2^20, each another one (up to a million slots). Shape: as `slots`.

    Of two slots the same comes first whatever other slots there are. Source: the splitmix64 generator's finaliser.
    """
    x = slots.astype(np.uint64) + np.uint64(0x9E37_79B9_7F4A_7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    places = np.empty(slots.shape[0], dtype=np.int64)
    places[np.argsort(x ^ (x >> np.uint64(31)), kind="stable")] = np.arange(slots.shape[0])
    return places >> max(0, slots.shape[0].bit_length() - TIE_BITS)


@dataclass(frozen=True, slots=True)
class ScoredNodes:
    """The nodes that pods of a class are placed on, numbered 0 … n−1, with their scores.

    `capacity` is how many copies each takes (n,); `ties` their places among equals (n,); `static` the plugins whose raw
    scores a placement does not change; `own` the scores of those that change on the chosen node alone, and `own_now`
    its score of the first copy on every node (n,), where the caller has it.
    """

    capacity: arrays.Int32Array
    ties: arrays.Int64Array
    static: Sequence[ScoredPlugin]
    own: OwnScores | None
    own_now: arrays.Int64Array | None = None


class Placer:
    """Places pods of one class on nodes one by one, where a placement changes only its own node's score."""

    def __init__(self, nodes: ScoredNodes, open_count: int | None = None) -> None:
        """Place on these nodes; `open_count`: so many nodes take pods, but only these can be chosen."""
        capacity, own, own_now = nodes.capacity, nodes.own, nodes.own_now
        self._capacity = capacity.copy()
        # Nodes that take more.
        self._open = int(np.count_nonzero(capacity > 0)) if open_count is None else open_count
        self._ties = nodes.ties
        self._static = nodes.static
        self._own = own
        self._copies: dict[int, int] = {}
        self._rows: dict[int, arrays.Int64Array] = {}
        if own is None:
            self._own_now = np.zeros(capacity.shape[0], dtype=np.int64)
        elif own_now is None:
            self._own_now = own(np.arange(capacity.shape[0]), 1)[:, 0]
        else:
            self._own_now = own_now.copy()
        self._keys = self._ranking_keys()
        # The nodes that can be chosen before the totals of all change, ascending, and their keys.
        self._likely = np.zeros(0, dtype=np.intp)
        self._likely_keys = np.zeros(0, dtype=np.int64)
        #: What ended `place` before all pods had a node, if not that no more fit.
        self.unknown: UnknownScore | None = None

    def place(self, count: int) -> list[ChosenNode]:
        """Choose the nodes of the next `count` pods, each seeing those before it; fewer where no more fit.

        Also fewer where a score is not known by then (`unknown`). To be called once.
        """
        choices: list[ChosenNode] = []
        if not self._keys.size:
            return choices
        self._find_likely_nodes(count)
        while len(choices) < count and self.unknown is None:
            at = int(self._likely_keys.argmax())
            key = int(self._likely_keys[at])
            if key < 0:
                break
            choices.append(ChosenNode(int(self._likely[at]), key >> TIE_BITS if self._open > 1 else 0))
            if len(choices) < count:
                self._count_copy_and_rerank(at, count - len(choices))
        return choices

    def likely_nodes(self, count: int) -> list[int]:
        """The nodes that pods go to next, most likely: so many at most."""
        return [node for node in highest_keys(self._keys, count) if self._keys[node] >= 0]

    def _count_copy_and_rerank(self, at: int, left: int) -> None:
        """Count one copy more on the node at this place among the likely ones, and rank what that changes.

        `left` pods are still to be placed.
        """
        node = int(self._likely[at])
        self._capacity[node] -= 1
        placed = self._copies[node] = self._copies.get(node, 0) + 1
        if self._capacity[node] == 0:
            self._open -= 1
            self._keys[node] = self._likely_keys[at] = -1
            if any(self._was_last_with_maximum(plugin, node) for plugin in self._static):
                self._keys = self._ranking_keys()
                self._find_likely_nodes(left)
            return
        if self._own is not None:
            after = int(self._rows[node][placed])
            if after == scorers.UNKNOWN:
                self.unknown = UnknownScore(node, placed)
                return
            self._keys[node] += (after - self._own_now[node]) << TIE_BITS
            self._likely_keys[at] = self._keys[node]
            self._own_now[node] = after

    def _find_likely_nodes(self, count: int) -> None:
        """Find the nodes that the next `count` placements can go to: as many of the best.

        A placement changes no key but the chosen node's own, so among so many one is always as it was, and better than
        every node outside.
        """
        likely = np.arange(self._keys.shape[0])
        if likely.size > count:
            least = np.partition(self._keys, -count)[-count]
            likely = np.flatnonzero(self._keys >= least)
        self._likely = likely
        self._likely_keys = self._keys[likely]
        if self._own is not None and count > 1:
            new = [node for node in likely.tolist() if node not in self._rows and self._keys[node] >= 0]
            if new:
                most = min(count, int(self._capacity[new].max()))
                rows = self._own(np.array(new, dtype=np.intp), most)
                self._rows.update(zip(new, rows, strict=True))

    def _ranking_keys(self) -> arrays.Int64Array:
        """The keys of all nodes. Shape: (node,)."""
        feasible = self._capacity > 0
        totals = self._own_now.copy()
        everywhere = bool(feasible.all())
        for plugin in self._static:
            if everywhere:
                totals += apply_weight(normalize_scores(plugin.raw, plugin.normalization), plugin.weight)
            else:
                scores = normalize_scores(plugin.raw[feasible], plugin.normalization)
                totals[feasible] += apply_weight(scores, plugin.weight)
        keys = (totals << TIE_BITS) + self._ties
        return keys if everywhere else np.where(feasible, keys, -1)

    def _was_last_with_maximum(self, plugin: ScoredPlugin, node: int) -> bool:
        """Whether the node, full now, was the last to hold the plugin's maximum, by which all others are normalised."""
        if plugin.normalization not in (
            scorers.Normalization.MAX,
            scorers.Normalization.MAX_REVERSED,
        ):
            return False
        raw = plugin.raw[node]
        return bool(plugin.raw[self._capacity > 0].max(initial=0) < raw)
