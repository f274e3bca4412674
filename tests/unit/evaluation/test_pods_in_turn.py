"""Pods of several classes in turn, against one pod after the other on a snapshot that has those before it."""

from dataclasses import dataclass
from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from trireme.evaluation import plugin_timer
from trireme.evaluation.scoring import placement, pods_in_turn, ranking, score_column
from trireme.plugin_api.scorers import Normalization
from trireme.plugins.node_resources_balanced_allocation import args as balanced_args
from trireme.plugins.node_resources_balanced_allocation import score as balanced_score
from trireme.plugins.node_resources_fit import args as fit_args
from trireme.plugins.node_resources_fit import score as fit_score
from trireme.snapshot import arrays, node_usage

WEIGHT = 3


@dataclass(frozen=True, slots=True)
class Wanted:
    """Pods of a class: how many, the CPUs of one, and the nodes that plugins other than NodeResourcesFit leave.

    `static` is by slot, or the same everywhere where it has one number; `known`: the scores by usage are cached.
    """

    count: int
    cpu: int
    left: tuple[bool, ...]
    static: tuple[int, ...]
    known: bool
    exclusive: bool
    scored: bool


@dataclass(frozen=True, slots=True)
class Situation:
    """Nodes by CPUs and pods, pods that are there, pods that were placed before, and those to place."""

    nodes: tuple[tuple[int, int], ...]
    there: tuple[tuple[int, int], ...]
    before: tuple[tuple[int, int], ...]
    wanted: tuple[Wanted, ...]


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    size = draw(st.integers(2, 6))
    nodes = tuple(draw(st.tuples(st.integers(2, 6), st.sampled_from((2, 9, 9)))) for _ in range(size))
    of_slots = st.sampled_from((True, True, True, False))
    several = st.lists(st.sampled_from((0, 0, 1, 50)), min_size=size, max_size=size)
    classes = st.builds(
        Wanted,
        st.integers(1, 4),
        st.integers(1, 2),
        st.lists(of_slots, min_size=size, max_size=size).map(tuple),
        st.one_of(st.just((0,)), st.just((7,)), several.map(tuple)),
        st.booleans(),
        st.sampled_from((False, False, True)),
        st.sampled_from((True, True, False)),
    )
    wanted = tuple(draw(st.lists(classes, min_size=1, max_size=4)))
    pods = st.lists(st.tuples(st.integers(1, len(wanted)), st.integers(0, size - 1)), max_size=2).map(tuple)
    return Situation(nodes, draw(pods), draw(pods), wanted)


class Cluster:
    """The snapshot of a situation: the class of the n-th wanted pods has the number n + 1."""

    def __init__(self, situation: Situation) -> None:
        self._wanted = situation.wanted
        self.builder = SnapshotBuilder()
        for number, (cpu, pods) in enumerate(situation.nodes):
            self.builder.set_node(f"n{number}", allocatable={"cpu": str(cpu), "pods": str(pods)})
        for number, each in enumerate(situation.wanted, start=1):
            self.builder.add_class(number, pod_of(requesting(cpu=str(each.cpu))))
        for number, slot in situation.there:
            self.builder.place(number, f"n{slot}")
        self.slots = np.arange(len(situation.nodes))
        self.ties = placement.tie_order(self.slots)
        self.scorers = (
            fit_score.make_scorer(fit_args.Args()),
            balanced_score.make_scorer(balanced_args.Args()),
        )

    def fits(self, row: int) -> list[bool]:
        """The nodes that take a pod of the class as they are now."""
        nodes, wanted = self.builder.snap.nodes, self._wanted[row]
        number = nodes.resource_names.find("cpu")
        assert number is not None
        nodes.ensure_resource_rows()
        free = nodes.allocatable[number, self.slots] - self.builder.snap.requested(number, self.slots)
        room = nodes.allowed_pods[self.slots] > self.builder.snap.pod_count(self.slots)
        taken = (free >= wanted.cpu * 1000) & room & np.array(wanted.left)
        return [bool(each) for each in taken]

    def own(self, row: int) -> arrays.Int64Array:
        """The weighted scores by usage as they are now."""
        total, pod_class = np.zeros(self.slots.shape[0], dtype=np.int64), self.builder.snap.classes[row + 1]
        for each in self.scorers if self._wanted[row].scored else ():
            state = each.pre_score(pod_class, self.builder.snap)
            total += each.score(pod_class, self.builder.snap, state, self.slots) * WEIGHT
        return total

    def static(self, row: int) -> arrays.Int64Array | int:
        static = self._wanted[row].static
        return static[0] if len(static) == 1 else np.array(static, dtype=np.int64)


def _together(situation: Situation) -> list[list[tuple[int, int]]]:
    cluster = Cluster(situation)
    wanted = []
    for row, each in enumerate(situation.wanted):
        opened = np.array(cluster.fits(row))
        scorers = [
            pods_in_turn.UsageScorer(
                scorer, scorer.pre_score(cluster.builder.snap.classes[row + 1], cluster.builder.snap), WEIGHT
            )
            for scorer in (cluster.scorers if each.scored else ())
        ]
        own = cluster.own(row) if each.known else None
        demand = {"cpu": each.cpu * 1000}
        wanted.append(
            pods_in_turn.PodsOfClass(
                row + 1, each.count, demand, opened, cluster.static(row), scorers, own, each.exclusive,
                one_node=int(opened.sum()) == 1,
            )
        )  # fmt: skip
    before = node_usage.UsageWithPods(cluster.builder.snap, situation.before)
    placed = pods_in_turn.PodsInTurn(wanted, before, cluster.ties, plugin_timer.NO_TIMER).place()
    return [[(choice.slot, choice.total) for choice in each] for each in placed]


def _one_after_the_other(situation: Situation) -> list[list[tuple[int, int]]]:
    cluster = Cluster(situation)
    alone = [sum(cluster.fits(row)) == 1 for row in range(len(situation.wanted))]
    for number, slot in situation.before:
        cluster.builder.place(number, f"n{slot}")
    taken = {slot for _, slot in situation.before}
    out: list[list[tuple[int, int]]] = [[] for _ in situation.wanted]
    for row, each in enumerate(situation.wanted):
        for number in range(each.count):
            fits = cluster.fits(row)
            sure = [slot for slot, fit in enumerate(fits) if fit and not (each.exclusive and slot in taken)]
            if not number and not alone[row] and len(sure) < 2:
                return out
            totals = cluster.own(row) + cluster.static(row)
            best = max(
                (slot for slot, fit in enumerate(fits) if fit),
                key=lambda slot: (int(totals[slot]), int(cluster.ties[slot])),
                default=None,
            )
            if best is None or (each.exclusive and best in taken):
                return out
            out[row].append((best, int(totals[best]) if sum(fits) > 1 else 0))
            cluster.builder.place(row + 1, f"n{best}")
            taken.add(best)
    return out


@settings(max_examples=150)
@given(situations(), st.sampled_from((1, 8, 32_768)), st.sampled_from((1, 2, 32)))
def test_each_pod_takes_the_node_that_is_best_by_then(situation: Situation, at_once: int, choices: int) -> None:
    """Until one has no node, or may have none to choose from, or would share its node with more than resources."""
    with (
        mock.patch.object(pods_in_turn, "_TOTALS_AT_ONCE", at_once),
        mock.patch.object(pods_in_turn, "_MOST_CHOICES", choices),
    ):
        assert _together(situation) == _one_after_the_other(situation)


@st.composite
def ranked(draw: st.DrawFn, size: int) -> ranking.RankedPlugin:
    raw = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    column = score_column.ScoreColumn(True, 0)
    column.write_scores(np.arange(size), np.array(raw), size + 3)
    normalization = draw(st.sampled_from((Normalization.NONE, Normalization.MAX, Normalization.MAX_REVERSED)))
    own = normalization is Normalization.NONE and draw(st.booleans())
    return ranking.RankedPlugin(column, draw(st.integers(1, 3)), normalization, own)


@settings(max_examples=150)
@given(st.data())
def test_static_totals_hold_while_placements_leave_a_node_with_each_highest_score(data: st.DataObject) -> None:
    """What a placement changes on its own node is not in them; by equal maxima classes share the very array."""
    size = data.draw(st.integers(1, 5))
    plugins = data.draw(st.lists(ranked(size), max_size=3))
    common = data.draw(st.integers(0, 5))
    totals = pods_in_turn.StaticTotals(plugins, common, size)
    for _ in range(2):
        opened = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
        placements = data.draw(st.integers(0, 2))
        static = [each for each in plugins if not each.own]
        expected = np.full(size, common)
        lost = False
        for each in static:
            raw = each.column.raw[:size]
            most = int(raw[opened].max(initial=0))
            expected += placement.scale_scores(raw, each.normalization, most) * each.weight
            normalized = each.normalization is not Normalization.NONE
            lost |= normalized and most > 0 and int(np.count_nonzero(raw[opened] == most)) <= placements
        found = totals.of(opened, placements)
        if lost:
            assert found is None
        else:
            assert found is not None
            assert np.broadcast_to(np.array(found), size).tolist() == expected.tolist()
            assert isinstance(found, int) is not bool(static)
            assert totals.of(opened, placements) is found
