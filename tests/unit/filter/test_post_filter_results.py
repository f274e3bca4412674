"""Ways out for several pods in one call are those of one call after the other."""

import random
from typing import Any

import domain_cluster
import pytest
from domain_cluster import HASH, PROFILE, affinity, node, pod, term
from phase_calls import context

from trireme.results import class_answer
from trireme.v1 import core_pb2, cycle_pb2, filter_pb2, filter_phase_pb2, plugin_pb2, snapshot_pb2
from trireme.wire import identities, node_columns

FILTERS = ("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
           "PodTopologySpread", "InterPodAffinity")  # fmt: skip
PODS = 6
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

    def in_one_call(self, class_id: int, pods: list[core_pb2.Pod]) -> filter_phase_pb2.FilterPhaseFilterResponse:
        """Filter's answer, with ways out for these pods."""
        self.follow()
        request = filter_phase_pb2.FilterPhaseFilterRequest(
            cycle=self._cycle(class_id), count=len(pods), preemptors=identities.preemptors(pods, self.snap.generation)
        )
        response: filter_phase_pb2.FilterPhaseFilterResponse = self._run(self.filter.Filter(request, context(10)))
        return response

    def one(self, class_id: int, preemptor: core_pb2.Pod, known: class_answer.ClassAnswer) -> Any:
        """Filter's answer, brought up to date in `known`, and PostFilter's."""
        known.take(node_columns.unpack(self.ask_filter(class_id, 1, known.generation).columns))
        request = filter_phase_pb2.RunPostFilterRequest(
            cycle=self._cycle(class_id),
            columns=known.message(),
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
    known = class_answer.ClassAnswer()
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


@pytest.mark.parametrize("seed", range(60))
def test_post_filter_results_of_one_call_equal_those_of_single_calls(seed: int) -> None:
    """Else pods of a crowd preempt others, or elsewhere, or are told other reasons, than if they came one by one."""
    cluster, class_id = _make(seed)
    response = cluster.in_one_call(class_id, _pods())
    columns = node_columns.unpack(response.columns)
    index = columns.index.tolist()
    found = []
    for way in response.post_filter_results:
        if way.HasField("slot"):
            index[way.slot] = way.status_index
        found.append((_said(columns.statuses, index), way.answer.SerializeToString(deterministic=True)))
    cluster.close()
    assert found == _one_after_the_other(seed)


def test_one_is_answered_for_where_a_nomination_changes_more_than_its_own_node() -> None:
    """With rules about other nodes' pods the next answer may change anywhere: it is asked for when that is known."""
    cluster, class_id = _make(1, affinity=affinity((), [term("kubernetes.io/hostname", {"app": "high"})]))
    response = cluster.in_one_call(class_id, _pods())
    cluster.close()
    assert len(response.post_filter_results) == 1


def test_nothing_is_answered_where_a_node_takes_a_pod() -> None:
    """Who fits preempts nobody."""
    cluster, class_id = _make(1)
    cluster.add_node(node("roomy", {"kubernetes.io/hostname": "roomy"}, cpu=8))
    response = cluster.in_one_call(class_id, _pods())
    cluster.close()
    assert not response.post_filter_results


def test_nominated_pods_get_no_post_filter_result() -> None:
    """They do not count for themselves, which only an answer of their own can say."""
    cluster, class_id = _make(1)
    cluster.promise(class_id, "me-1", "n0")
    response = cluster.in_one_call(class_id, _pods())
    cluster.close()
    assert not response.post_filter_results
