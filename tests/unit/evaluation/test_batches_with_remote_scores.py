"""Batches beside a service that scores by the pods of a node end as one-by-one cycles, with few calls of it."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.helpers import domain_cluster
from trireme.framework import status
from trireme.plugin_api import interfaces, scorers
from trireme.remote import filter_state
from trireme.snapshot import arrays, classes, snapshot, snapshot_view

Json = dict[str, Any]

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
LIMITED = "red"

# What a node with so many pods scores; the slot makes nodes differ.
SCORES: dict[str, Callable[[int, int], int]] = {
    "falling": lambda pods, slot: max(100 - 13 * pods - slot % 3, 0),
    "rising": lambda pods, slot: min(40 + 9 * pods + slot % 2, 100),
    "neither": lambda pods, slot: (pods * 37 + slot * 11) % 101,
    "alike": lambda pods, slot: 50,
}


class ByPods:
    """Filters and scores by the pods of a node: a limit of those with a label, and a score by how many there are."""

    name = "ByPods"
    depends_on = interfaces.Dependency.NODE_PODS

    def __init__(self, shape: str, limit: int, normalization: scorers.Normalization, *, copies: bool = True) -> None:
        self.normalization = normalization
        self.scores_copies = copies
        self._score_of = SCORES[shape]
        self._limit = limit
        self.score_calls = self.copy_calls = 0
        #: Called while the plugin scores copies; it answers nothing if that is False.
        self.while_copies: Callable[[], bool] = lambda: True

    def _pods(self, snap: snapshot.Snapshot, slot: int, app: str = "") -> int:
        table = snap.pods
        rows = np.flatnonzero(table.slot[: table.size] == slot).tolist()
        labels = [snap.classes[int(table.pod_class[row])].pod.metadata.labels for row in rows]
        return sum(1 for each in labels if app in ("", each.get("app")))

    # Filter

    async def pre_filter(self, pod_class: classes.PodClass, snap: snapshot.Snapshot) -> interfaces.PreFilterResult:
        return interfaces.PreFilterResult(state=filter_state.RemoteFilterState(b""))

    async def prepare(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: Any, *of: Any
    ) -> Any:
        if of:
            return self._prepare_filter(pod_class, snap, state, slots, of[0])
        self.score_calls += 1
        raw = {**(state or {}), **{slot: self._score_of(self._pods(snap, slot), slot) for slot in slots.tolist()}}
        return scorers.PreparedScores(raw)

    def _prepare_filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: Any,
        slots: Any,
        table: interfaces.StatusTable,
    ) -> None:
        index = np.zeros(slots.shape[0], dtype=np.int16)
        capacity = np.full(slots.shape[0], interfaces.UNLIMITED, dtype=np.int32)
        if pod_class.pod.metadata.labels.get("app") == LIMITED:
            left = np.array([self._limit - self._pods(snap, slot, LIMITED) for slot in slots.tolist()], dtype=np.int32)
            index[left <= 0] = table.intern(status.unschedulable(self.name, "too many"))
            capacity = np.maximum(left, 0)
        state.write(slots, interfaces.Verdicts(index, capacity))

    def filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        state: Any,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        verdicts: interfaces.Verdicts = state.read(slots, table)
        return verdicts

    async def dry_runs(self, *_: Any) -> interfaces.Verdicts:
        raise AssertionError("nothing preempts")

    # Score

    def score(self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: Any) -> arrays.Int64Array:
        return np.array([state[slot] for slot in slots.tolist()], dtype=np.int64)

    async def prepare_copies(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray, copies: int
    ) -> arrays.Int64Array | None:
        self.copy_calls += 1
        rows = [
            [self._score_of(self._pods(snap, s) + more, s) for more in range(1, copies + 1)] for s in slots.tolist()
        ]
        return np.array(rows, dtype=np.int64) if self.while_copies() else None

    async def normalize(self, *_: Any) -> arrays.Int64Array:
        raise AssertionError("the host normalises")


@st.composite
def situations(draw: st.DrawFn) -> Json:
    """Nodes of different sizes in zones, pods that are there, pods to place, and what the plugin does."""
    nodes = [
        domain_cluster.node(
            f"n{number}",
            {HOST: f"n{number}", ZONE: draw(st.sampled_from(("a", "b")))},
            cpu=draw(st.sampled_from((1, 2, 8))),
            pods=draw(st.sampled_from((2, 4, 30))),
        )
        for number in range(draw(st.integers(2, 9)))
    ]
    wishes: list[Json] = [
        {},
        {"topologySpreadConstraints": [domain_cluster.spread(ZONE, True, {"app": "red"})]},
        {"topologySpreadConstraints": [domain_cluster.spread(HOST, False, {"app": "blue"})]},
        {"affinity": domain_cluster.affinity((), [domain_cluster.term(HOST, {"app": "blue"})])},
    ]
    pods = [
        domain_cluster.pod({"app": draw(st.sampled_from(("red", "blue")))}, **draw(st.sampled_from(wishes)))
        for _ in range(2)
    ]
    return {
        "nodes": nodes,
        "there": draw(st.lists(st.tuples(st.sampled_from(pods), st.integers(0, len(nodes) - 1)), max_size=5)),
        "rounds": draw(st.lists(st.tuples(st.sampled_from(pods), st.integers(1, 14)), min_size=1, max_size=4)),
        "plugin": (
            draw(st.sampled_from(sorted(SCORES))),
            draw(st.integers(1, 5)),
            draw(st.sampled_from([scorers.Normalization(number) for number in (1, 2, 3)])),
        ),
    }


def _cluster(situation: Json, plugin: ByPods) -> domain_cluster.Cluster:
    cluster = domain_cluster.Cluster(remote=plugin)
    for node in situation["nodes"]:
        cluster.add_node(node)
    for pod, number in situation["there"]:
        cluster.place(pod, f"n{number}")
    return cluster


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(situations(), st.booleans())
def test_batches_equal_single_cycles_beside_a_service_that_scores_by_pods(situation: Json, by_patches: bool) -> None:
    """A score that a placement changed would be used as it was, and pods pile up, or go past a limit."""
    alone = _cluster(situation, ByPods(*situation["plugin"], copies=False))
    one_by_one = [alone.schedule(pod, count, 1) for pod, count in situation["rounds"]]
    alone.close()
    batched = _cluster(situation, ByPods(*situation["plugin"]))
    schedule = batched.schedule_by_patches if by_patches else lambda pod, count: batched.schedule(pod, count, count)
    together = [schedule(pod, count) for pod, count in situation["rounds"]]
    batched.close()
    note(f"one by one: {one_by_one}")
    assert [Counter(hosts) for hosts in together] == [Counter(hosts) for hosts in one_by_one]
    assert together == one_by_one


def _large(plugin: ByPods) -> domain_cluster.Cluster:
    nodes = [domain_cluster.node(f"n{number}", {HOST: f"n{number}"}, cpu=50) for number in range(60)]
    return _cluster({"nodes": nodes, "there": []}, plugin)


@pytest.mark.parametrize("normalization", [scorers.Normalization.NONE, scorers.Normalization.MAX])
@pytest.mark.parametrize(("shape", "calls"), [("falling", 1), ("alike", 2), ("rising", 5)])
def test_a_batch_costs_few_calls(shape: str, calls: int, normalization: scorers.Normalization) -> None:
    """If each pod cost a call, batches would be no faster than single pods; the first batch learns what to ask for."""
    plugin = ByPods(shape, 99, normalization)
    cluster = _large(plugin)
    pod = domain_cluster.pod({"app": "blue"})
    cluster.schedule(pod, 32, 32)
    assert cluster.most_at_once == 32
    assert plugin.copy_calls <= calls
    plugin.copy_calls = plugin.score_calls = 0
    cluster.schedule(pod, 32, 32)
    assert (plugin.copy_calls, plugin.score_calls) == (1, 1)
    cluster.close()


@pytest.mark.parametrize("normalization", [scorers.Normalization.NONE, scorers.Normalization.MAX])
def test_a_service_with_nothing_to_say_of_a_class_is_not_called_for_copies(
    normalization: scorers.Normalization, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = ByPods("falling", 99, normalization)
    cluster, without = _large(plugin), domain_cluster.Cluster()
    for number in range(60):
        without.add_node(domain_cluster.node(f"n{number}", {HOST: f"n{number}"}, cpu=50))
    prepare = plugin.prepare

    async def silent(*request: Any) -> Any:
        return await prepare(*request) if len(request) > 4 else scorers.PreparedScores(None, silent=True)

    monkeypatch.setattr(plugin, "prepare", silent)
    pod = domain_cluster.pod({"app": "blue"})
    assert cluster.schedule(pod, 20, 20) == without.schedule(pod, 20, 20)
    assert (cluster.most_at_once, plugin.copy_calls) == (20, 0)
    cluster.close()
    without.close()


def test_a_service_that_fails_at_copies_has_its_pods_placed_one_by_one() -> None:
    """Pods would fail by a call that only makes them faster; or be placed by scores that nobody knows."""
    plugin, alone = (
        ByPods("falling", 99, scorers.Normalization.NONE),
        ByPods("falling", 99, scorers.Normalization.NONE),
    )
    alone.scores_copies = False
    plugin.while_copies = lambda: False
    failing, single = _large(plugin), _large(alone)
    pod = domain_cluster.pod({"app": "blue"})
    assert failing.schedule(pod, 8, 8) == single.schedule(pod, 8, 1)
    assert failing.most_at_once == 1
    failing.close()
    single.close()


def test_a_node_that_changes_while_it_is_asked_about_is_asked_about_again() -> None:
    """An answer from before the change would place the pods that come after it."""
    plugin = ByPods("falling", 99, scorers.Normalization.NONE)
    cluster = _large(plugin)
    pod = domain_cluster.pod({"app": "blue"})
    turn = itertools.count()

    def change_first_node() -> bool:
        if next(turn) == 0:
            for _ in range(3):
                cluster.place(pod, "n7")
            cluster.follow()
        return True

    plugin.while_copies = change_first_node
    together = cluster.schedule(pod, 70, 70)
    alone = _large(ByPods("falling", 99, scorers.Normalization.NONE, copies=False))
    for _ in range(3):
        alone.place(pod, "n7")
    assert together == alone.schedule(pod, 70, 1)
    cluster.close()
    alone.close()


@pytest.mark.parametrize("times", [1, 99])
@pytest.mark.parametrize("normalization", [scorers.Normalization.NONE, scorers.Normalization.MAX])
def test_a_class_that_is_dropped_while_copies_are_scored_is_scored_anew(
    normalization: scorers.Normalization, times: int
) -> None:
    """Place would end with a KeyError, or use old scores that were dropped because they are wrong."""
    plugin = ByPods("falling", 99, normalization)
    cluster, alone = _large(plugin), _large(ByPods("rising", 99, normalization, copies=False))
    pod = domain_cluster.pod({"app": "blue"})
    turn = itertools.count()

    def answer_otherwise() -> bool:
        # From here on the plugin's scores are others, and the host gets them.
        plugin._score_of = SCORES["rising"]
        if next(turn) < times:
            cluster.score._engine.evaluator.drop_all()
        return True

    plugin.while_copies = answer_otherwise
    assert cluster.schedule(pod, 8, 8) == alone.schedule(pod, 8, 1)
    assert plugin.copy_calls > 1
    cluster.close()
    alone.close()


def test_copies_are_not_scored_by_slots_of_a_snapshot_that_was_replaced() -> None:
    """Another evaluation of the class holds the lock while a full sync comes: slots would be other nodes."""
    plugin = ByPods("falling", 99, scorers.Normalization.NONE)
    cluster = _large(plugin)
    class_id = cluster.class_of(domain_cluster.pod({"app": "blue"}))
    cluster.follow()
    evaluator = cluster.score._engine.evaluator
    pod_class = cluster.snap.classes[class_id]

    async def find_while_the_lock_is_held() -> None:
        cached = await evaluator.evaluate(domain_cluster.PROFILE, pod_class)
        assert not isinstance(cached, status.Status)
        async with cached.preparing:
            found = evaluator.find_copies(domain_cluster.PROFILE, pod_class, cached, np.array([0, 1]), 2)
            waiting = asyncio.create_task(found)
            await asyncio.sleep(0)
            cluster.snap.incarnation += 1
        with pytest.raises(snapshot.OutOfStepError):
            await waiting

    cluster._run(find_while_the_lock_is_held())
    assert plugin.copy_calls == 0
    cluster.close()
