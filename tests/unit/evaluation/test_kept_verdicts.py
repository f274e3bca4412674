"""What filter keeps of classes, after random changes, against the obvious way: all plugins, about all nodes, anew."""

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.helpers import at_once
from tests.helpers.obvious_cycles import NOT_FOR_RESIZES, PLAIN, RELATED, Cluster, Kind, Obvious, filters
from trireme.evaluation import plugin_timer
from trireme.evaluation.filtering import class_filter, filter_answers, filter_chain, filter_evaluator
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.v1 import cycle_pb2
from trireme.wire import node_columns


class Whim:
    """A plugin that answers by the number of objects of a kind, and refuses nodes with two pods or more."""

    def __init__(self, name: str, depends_on: interfaces.Dependency, kind: str) -> None:
        self.name = name
        self.depends_on = depends_on
        self.reads = (kind,)

    def pre_filter(self, pod_class: Any, snap: Any, table: Any) -> interfaces.PreFilterResult:
        mood = len(list(snap.objects.all(self.reads[0]))) % 6
        if mood == 1:
            return interfaces.PreFilterResult(skip=True)
        refuse = {2: status.unschedulable, 3: status.unresolvable}.get(mood)
        if refuse is not None:
            return interfaces.PreFilterResult(status=refuse(self.name, "a whim"))
        nodes = frozenset({"n0", "n1", "n2"}) if mood == 4 else None
        return interfaces.PreFilterResult(state=mood, nodes=nodes)

    def filter(self, pod_class: Any, snap: Any, state: int, slots: Any, table: Any) -> interfaces.Verdicts:
        assert slots.size, "it is called about no node"
        refusal = table.intern(status.unschedulable(self.name, "crowded"))
        full = snap.pod_count(slots) > 1 if self.depends_on != interfaces.Dependency.NODE else slots % 5 == state
        capacity = np.full(slots.shape[0], 7, dtype=np.int32) if state == 5 else None
        return interfaces.Verdicts(np.where(full, refusal, 0).astype(np.int16), capacity)


def _plugins(draw: random.Random) -> list[Any]:
    made = filters()
    if draw.random() < 0.4:
        made.insert(0, Whim("First", interfaces.Dependency.NODE_PODS, "service"))
        made.insert(4, Whim("Second", interfaces.Dependency.NODE, "namespace"))
        made.append(Whim("Last", interfaces.Dependency.CLUSTER, "service"))
    return made


class Callers:
    """An evaluator, and callers that have what it answered last about each class brought up to date by patches."""

    def __init__(self, cluster: Cluster, plugins: list[Any]) -> None:
        self.cluster, self.snap, self.plugins = cluster, cluster.snap, plugins
        self.chain = filter_chain.FilterChain(plugins, NOT_FOR_RESIZES)
        self.evaluator = filter_evaluator.FilterEvaluator(self.snap, {"p": self.chain})
        self.answers = filter_answers.FilterAnswers(self.snap, self.chain, always_reserve=False)
        self.whims = any(isinstance(each, Whim) for each in plugins)
        self.known: dict[int, node_columns.NodeColumns] = {}
        #: The classes that were evaluated, without their requests.
        self.families: list[Kind] = []

    def ask(self, number: int) -> None:
        of = self.snap.classes[number]
        kept = at_once.answer(self.evaluator.evaluate("p", of))
        self.families.append(replace(self.cluster.kinds[number - 1], requests={}))
        expected = Obvious(self.snap, self.plugins, of)
        assert kept.refusal == expected.refusal
        assert list(kept.narrowed_by) == expected.narrowing
        if kept.refusal is not None:
            return
        assert kept.narrowed == expected.narrowed
        known = self.known.setdefault(number, node_columns.NodeColumns())
        known.update(self.answers.columns_of_class(kept, known.generation))
        size = self.snap.nodes.size
        assert np.flatnonzero(known.feasible).tolist() == sorted(expected.passing)
        said = {
            slot: (known.statuses[index - 1] if index else None, capacity)
            for slot, (index, capacity) in enumerate(zip(known.index.tolist(), known.capacity.tolist(), strict=True))
        }
        assert said == {slot: expected.nodes.get(slot, (None, 0)) for slot in range(size)}
        for constraint, again in zip(
            self.evaluator.constraints("p", of, kept), self._constraints(expected), strict=True
        ):
            assert constraint.count.tolist() == again.count.tolist()
            assert constraint.domain.tolist() == again.domain.tolist()

    def _constraints(self, expected: Obvious) -> Iterable[Any]:
        for plugin in expected.plugins:
            if isinstance(plugin, interfaces.DomainFilter):
                yield from plugin.constraints(expected.of, self.snap, expected.answers[plugin.name].state)

    def ask_new(self) -> None:
        """A class that comes for the first time is admitted where all plugins admit it, whatever its family has."""
        number = self.cluster.add_class()
        of, family = self.snap.classes[number], replace(self.cluster.kinds[-1], requests={})
        found: class_filter.NewClass | None = at_once.answer(
            self.evaluator.evaluate_new("p", of, plugin_timer.NO_TIMER)
        )
        expected = Obvious(self.snap, self.plugins, of)
        if found is not None:
            assert np.flatnonzero(found.passing).tolist() == sorted(expected.passing)
            assert found.passing.shape[0] == self.snap.nodes.size
            assert found.verdicts.generation == self.snap.generation
        elif expected.passing and not self.cluster.nominates and not self.whims and not of.resize_deferred:
            assert expected.narrowed is None, "it names its nodes"
            assert family not in self.families, "another class of its family is known"
        self.families.append(family)

    def ask_nominated(self, uid: str) -> None:
        nominee = self.snap.nominations[uid]
        of = self.snap.classes[nominee.pod_class]
        cycle = cycle_pb2.Cycle(profile="p", pod_class=of.id)
        cycle.pod.metadata.uid = uid
        expected = Obvious(self.snap, self.plugins, of, uid)
        admitted = at_once.answer(self.evaluator.admit_nominated(cycle, of, plugin_timer.NO_TIMER))
        passes = nominee.slot in expected.passing
        assert (None if admitted is None else admitted[1]) == (nominee.slot if passes else None)
        if expected.refusal is None:
            kept = at_once.answer(self.evaluator.evaluate("p", of))
            own = self.evaluator.own_nomination_verdict(cycle, kept)
            left_in = expected.narrowed is None or self.snap.nodes.names[nominee.slot] in expected.narrowed
            assert (own is not None) == left_in
            if own is not None:
                assert own.passes == passes


@pytest.mark.parametrize("seed", range(20))
def test_verdicts_that_are_kept_are_those_of_all_plugins_now(seed: int) -> None:
    draw = random.Random(seed)
    cluster = Cluster(draw, (*PLAIN, *RELATED))
    callers = Callers(cluster, _plugins(draw))
    for _ in range(80):
        for _ in range(draw.choice([0, 1, 1, 2, 4])):
            cluster.change()
        for _ in range(draw.choice([0, 0, 1, 2])):
            callers.ask_new()
        for uid in list(cluster.nominated):
            if draw.random() < 0.3:
                callers.ask_nominated(uid)
        recent = list(cluster.snap.classes)[-8:]
        for number in draw.sample(recent, draw.choice([0, 1, 3])):
            callers.ask(number)
