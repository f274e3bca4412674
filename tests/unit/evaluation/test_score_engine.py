"""ScoreEngine with plugins whose scores come from elsewhere: totals, and what silence and failures become."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.helpers import phase_calls
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of
from trireme.evaluation import request_errors, score_engine
from trireme.evaluation.scoring import classes_in_turn, score_chain
from trireme.framework import domain_rules, status
from trireme.plugin_api import interfaces, scorers
from trireme.wire import node_columns

CLASS = 1
BROKEN = status.error("Far", "broken")


class Scorer:
    """A service that scores the nodes with these numbers, and normalises by itself: 100 less the score."""

    def __init__(
        self, name: str, *raw: int, normalization: scorers.Normalization = scorers.Normalization.CUSTOM
    ) -> None:
        self.name = name
        self.depends_on = interfaces.Dependency.NODE
        self.normalization = normalization
        self.raw = np.array(raw, dtype=np.int64)
        self.silent = False
        self.failure: status.Status | None = None
        self.broken: status.Status | None = None
        self.normalized = 0

    async def prepare(self, *_: object) -> scorers.PreparedScores:
        return scorers.PreparedScores(None, silent=self.silent, failure=self.failure)

    def score(self, pod_class: object, snap: object, state: object, slots: Any) -> Any:
        return self.raw[slots]

    async def normalize(self, pod_class: object, snap: object, state: object, slots: Any, raw: Any) -> Any:
        self.normalized += 1
        return self.broken or 100 - raw


class Scored:
    """Three nodes, and the engine with these plugins, each of twice the weight of the one before."""

    def __init__(self, *plugins: Scorer) -> None:
        self.builder = SnapshotBuilder()
        for number in range(3):
            self.builder.set_node(f"n{number}")
        self.builder.add_class(CLASS, pod_of())
        chain = score_chain.ScoreChain({each.name: 2**at for at, each in enumerate(plugins)}, plugins)
        profiles = score_engine.ScoreProfiles({phase_calls.PROFILE: chain})
        self.engine = score_engine.ScoreEngine(self.builder.snap, profiles)
        self.chain = chain

    async def place(self, *capacity: int, count: int = 1, **fields: Any) -> Any:
        """The answer where filter left so much room on each node; −1: it refuses the pod."""
        index = np.array([int(each < 0) for each in capacity], dtype=np.int16)
        columns = node_columns.NodeColumns(
            self.builder.snap.generation,
            0,
            len(capacity),
            None,
            (status.unschedulable("P", "no"),),
            index,
            np.array([max(each, 0) for each in capacity], dtype=np.int32),
        )
        return await self.engine.place(phase_calls.cycle(self.builder, CLASS), count, columns, **fields)

    async def totals(self) -> dict[int, int] | None:
        found = await self.engine.totals(phase_calls.cycle(self.builder, CLASS))
        return None if found is None else dict(zip(*(each.tolist() for each in found), strict=True))


async def test_totals_are_those_of_the_nodes_that_filter_left() -> None:
    scored = Scored(Scorer("A", 5, 70, 9), Scorer("B", 1, 2, 3, normalization=scorers.Normalization.NONE))
    assert await scored.totals() is None
    await scored.place(1, -1, 1)
    assert await scored.totals() == {0: 95 + 2 * 1, 2: 91 + 2 * 3}
    await scored.place(-1, -1, 1)
    # One node is chosen whatever its total.
    assert await scored.totals() is None


@pytest.mark.parametrize("how", ["at PreScore", "at NormalizeScore"])
async def test_there_are_no_totals_where_a_plugin_fails(how: str) -> None:
    failing = Scorer("Far", 5, 70, 9)
    scored = Scored(failing)
    await scored.place(1, 1, 1)
    if how == "at PreScore":
        failing.failure = BROKEN
        scored.builder.set_node("n0", labels={"changed": "yes"})
    else:
        failing.broken = BROKEN
    assert await scored.totals() is None


async def test_a_silent_plugin_adds_nothing_and_is_not_asked_to_normalise() -> None:
    silent, other = Scorer("A", 90, 90, 0), Scorer("B", 1, 0, 2, normalization=scorers.Normalization.NONE)
    silent.silent = True
    scored = Scored(silent, other)
    placed = await scored.place(1, 1, 1)
    assert (list(placed.slots), list(placed.totals), silent.normalized) == ([2], [2 * 2], 0)
    assert list(placed.evaluated) == ["B"]
    assert await scored.totals() == {0: 2, 1: 0, 2: 4}
    assert silent.normalized == 0


async def test_pods_are_placed_one_by_one_by_scores_that_a_plugin_normalises() -> None:
    scored = Scored(Scorer("A", 5, 70, 9))
    placed = await scored.place(9, 9, 9, count=3)
    assert (list(placed.slots), list(placed.totals), placed.more) == ([0], [95], True)
    assert (await scored.place(9, 9, 9)).more is False


async def test_a_batch_that_fills_the_node_with_the_highest_score_goes_on_by_the_next_highest() -> None:
    """With n0 full, 10 of 10 on n1 counts 100, more than all that n2 has."""
    of_highest, plain = scorers.Normalization.MAX, scorers.Normalization.NONE
    plugins = Scorer("A", 100, 10, 0, normalization=of_highest), Scorer("B", 0, 0, 20, normalization=plain)
    placed = await Scored(*plugins).place(1, 9, 9, count=2)
    assert (list(placed.slots), list(placed.totals)) == ([0, 1], [100, 100])


async def test_pods_go_to_the_only_node_without_scores() -> None:
    """One at a time where a constraint may close it."""
    scored = Scored(Scorer("A", 5, 70, 9))
    placed = await scored.place(-1, 2, -1, count=3)
    assert (list(placed.slots), list(placed.totals), placed.more) == ([1, 1], [0, 0], False)
    assert list((await scored.place(-1, -1, -1, count=3)).slots) == []
    absence = domain_rules.DomainConstraint(
        BROKEN, np.zeros(3, dtype=np.int32), np.zeros(1, dtype=np.int64), 1, domain_rules.AbsenceRule()
    )
    for count, more in ((3, True), (1, False)):
        placed = await scored.place(-1, 2, -1, count=count, constraints=[absence])
        assert (list(placed.slots), placed.more) == ([1], more)


@pytest.mark.parametrize("broken", [False, True])
async def test_a_plugin_that_fails_fails_the_pods(broken: bool) -> None:
    failing = Scorer("Far", 5, 70, 9)
    failing.broken, failing.failure = (BROKEN, None) if broken else (None, BROKEN)
    placed = await Scored(failing).place(1, 1, 1)
    assert (placed.failure, list(placed.slots)) == (BROKEN, [])


async def test_raw_scores_are_named_by_plugin_and_normalised_as_each_does() -> None:
    silent, far = Scorer("A", 1, 1, 1), Scorer("B", 5, 70, 9)
    silent.silent = True
    scored = Scored(silent, far)
    cycle, slots = phase_calls.cycle(scored.builder, CLASS), np.array([2, 0])
    raw = await scored.engine.raw_scores(cycle, slots)
    assert not isinstance(raw, status.Status)
    assert [(each.plugin, each.weight) for each in raw] == [("A", 1), ("B", 2)]
    assert raw[0].scores is None
    assert raw[1].scores is not None
    assert raw[1].scores.tolist() == [9, 5]
    normalized = await scored.engine.normalized_scores(cycle, slots, raw)
    assert not isinstance(normalized, status.Status)
    assert normalized[0].scores is None
    assert normalized[1].scores is not None
    assert normalized[1].scores.tolist() == [91, 95]
    far.broken = BROKEN
    assert await scored.engine.normalized_scores(cycle, slots, raw) == BROKEN


async def test_there_are_no_scores_where_a_plugin_fails() -> None:
    failing = Scorer("Far", 5, 70, 9)
    scored = Scored(failing)
    cycle, slots = phase_calls.cycle(scored.builder, CLASS), np.array([0])
    raw = await scored.engine.raw_scores(cycle, slots)
    assert not isinstance(raw, status.Status)
    failing.failure = BROKEN
    scored.builder.set_node("n0", labels={"changed": "yes"})
    assert await scored.engine.raw_scores(cycle, slots) == BROKEN
    assert await scored.engine.normalized_scores(cycle, slots, raw) == BROKEN
    assert await scored.engine.prepare(cycle) == BROKEN
    failing.failure = None
    assert await scored.engine.prepare(cycle) is None


async def test_scores_of_nodes_that_are_not_there_are_refused() -> None:
    scored = Scored(Scorer("Far", 5, 70, 9))
    cycle = phase_calls.cycle(scored.builder, CLASS)
    raw = await scored.engine.raw_scores(cycle, np.array([0, 2]))
    assert not isinstance(raw, status.Status)
    scored.builder.remove_node("n1")
    for slots in (np.array([1]), np.array([0, 3]), np.array([0, 9])):
        for call in (scored.engine.raw_scores(cycle, slots), scored.engine.normalized_scores(cycle, slots, raw)):
            with pytest.raises(request_errors.InvalidRequestError, match=r"nodes\.slots: there is no node"):
                await call
    with pytest.raises(request_errors.InvalidRequestError, match=r"columns\.scores: Far has 2 for 1 nodes"):
        await scored.engine.normalized_scores(cycle, np.array([0]), raw)
    unknown = score_engine.PluginScores("Unknown", 1, np.array([1]))
    found = await scored.engine.normalized_scores(cycle, np.array([0]), [unknown])
    assert isinstance(found, status.Status)
    assert found.messages == (f"no score plugin Unknown in profile {phase_calls.PROFILE}",)


async def test_classes_are_placed_together_up_to_one_that_is_unknown() -> None:
    """Or not at all where a service scores, or a share of the nodes is scored."""
    wanted = [
        classes_in_turn.PodsToPlace(number, 1, {"cpu": 100}, np.array([True, False, False]))
        for number in (CLASS, 99, CLASS)
    ]
    for plugins, percentage, expected in (((), 0, [CLASS]), ((Scorer("A", 5, 70, 9),), 0, []), ((), 50, [])):
        scored = Scored(*plugins)
        scored.chain.percentage = percentage
        timer: Any = SimpleNamespace()
        collecting = classes_in_turn.ClassesInTurn(
            scored.builder.snap, scored.engine.evaluator, phase_calls.PROFILE, scored.chain, timer, before=0
        )
        assert [each.wanted.class_id for each in await collecting.collect(wanted)] == expected


async def test_nodes_that_filter_does_not_know_yet_take_no_pod_of_a_class_in_turn() -> None:
    """This replica may be ahead."""
    scored = Scored()
    cycle = phase_calls.cycle(scored.builder, CLASS)
    wanted = classes_in_turn.PodsToPlace(CLASS, 2, {"cpu": 100}, np.array([False, True]))
    (placed,) = await scored.engine.place_classes(cycle, [wanted])
    assert (list(placed.slots), list(placed.totals)) == ([1, 1], [0, 0])


async def test_extra_scores_count_beside_those_of_plugins() -> None:
    """There may be more of them than nodes here, or fewer."""
    none = scorers.Normalization.NONE
    for extra, slot, total in (((0, 60), 1, 62), ((0, 0, 60, 90), 2, 63), ((), 2, 3), ((5,), 0, 6)):
        placed = await Scored(Scorer("A", 1, 2, 3, normalization=none)).place(1, 1, 1, extra_scores=extra)
        assert (list(placed.slots), list(placed.totals)) == ([slot], [total])
