"""Where batches of pods go, after random changes, against the obvious way: each by itself, all nodes scored anew."""

import random
from collections.abc import Mapping, Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest

from tests.helpers import at_once, phase_calls
from tests.helpers.obvious_cycles import (
    NOT_FOR_RESIZES,
    PLAIN,
    RATHER,
    RELATED,
    Cluster,
    Obvious,
    filters,
    obvious_choice,
)
from tests.helpers.snapshot_views import Json
from trireme.evaluation import engine, filter_engine, score_engine
from trireme.evaluation.filtering import filter_chain
from trireme.evaluation.scoring import classes_in_turn, score_chain
from trireme.registry import default_profile, score_plugins
from trireme.snapshot import snapshot
from trireme.v1 import filter_phase_pb2
from trireme.wire import domain_constraints, packing

Placed = list[tuple[int, int]]


class Scheduler:
    """Filter and score of one profile on a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.snap = cluster, cluster.snap
        self.filters = filters()
        made = [score_plugins.make_score_plugin(name, b"{}", {}) for name in default_profile.WEIGHTS]
        self.scorers: dict[Any, int] = {each: default_profile.WEIGHTS[each.name] for each in made if each is not None}
        chain = filter_chain.FilterChain(self.filters, NOT_FOR_RESIZES)
        weights = {each.name: weight for each, weight in self.scorers.items()}
        self.engine = engine.Engine(
            cluster.snap,
            filter_engine.FilterProfiles({phase_calls.PROFILE: chain}),
            score_engine.ScoreProfiles({phase_calls.PROFILE: score_chain.ScoreChain(weights, list(self.scorers))}),
        )

    def place(self, number: int, count: int, extra: Sequence[int] = ()) -> Placed:
        """Pods of one class, by what filter answers, whole or as a patch to what it answered before."""
        cycle = phase_calls.cycle(self.cluster.builder, number)
        known = self.engine.score.columns_of(cycle).capacity_generation
        answer = at_once.answer(self.engine.filter.filter(cycle, count, max(known, 0)))
        if answer.refusal is not None:
            return []
        constraints = domain_constraints.from_messages(answer.constraints)
        count = min(count, answer.max_batch or count)
        placed = at_once.answer(self.engine.score.place(cycle, count, answer.columns, constraints, extra))
        assert placed.failure is None
        return list(zip(placed.slots, placed.totals, strict=True))

    def place_in_turn(self, wanted: Sequence[tuple[int, int]]) -> list[Placed]:
        """Pods of several classes (number, count) by one call of each."""
        cycle = phase_calls.cycle(self.cluster.builder, wanted[0][0])
        classes = [filter_phase_pb2.ClassToFilter(pod_class=number, count=count) for number, count in wanted]
        filtered = at_once.answer(self.engine.filter.filter_classes(cycle, classes))
        to_place = [
            classes_in_turn.PodsToPlace(number, count, each.demand or {}, packing.from_bits(each.admitted_nodes))
            for (number, count), each in zip(wanted, filtered, strict=False)
        ]
        if not to_place:
            return []
        answers = at_once.answer(self.engine.score.place_classes(cycle, to_place))
        return [list(zip(each.slots, each.totals, strict=True)) for each in answers]

    def check(self, number: int, found: Placed, before: Placed, extra: Mapping[int, int] | None = None) -> Placed:
        """Each of these pods went where it goes by itself; returns them beside those before (class, slot)."""
        for slot, total in found:
            assert self.obvious(number, before, extra or {}) == (slot, total)
            before = [*before, (number, slot)]
        return before

    def obvious(self, number: int, before: Placed, extra: Mapping[int, int]) -> tuple[int, int] | None:
        """Where a pod of the class goes beside those before it."""
        with_those = self._with(before)
        of = with_those.classes[number]
        verdicts = Obvious(with_those, self.filters, of)
        return obvious_choice(with_those, verdicts.passing, of, self.scorers, extra)

    def _with(self, before: Placed) -> snapshot.Snapshot:
        numbers, slots = (np.array(each, dtype=np.int32) for each in zip(*before, strict=True)) if before else _NOBODY
        return self.snap.fork(np.zeros(0, dtype=np.intp), numbers, slots)


_NOBODY = (np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32))


@pytest.mark.parametrize("stated", [PLAIN, (*PLAIN, *RATHER), (*PLAIN, *RELATED, *RATHER)])
@pytest.mark.parametrize("seed", range(6))
def test_pods_of_a_batch_go_where_each_goes_by_itself(seed: int, stated: Sequence[Json]) -> None:
    """Those of one class, or of several in turn; what score keeps of a class is brought up to date or begun anew."""
    draw = random.Random(seed)
    cluster = Cluster(draw, stated, 0.1)
    scheduler = Scheduler(cluster)
    for _ in range(80):
        for _ in range(draw.choice([0, 1, 2, 4])):
            cluster.change()
        for _ in range(draw.choice([0, 0, 1])):
            cluster.add_class()
        recent = list(cluster.snap.classes)[-8:]
        before: Placed = []
        if draw.random() < 0.4:
            number, count = draw.choice(recent), draw.choice([1, 2, 5])
            extra = [draw.choice([0, 0, 50]) for _ in cluster.nodes] if draw.random() < 0.2 else []
            found = scheduler.place(number, count, extra)
            before = scheduler.check(number, found, before, dict(enumerate(extra)))
            if not found:
                assert scheduler.obvious(number, before, {}) is None
        else:
            wanted = [(number, draw.choice([1, 1, 2, 4])) for number in draw.sample(recent, 4)]
            with mock.patch.object(classes_in_turn, "FEW_NODES", draw.choice([0, 8192])):
                while wanted and not before:
                    placed = scheduler.place_in_turn(wanted)
                    for (number, _), found in zip(wanted, placed, strict=False):
                        before = scheduler.check(number, found, before)
                    del wanted[0]
        for number, slot in before:
            name = cluster.snap.nodes.names[slot]
            cluster.rows.update(dict.fromkeys(cluster.builder.place(number, name), name))
