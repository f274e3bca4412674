"""PostFilter's results for several pods in one call are those of one call after the other."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.helpers import domain_cluster
from tests.helpers.domain_cluster import HASH, PROFILE, affinity, node, pod, term
from tests.helpers.phase_calls import context
from trireme.v1 import core_pb2, cycle_pb2, filter_pb2, filter_phase_pb2, plugin_pb2, snapshot_pb2
from trireme.wire import identities, node_columns
from trireme.wire import status as wire_status

FILTERS = ("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
           "PodTopologySpread", "InterPodAffinity")  # fmt: skip
PODS = 6
Answers = tuple[node_columns.NodeColumns, Sequence[filter_phase_pb2.PostFilterResult]]
Call = Callable[["Preempting", int, list[core_pb2.Pod]], Answers]
FEW = b'{"minCandidateNodesPercentage":1,"minCandidateNodesAbsolute":2}'


class Preempting(domain_cluster.Cluster):
    """A cluster whose filter has DefaultPreemption."""

    def _configure(self) -> None:
        profile = snapshot_pb2.Profile(scheduler_name=PROFILE)
        filters = profile.plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_FILTER)
        for name in self.filters:
            filters.plugins.add(name=name)
        last = profile.plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_POST_FILTER)
        last.plugins.add(name="DefaultPreemption")
        profile.plugin_args.add(name="DefaultPreemption", args_json=FEW)
        configuration = snapshot_pb2.Configuration(profiles=[profile])
        hello = snapshot_pb2.Hello(fence=cycle_pb2.Fence(epoch=1), config_hash=HASH, configuration=configuration)
        at = self.filter.follow.statistics().generation
        delta = snapshot_pb2.Delta(from_generation=at, to_generation=at)
        requests = [snapshot_pb2.SyncRequest(hello=hello), snapshot_pb2.SyncRequest(delta=delta)]
        self._run(self.filter.follow.Sync(domain_cluster._stream(requests), context(10)))

    def results_with_filter_answer(self, class_id: int, pods: list[core_pb2.Pod]) -> Answers:
        """Filter's answer, and PostFilter's for these pods, by one call."""
        self.follow()
        request = filter_phase_pb2.FilterPhaseFilterRequest(
            cycle=self._cycle(class_id), count=len(pods), preemptors=identities.preemptors(pods, self.snap.generation)
        )
        response: filter_phase_pb2.FilterPhaseFilterResponse = self._run(self.filter.Filter(request, context(10)))
        return node_columns.from_message(response.columns), response.post_filter_results

    def results_after_filter(self, class_id: int, pods: list[core_pb2.Pod]) -> Answers:
        """Filter's answer, and PostFilter's for these pods by a call of its own."""
        self.follow()
        columns = self.ask_filter(class_id, 1).columns
        request = filter_phase_pb2.RunPostFilterRequest(
            cycle=self._cycle(class_id),
            columns=columns,
            preemptors=identities.preemptors(pods, self.snap.generation),
        )
        response: filter_phase_pb2.RunPostFilterResponse = self._run(self.filter.RunPostFilter(request, context(10)))
        return node_columns.from_message(columns), response.results

    def one(self, class_id: int, preemptor: core_pb2.Pod, known: node_columns.NodeColumns) -> Any:
        """Filter's answer, brought up to date in `known`, and PostFilter's."""
        known.update(node_columns.from_message(self.ask_filter(class_id, 1, known.generation).columns))
        request = filter_phase_pb2.RunPostFilterRequest(
            cycle=self._cycle(class_id),
            columns=node_columns.to_message(known),
            preemptors=[identities.preemptor(preemptor, self.snap.generation)],
        )
        return self._run(self.filter.RunPostFilter(request, context(10))).results[0].answer

    def decide(self, class_id: int, uid: str, way: filter_pb2.PostFilterResponse) -> None:
        """What follows from the answer, as the frontend tells it."""
        for action in way.actions:
            self.cache.set_evicting(action.pod.uid, True)
        self.promise(class_id, uid, way.nominated_node)

    def promise(self, class_id: int, uid: str, name: str) -> None:
        """A pod of the class waits for the node."""
        identity = cycle_pb2.PodIdentity(namespace="default", name=uid, uid=uid)
        self.cache.nominate_node(snapshot_pb2.Nomination(pod=identity, pod_class=class_id), name)


BOTH = pytest.mark.parametrize(
    "call",
    [Preempting.results_with_filter_answer, Preempting.results_after_filter],
    ids=["with-filter", "after-filter"],
)


def _make(seed: int, **wanted: Any) -> tuple[Preempting, int]:
    """A full cluster, and the class of pods that fit nowhere."""
    rng = random.Random(seed)
    cluster = Preempting(filters=FILTERS)
    names = [f"n{number}" for number in range(rng.randint(2, 7))]
    for name in names:
        cluster.add_node(node(name, {"kubernetes.io/hostname": name}, cpu=rng.randint(3, 5), pods=rng.choice((5, 110))))
    for name in names:
        for _ in range(6):
            priority, cpu = rng.choice((0, 0, 3, 20)), rng.choice(("500m", "900m", "1"))
            port = [{"containerPort": 80, "hostPort": 80}] if rng.random() < 0.1 else []
            low = pod({"app": "low"}, priority=priority, requests={"cpu": cpu})
            low["spec"]["containers"][0]["ports"] = port
            cluster.place(low, name, terminating=rng.random() < 0.1)
    high = pod({"app": "high"}, priority=10, requests={"cpu": "3"}, **wanted)
    if rng.random() < 0.3:
        high["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    class_id = cluster.class_of(high)
    for number in range(rng.randint(0, 3)):
        other = cluster.class_of(pod(priority=rng.choice((5, 10, 30)), requests={"cpu": rng.choice(("1", "2"))}))
        cluster.promise(other, f"promised-{number}", rng.choice(names))
    return cluster, class_id


def _pods() -> list[core_pb2.Pod]:
    out = []
    for number in range(PODS):
        out.append(core_pb2.Pod())
        out[-1].metadata.name = out[-1].metadata.uid = f"me-{number}"
    return out


def _one_after_the_other(seed: int) -> list[tuple[list[Any], bytes]]:
    cluster, class_id = _make(seed)
    known = node_columns.NodeColumns()
    out = []
    for preemptor in _pods():
        way = cluster.one(class_id, preemptor, known)
        out.append((_said(known.statuses, known.index.tolist()), way.SerializeToString(deterministic=True)))
        if not way.nominated_node:
            break
        cluster.decide(class_id, preemptor.metadata.uid, way)
    cluster.close()
    return out


def _said(statuses: Any, index: list[int]) -> list[Any]:
    """Why each node refuses."""
    return [statuses[number - 1] if number else None for number in index]


@BOTH
@pytest.mark.parametrize("seed", range(60))
def test_post_filter_results_of_one_call_equal_those_of_single_calls(seed: int, call: Call) -> None:
    cluster, class_id = _make(seed)
    columns, results = call(cluster, class_id, _pods())
    told = _said(columns.statuses, columns.index.tolist())
    found = []
    for result in results:
        if result.HasField("changed_slot"):
            told = [*told]
            told[result.changed_slot] = wire_status.from_message(result.changed_status)
        found.append((told, result.answer.SerializeToString(deterministic=True)))
    cluster.close()
    assert found == _one_after_the_other(seed)


def test_a_call_of_post_filter_answers_for_several_pods() -> None:
    assert max(len(_one_after_the_other(seed)) for seed in range(5)) > 2


@BOTH
def test_one_is_answered_for_where_a_nomination_changes_more_than_its_own_node(call: Call) -> None:
    """With rules about other nodes' pods the next answer may change anywhere: it is asked for when that is known."""
    cluster, class_id = _make(0, affinity=affinity((), [term("kubernetes.io/hostname", {"app": "high"})]))
    _, results = call(cluster, class_id, _pods())
    cluster.close()
    assert len(results) == 1


def test_nothing_is_answered_with_filter_where_a_node_takes_a_pod() -> None:
    """Who fits preempts nobody."""
    cluster, class_id = _make(0)
    cluster.add_node(node("roomy", {"kubernetes.io/hostname": "roomy"}, cpu=8))
    _, results = cluster.results_with_filter_answer(class_id, _pods())
    cluster.close()
    assert not results


def test_one_is_answered_for_where_a_node_takes_a_pod_by_now() -> None:
    """Filter refused it before the node came: the next pod is filtered again."""
    cluster, class_id = _make(0)
    cluster.follow()
    refused = cluster.ask_filter(class_id, 1).columns
    cluster.add_node(node("roomy", {"kubernetes.io/hostname": "roomy"}, cpu=8))
    cluster.follow()
    preemptors = identities.preemptors(_pods(), cluster.snap.generation)
    request = filter_phase_pb2.RunPostFilterRequest(
        cycle=cluster._cycle(class_id), columns=refused, preemptors=preemptors
    )
    response = cluster._run(cluster.filter.RunPostFilter(request, context(10)))
    cluster.close()
    assert [bool(result.answer.nominated_node) for result in response.results] == [True]


@pytest.mark.slow
def test_a_nominated_pod_gets_its_post_filter_result_with_an_answer_of_its_own() -> None:
    found = 0
    for seed in range(20):
        cluster, class_id = _make(seed)
        (first, *_), known = _pods(), node_columns.NodeColumns()
        result = cluster.one(class_id, first, known)
        cluster.decide(class_id, "me-0", result)
        cluster.follow()
        cycle = cluster._cycle(class_id)
        cycle.pod.CopyFrom(first)
        preemptor = identities.preemptor(first, cluster.snap.generation)
        preemptor.nominated_node = result.nominated_node
        request = filter_phase_pb2.FilterPhaseFilterRequest(cycle=cycle, count=1, preemptors=[preemptor])
        filtered = cluster._run(cluster.filter.Filter(request, context(10)))
        found += len(filtered.post_filter_results)
        request = filter_phase_pb2.RunPostFilterRequest(cycle=cycle, columns=filtered.columns, preemptors=[preemptor])
        after = cluster._run(cluster.filter.RunPostFilter(request, context(10)))
        cluster.close()
        assert [each.answer for each in filtered.post_filter_results] == [each.answer for each in after.results]
    assert found == 20


def test_nominated_pods_get_no_post_filter_result_with_filter() -> None:
    """They do not count for themselves, which only an answer of their own can say."""
    cluster, class_id = _make(0)
    cluster.promise(class_id, "me-1", "n0")
    _, results = cluster.results_with_filter_answer(class_id, _pods())
    assert not results
    _, results = cluster.results_after_filter(class_id, _pods())
    cluster.close()
    assert len(results) == 1
