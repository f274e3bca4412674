"""Score plugins that are services, called while the cluster changes."""

import asyncio
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.snapshot_views import SnapshotBuilder, pod_of
from trireme.evaluation.scoring import class_scores, score_chain, score_evaluator
from trireme.framework import status
from trireme.plugin_api import interfaces, scorers
from trireme.snapshot import snapshot

CLASS = 1
NODE, NODE_PODS, CLUSTER = interfaces.Dependency
Change = Callable[["Cluster"], None]


class Cluster:
    """Nodes with a label, which is a number, and pods on them."""

    def __init__(self, nodes: int) -> None:
        self.builder = SnapshotBuilder()
        self.builder.add_class(CLASS, pod_of())
        for number in range(nodes):
            self.label(number, number)

    def label(self, number: int, value: int) -> None:
        self.builder.set_node(f"n{number}", labels={"v": str(value)})

    def add_pod(self, number: int) -> None:
        self.builder.place(CLASS, f"n{number}")


class Scorer:
    """Scores a node by its label and, unless it depends on the node alone, by its pods, as they are when it is called.

    One of the `changes` is made while it answers.
    """

    normalization = scorers.Normalization.NONE

    def __init__(self, name: str, cluster: Cluster, depends_on: interfaces.Dependency, changes: list[Change]) -> None:
        self.name = name
        self.depends_on = depends_on
        self.calls: list[list[int]] = []
        self.silent = False
        self._cluster = cluster
        self._changes = changes

    def value(self, slot: int) -> int:
        nodes = self._cluster.builder.snap.nodes
        pods = 0 if self.depends_on is NODE else int(nodes.pod_count[slot])
        return int(nodes.labels.labels_of(slot)["v"]) * 10 + pods

    async def prepare(self, pod_class: object, snap: object, state: Any, slots: Any) -> scorers.PreparedScores:
        self.calls.append(slots.tolist())
        found = {**(state or {}), **{slot: self.value(slot) for slot in slots.tolist()}}
        if self._changes:
            self._changes.pop(0)(self._cluster)
        await asyncio.sleep(0)
        return scorers.PreparedScores(found, silent=self.silent)

    def score(self, pod_class: object, snap: object, state: Any, slots: Any) -> Any:
        return np.array([state[slot] for slot in slots.tolist()], dtype=np.int64)

    async def normalize(self, *_: object) -> Any:
        raise AssertionError("not part of these tests")


class Evaluation:
    """An evaluator over such plugins, which make the changes one at a time."""

    def __init__(self, nodes: int, *dependencies: interfaces.Dependency) -> None:
        self.cluster = Cluster(nodes)
        self.changes: list[Change] = []
        self.plugins = [
            Scorer(f"P{number}", self.cluster, each, self.changes) for number, each in enumerate(dependencies)
        ]
        weights = {plugin.name: 1 for plugin in self.plugins}
        self.evaluator = score_evaluator.ScoreEvaluator(
            self.cluster.builder.snap, {"p": score_chain.ScoreChain(weights, self.plugins)}
        )

    async def evaluate(self) -> dict[str, dict[int, int]]:
        """By plugin the scores of the nodes."""
        snap = self.cluster.builder.snap
        found = await self.evaluator.evaluate("p", snap.classes[CLASS])
        assert isinstance(found, class_scores.ClassScores)
        return {
            name: {slot: int(column.raw[slot]) for slot in snap.nodes.live_slots().tolist()}
            for name, column in found.plugins.items()
        }

    def expected(self) -> dict[str, dict[int, int]]:
        slots = self.cluster.builder.snap.nodes.live_slots().tolist()
        return {plugin.name: {slot: plugin.value(slot) for slot in slots} for plugin in self.plugins}


def _label(number: int, value: int) -> Change:
    return lambda cluster: cluster.label(number, value)


def _add_pod(number: int) -> Change:
    return lambda cluster: cluster.add_pod(number)


_changes = st.one_of(st.builds(_label, st.integers(0, 4), st.integers(0, 9)), st.builds(_add_pod, st.integers(0, 2)))


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from([NODE, NODE_PODS, CLUSTER]), min_size=1, max_size=2),
    st.lists(_changes, max_size=6),
    st.lists(_changes, max_size=4),
    st.integers(1, 2),
)
def test_once_nothing_changes_each_node_has_the_score_that_it_has_now(
    depends_on: list[interfaces.Dependency], during: list[Change], between: list[Change], callers: int
) -> None:
    world = Evaluation(3, *depends_on)

    async def main() -> None:
        world.changes.extend(during)
        await asyncio.gather(*(world.evaluate() for _ in range(callers)))
        for change in between:
            change(world.cluster)
        world.changes.clear()
        assert await world.evaluate() == world.expected()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("depends_on", "change", "calls"),
    [
        pytest.param(NODE, _label(1, 7), [[0, 1, 2], [1]], id="a node"),
        pytest.param(NODE, _add_pod(1), [[0, 1, 2]], id="pods do not matter"),
        pytest.param(NODE_PODS, _add_pod(1), [[0, 1, 2], [1]], id="its pods"),
        pytest.param(CLUSTER, _add_pod(1), [[0, 1, 2], [1]], id="of the cluster what changed"),
        pytest.param(NODE, _label(3, 7), [[0, 1, 2], [3]], id="a node that came"),
        pytest.param(NODE, lambda cluster: cluster.builder.remove_node("n1"), [[0, 1, 2]], id="one that is gone"),
    ],
)
async def test_what_changes_during_a_call_is_scored_by_the_next(
    depends_on: interfaces.Dependency, change: Change, calls: list[list[int]]
) -> None:
    world = Evaluation(3, depends_on)
    world.changes.append(change)
    assert await world.evaluate() == world.expected()
    assert world.plugins[0].calls == calls
    world.plugins[0].calls.clear()
    await world.evaluate()
    everywhere = world.cluster.builder.snap.nodes.live_slots().tolist()
    assert world.plugins[0].calls == ([everywhere] if depends_on is CLUSTER else [])


async def test_calls_end_where_nodes_change_under_each_of_them() -> None:
    """What changed last counts with the score that it had, and is scored next time."""
    world = Evaluation(2, NODE)
    world.changes.extend(_label(0, value) for value in range(5, 5 + score_evaluator.ROUNDS))
    found = await world.evaluate()
    assert len(world.plugins[0].calls) == score_evaluator.ROUNDS
    assert found == {"P0": {0: 10 * (5 + score_evaluator.ROUNDS - 2), 1: 10}}
    assert await world.evaluate() == world.expected()
    assert world.plugins[0].calls[-1] == [0]


async def test_a_plugin_with_nothing_to_say_is_not_called_about_what_changes_meanwhile() -> None:
    world = Evaluation(2, NODE)
    world.plugins[0].silent = True
    world.changes.append(_label(0, 7))
    found = await world.evaluator.evaluate("p", world.cluster.builder.snap.classes[CLASS])
    assert isinstance(found, class_scores.ClassScores)
    assert found.plugins["P0"].silent
    assert world.plugins[0].calls == [[0, 1]]
    world.plugins[0].silent = False
    world.cluster.label(1, 9)
    await world.evaluate()
    assert not found.plugins["P0"].silent


async def test_scores_are_not_stored_for_a_snapshot_that_was_replaced() -> None:
    """Slots would be other nodes."""
    world = Evaluation(2, NODE)

    def replace(cluster: Cluster) -> None:
        cluster.builder.snap.incarnation += 1

    world.changes.append(replace)
    with pytest.raises(snapshot.OutOfStepError):
        await world.evaluate()


async def test_a_class_that_is_dropped_is_scored_again() -> None:
    world = Evaluation(2, NODE)
    await world.evaluate()
    world.evaluator.drop("p", CLASS)
    assert not world.evaluator.knows("p", world.cluster.builder.snap.classes[CLASS])
    await world.evaluate()
    assert world.plugins[0].calls == [[0, 1]] * 2


async def test_a_plugin_that_fails_fails_the_class_until_it_answers() -> None:
    world = Evaluation(2, NODE)
    broken = status.error("P0", "broken")

    async def fail(*_: object) -> scorers.PreparedScores:
        return scorers.PreparedScores(None, failure=broken)

    with mock.patch.object(world.plugins[0], "prepare", fail):
        assert await world.evaluator.evaluate("p", world.cluster.builder.snap.classes[CLASS]) == broken
    assert await world.evaluate() == world.expected()
