"""ClusterHistory: when it makes another copy, and which names it remembers."""

import asyncio
from typing import Any

import pytest

from trireme.evaluation import filter_engine, score_engine
from trireme.insight import observed_cluster
from trireme.insight.history import cluster_history
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, meta_pb2, snapshot_pb2


def _node(name: str) -> core_pb2.Node:
    return core_pb2.Node(metadata=meta_pb2.ObjectMeta(name=name))


class History:
    """The history of a cluster that begins with one node; deltas reach both, as in insight."""

    def __init__(self) -> None:
        self.cluster = observed_cluster.ObservedCluster(snapshot.Snapshot())
        self.clusters = cluster_history.ClusterHistory(self.cluster)
        self.change_plugins()
        self.begin_era("n0")

    def change_plugins(self) -> None:
        profiles = filter_engine.FilterProfiles(), score_engine.ScoreProfiles()
        self.clusters.use(cluster_history.Plugins(*profiles, remote_filters={}, remote_scores={}))

    def begin_era(self, node: str) -> None:
        entry = snapshot_pb2.NodeEntry(slot=0, node=_node(node))
        classes = [snapshot_pb2.PodClass(id=1, pod=core_pb2.Pod())]
        self._take(snapshot_pb2.Delta(reset=True, to_generation=1, nodes=[entry], classes=classes))

    def place(self, *names: str, first_row: int = 0) -> None:
        count = len(names)
        pods = snapshot_pb2.PodColumns(
            row=range(first_row, first_row + count),
            pod_class=[1] * count,
            slot=[0] * count,
            uid=[f"uid-{row}" for row in range(count)],
            name=names,
            start_time_s=[0] * count,
            flags=[0] * count,
        )
        self._take(self._next(pods=pods))

    def remove(self, count: int) -> None:
        self._take(self._next(removed_pods=range(count)))

    def change_nothing(self) -> None:
        self._take(self._next())

    def add_node(self, name: str) -> None:
        entry = snapshot_pb2.NodeEntry(slot=len(self.cluster.snap.nodes.slot_of_name), node=_node(name))
        self._take(self._next(nodes=[entry]))

    def _next(self, **fields: Any) -> snapshot_pb2.Delta:
        generation = self.cluster.generation
        return snapshot_pb2.Delta(from_generation=generation, to_generation=generation + 1, **fields)

    def _take(self, delta: snapshot_pb2.Delta) -> None:
        self.cluster.apply(delta)
        self.clusters.record(delta)


def test_a_copy_has_at_most_500_deltas() -> None:
    history = History()
    for _ in range(499):
        history.change_nothing()
    assert history.clusters.span_count == 1
    history.change_nothing()
    assert history.clusters.span_count == 2


@pytest.mark.parametrize(("mib", "copies"), [(1, 1), (2, 2)])
def test_deltas_of_4_mib_make_another_copy(mib: int, copies: int) -> None:
    history = History()
    for row, letter in enumerate("ab"):
        history.place(letter * (mib << 20), first_row=row)
    assert history.clusters.span_count == copies


@pytest.mark.parametrize(("count", "copies"), [(4_999, 1), (5_000, 2)])
def test_10_000_pods_that_come_and_go_make_another_copy(count: int, copies: int) -> None:
    history = History()
    history.place(*map(str, range(count)))
    assert history.clusters.span_count == 1
    history.remove(count)
    assert history.clusters.span_count == copies


@pytest.mark.parametrize(("count", "copies"), [(11_999, 2), (12_000, 3)])
@pytest.mark.slow
def test_in_a_large_cluster_a_fifth_of_its_pods_makes_another_copy(count: int, copies: int) -> None:
    """Copying a large cluster takes longer."""
    history = History()
    history.place(*map(str, range(72_000)))
    assert history.clusters.span_count == 2
    history.remove(count)
    assert history.clusters.span_count == copies


def test_names_are_those_of_copies_and_deltas_of_all_eras() -> None:
    """Names of nodes and pods that are gone are hidden as those of present ones are."""
    history = History()
    history.place("first")
    history.add_node("n1")
    history.remove(1)
    history.begin_era("other")
    history.place("second")
    assert history.clusters.names() == (frozenset({"n0", "n1", "other"}), frozenset({"first", "second"}))


def test_names_that_came_with_another_configuration_are_remembered() -> None:
    """The first delta under a configuration belongs to no copy: the next copy has it already."""
    history = History()
    history.change_plugins()
    history.place("brief")
    history.remove(1)
    assert history.clusters.names() == (frozenset({"n0"}), frozenset({"brief"}))


async def test_other_calls_are_answered_during_a_long_replay() -> None:
    history = History()
    for _ in range(150):
        history.change_nothing()
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(take_turns())
    past = await history.clusters.replay_cluster_to(1, history.cluster.generation)
    other.cancel()
    assert past is not None
    assert turns >= 3
