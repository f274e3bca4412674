"""Places pods of several classes one after the other, each as if those before it were on their nodes.

That is for classes for which a placed pod changes nothing but what is left of its node's resources. The totals of all
classes are made together, block by block of nodes: a class costs a part of each array operation instead of all of them.
Then pods choose in order, some at a time: each takes the best of the nodes that no other of these took, and then these
nodes are scored again for it and all pods after it. Where one of them turns out better than the node that a pod chose,
that pod and those after it choose again.

Also change: internal/trireme/evaluation/scoring/placement.py (how keys are made).

Tests: tests/unit/evaluation/test_pods_in_turn.py, tests/unit/evaluation/test_classes_in_turn.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trireme.evaluation import plugin_timer
from trireme.evaluation.scoring import placement, ranking
from trireme.plugin_api import scorers
from trireme.snapshot import arrays, node_usage

# So many totals are made at once: their arrays stay in the processor's cache.
_TOTALS_AT_ONCE = 32_768
# So many pods choose, at first and at most, before the nodes that they took are scored again.
_MOST_CHOICES = 32
# The key of a node that takes no pod.
_CLOSED = -1


@dataclass(frozen=True, slots=True)
class UsageScorer:
    """A plugin that scores by usage, what its PreScore answered about a class, and its weight."""

    plugin: scorers.UsageScore
    state: object
    weight: int


@dataclass(frozen=True, slots=True)
class PodsOfClass:
    """Pods of one class to place. Shapes: (slot,).

    `demand` is what one takes, above 0 by resource; `opened` marks the nodes that take one, by filter. `static` is what
    plugins add to the totals that no placement changes, one number where that is the same everywhere. `own` is the
    weighted sum of the scores by usage, of the snapshot alone; None: not known. `exclusive`: it takes more than
    resources, so of nodes with pods before it is not known whether they take it. `one_node`: no other node took a pod
    even before these, so none is scored.
    """

    class_id: int
    count: int
    demand: Mapping[str, int]
    opened: arrays.BoolArray
    static: arrays.Int64Array | int
    scorers: Sequence[UsageScorer]
    own: arrays.Int64Array | None
    exclusive: bool
    one_node: bool = False


# A plugin that scores some of several classes, its weight, what it needs of these, and which these are.
_Scored = tuple[scorers.UsageScore, int, object, Sequence[int]]


class StaticTotals:
    """What plugins add to the totals of a class that no placement changes.

    Classes that differ in nothing else than requests share it: where the same nodes hold the highest raw scores, they
    get the very same array.
    """

    def __init__(self, plugins: Sequence[ranking.RankedPlugin], common: int, size: int) -> None:
        """Of so many slots; `common` is what plugins add that score all nodes alike."""
        plugins = [each for each in plugins if not each.own]
        self._normalized = [each for each in plugins if each.normalization in ranking.NORMALIZED]
        total = np.full(size, common, dtype=np.int64)
        for each in plugins:
            if each.normalization not in ranking.NORMALIZED:
                total += placement.apply_weight(each.column.raw[:size], each.weight)
        self._size = size
        self._others: arrays.Int64Array | int = total if plugins else common
        self._known: dict[tuple[int, ...], arrays.Int64Array] = {}

    def of(self, opened: arrays.BoolArray, placements: int) -> arrays.Int64Array | int | None:
        """The totals where these nodes take the class; None: so many placements may lose a highest score.

        Shape: (slot,).
        """
        if not self._normalized:
            return self._others
        maxima = []
        for each in self._normalized:
            raw = each.column.raw[: self._size][opened]
            most = int(raw.max(initial=0))
            if most and np.count_nonzero(raw == most) <= placements:
                return None
            maxima.append(most)
        key = tuple(maxima)
        if key not in self._known:
            total = self._others + np.zeros(self._size, dtype=np.int64)
            for each, most in zip(self._normalized, maxima, strict=True):
                scores = placement.scale_scores(each.column.raw[: self._size], each.normalization, most)
                total += placement.apply_weight(scores, each.weight)
            self._known[key] = total
        return self._known[key]


@dataclass(frozen=True, slots=True)
class ChosenSlot:
    """Where one pod goes, and the total of that node at that moment; 0 where no other took the pod."""

    slot: int
    total: int


class PodsInTurn:
    """Chooses the nodes of pods of these classes, in order."""

    def __init__(
        self,
        wanted: Sequence[PodsOfClass],
        before: node_usage.UsageWithPods,
        ties: arrays.Int64Array,
        timer: plugin_timer.PluginTimer,
    ) -> None:
        """`before` are the pods on their nodes already, to which pods are added that others choose after.

        There is a class at least, and all know of as many slots. Shape: ties (slot,) or longer.
        """
        self._wanted = wanted
        self._before = before
        self._ties = ties
        self._timer = timer
        self._taken = set(before.slots.tolist())
        self._scorers = _scorers_of(wanted)
        self._demands = [each.demand for each in wanted]
        self._open_counts = np.array([np.count_nonzero(each.opened) for each in wanted])
        # Of each node and class the total and, below it, the node's place among equals. Shape: (class, slot).
        self._keys = self._make_keys(wanted[0].opened.shape[0])
        if before.slots.size:
            self._write_keys(before.slots, self._keys_of_slots(before.slots))

    def place(self) -> list[list[ChosenSlot]]:
        """The nodes of the pods, by class.

        It ends where no node takes a pod, before a class to which the pods before leave one node, as nothing is scored
        then, and before an exclusive pod that would go to the node of another.
        """
        rows = [row for row, each in enumerate(self._wanted) for _ in range(each.count)]
        out: list[list[ChosenSlot]] = [[] for _ in self._wanted]
        at, choices = 0, _MOST_CHOICES
        while at < len(rows):
            part = rows[at : at + choices]
            chosen = self._choose(part, begun=bool(out[part[0]]))
            if not chosen:
                break
            # No pod chooses after the last one.
            kept = 1 if at + 1 == len(rows) else self._keep(part, chosen)
            for row, (slot, total) in zip(part, chosen[:kept], strict=False):
                out[row].append(ChosenSlot(slot, total >> placement.TIE_BITS))
            at += kept
            choices = min(2 * choices, _MOST_CHOICES) if kept == len(part) else kept
        return out

    def _choose(self, rows: Sequence[int], *, begun: bool) -> list[tuple[int, int]]:
        """Choose the slots of the next pods, of the classes `rows`, each another one; with its key.

        It ends where there may be one node at most left to choose, but for the first pod if its class has `begun`.
        """
        out: list[tuple[int, int]] = []
        taken = np.zeros(len(rows), dtype=np.intp)
        for number, row in enumerate(rows):
            keys = self._keys[row]
            wanted = self._wanted[row]
            has_choice = not wanted.one_node
            if has_choice and (number or not begun) and self._count_choices(row) - number < 2:
                break
            if number:
                keys = keys.copy()
                keys[taken[:number]] = _CLOSED
            slot = int(keys.argmax())
            key = int(keys[slot])
            if key == _CLOSED or (wanted.exclusive and slot in self._taken):
                break
            taken[number] = slot
            # With one node to choose from nothing is scored.
            out.append((slot, key if self._open_counts[row] > 1 else 0))
        return out

    def _count_choices(self, row: int) -> int:
        """How many nodes surely take a pod of this class."""
        unsure = list(self._taken) if self._wanted[row].exclusive else []
        return int(self._open_counts[row] - np.count_nonzero(self._keys[row, unsure] >= 0))

    def _keep(self, rows: Sequence[int], chosen: Sequence[tuple[int, int]]) -> int:
        """Place the pods of the classes `rows` at the chosen slots, up to the first that has a better one.

        Returns how many that are.
        """
        slots = np.array([slot for slot, _ in chosen], dtype=np.intp)
        self._before.add([(self._wanted[row].class_id, slot) for row, (slot, _) in zip(rows, chosen, strict=False)])
        order = np.argsort(slots)
        keys = np.empty((len(self._wanted), slots.shape[0]), dtype=np.int64)
        keys[:, order] = self._keys_of_slots(slots[order])
        kept = len(chosen)
        if kept > 1:
            # Of each pod the keys of the nodes that pods before it took, with these.
            of_pods = np.tril(keys[rows[:kept]] + 1, -1).max(axis=1) - 1
            better = of_pods > np.array([key for _, key in chosen])
            if better.any():
                kept = int(better.argmax())
                self._before.remove_last(len(chosen) - kept)
                slots, keys = slots[:kept], keys[:, :kept]
        self._write_keys(slots, keys)
        self._taken.update(slots.tolist())
        return kept

    def _write_keys(self, slots: arrays.SlotArray, keys: arrays.Int64Array) -> None:
        """Replace the keys of these nodes, each another one. Shapes: (n,), (class, n)."""
        was_open = self._keys[:, slots] >= 0
        self._open_counts += np.count_nonzero(keys >= 0, axis=1) - np.count_nonzero(was_open, axis=1)
        self._keys[:, slots] = keys

    def _make_keys(self, size: int) -> arrays.Int64Array:
        """The keys of nodes that have what `opened` says; those with pods before are made later. Shape: (class, slot).

        Scores by usage that are known are not computed.
        """
        if all(each.one_node for each in self._wanted):
            return self._keys_of_one_node_each(size)
        keys = np.empty((len(self._wanted), size), dtype=np.int64)
        unknown = [row for row, each in enumerate(self._wanted) if each.own is None]
        all_unknown = len(unknown) == len(self._wanted)
        scored = self._scorers if all_unknown else _scorers_of([self._wanted[row] for row in unknown])
        slots, at_once = arrays.first_slots(size), max(_TOTALS_AT_ONCE // len(self._wanted), 1)
        for begin in range(0, size, at_once):
            part = slots[begin : begin + at_once]
            where = slice(begin, begin + part.shape[0])
            own = self._own_scores(part, scored, len(unknown)) if unknown else None
            if own is None or not all_unknown:
                found, own = own, np.empty((part.shape[0], len(self._wanted)), dtype=np.int64)
                for row, each in enumerate(self._wanted):
                    if each.own is not None:
                        own[:, row] = each.own[where]
                if found is not None:
                    own[:, unknown] = found
            keys[:, where] = self._as_keys(own, where).T
        for row, each in enumerate(self._wanted):
            if self._open_counts[row] < size:
                keys[row, ~each.opened] = _CLOSED
        return keys

    def _keys_of_one_node_each(self, size: int) -> arrays.Int64Array:
        """As `_make_keys`, where one node takes each class and nothing is scored."""
        keys = np.full((len(self._wanted), size), _CLOSED, dtype=np.int64)
        for row, each in enumerate(self._wanted):
            slot = int(each.opened.argmax())
            keys[row, slot] = self._ties[slot]
        return keys

    def _keys_of_slots(self, slots: arrays.SlotArray) -> arrays.Int64Array:
        """The keys of nodes, with all pods so far. Shapes: slots ascending (n,), result (class, n)."""
        fits = self._before.fits(slots, self._demands)
        fits &= np.array([each.opened[slots] for each in self._wanted])
        return np.where(
            fits, self._as_keys(self._own_scores(slots, self._scorers, len(self._wanted)), slots).T, _CLOSED
        )

    def _as_keys(self, own: arrays.Int64Array, where: arrays.SlotArray | slice) -> arrays.Int64Array:
        """Make keys of the scores by usage, which are spent. Shapes: (node, class)."""
        own <<= placement.TIE_BITS
        shared = self._wanted[0].static
        if all(each.static is shared for each in self._wanted):
            own += self._static_keys(shared, where)[:, None]
        else:
            for row, each in enumerate(self._wanted):
                own[:, row] += self._static_keys(each.static, where)
        return own

    def _static_keys(self, static: arrays.Int64Array | int, where: arrays.SlotArray | slice) -> arrays.Int64Array:
        """What no placement changes of the keys of nodes. Shape: (node,)."""
        totals = static if isinstance(static, int) else static[where]
        keys: arrays.Int64Array = (totals << placement.TIE_BITS) + self._ties[where]
        return keys

    def _own_scores(self, slots: arrays.SlotArray, scored: Sequence[_Scored], count: int) -> arrays.Int64Array:
        """The weighted sums of the scores of so many classes by usage, with all pods so far.

        Shapes: slots ascending (n,), result (n, class).
        """
        usage = self._before.at(slots)
        total = np.zeros((slots.shape[0], count), dtype=np.int64, order="F")
        for plugin, weight, pods, rows in scored:
            started = self._timer.now()
            scores = placement.apply_weight(plugin.score_pods(usage, pods), weight)
            if len(rows) == count:
                total += scores
            else:
                total[:, rows] += scores
            self._timer.record_plugin(plugin.name, "Score", started)
        return total


def _scorers_of(wanted: Sequence[PodsOfClass]) -> Sequence[_Scored]:
    """The plugins that score some of these classes."""
    by_plugin: dict[int, tuple[UsageScorer, list[object], list[int]]] = {}
    for row, each in enumerate(wanted):
        for scorer in each.scorers:
            _, states, rows = by_plugin.setdefault(id(scorer.plugin), (scorer, [], []))
            states.append(scorer.state)
            rows.append(row)
    return [
        (scorer.plugin, scorer.weight, scorer.plugin.pods_of_classes(states), rows)
        for scorer, states, rows in by_plugin.values()
    ]
