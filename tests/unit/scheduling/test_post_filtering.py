"""PostFilters: for whom PostFilter runs, and what becomes of its results."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.helpers import preemption_world
from trireme.framework import status
from trireme.queueing import queued_pod
from trireme.scheduling import batch_limit
from trireme.scheduling.failure import Failure
from trireme.scheduling.post_filtering import PostFilters
from trireme.v1 import core_pb2, filter_phase_pb2
from trireme.wire import node_columns
from trireme.wire.phase_answers import FilterAnswer

_KEY = ("default", 1)


def _refused() -> FilterAnswer:
    full = status.unschedulable("Fit", "Insufficient cpu")
    columns = node_columns.NodeColumns.complete(7, (full,), np.array([1], dtype=np.int16), np.zeros(1, dtype=np.int32))
    return FilterAnswer(columns=columns)


def _pods(*names: str) -> list[queued_pod.QueuedPodInfo]:
    return [queued_pod.QueuedPodInfo(preemption_world.record(name, 100), 0.0) for name in names]


class _Setup:
    """PostFilters on nodes that are full; pods are nominated as `nominated` says, and nobody can be evicted."""

    def __init__(self) -> None:
        self.nominated: dict[str, str] = {}
        self.asked: list[list[core_pb2.Pod]] = []
        self.failures: list[tuple[list[str], Failure]] = []
        evaluators: Any = SimpleNamespace(run_post_filter=self._run)
        reporter: Any = SimpleNamespace(report_failures=self._fail)
        cache: Any = SimpleNamespace(node_count=1)
        nominations: Any = SimpleNamespace(node_of=lambda uid: self.nominated.get(uid, ""))
        observer: Any = SimpleNamespace(clock=lambda: 0.0, on_post_filter_run=lambda *_: None)
        nobody: Any = None
        self.post_filters = PostFilters(
            cache=cache,
            nominations=nominations,
            evaluators=evaluators,
            reporter=reporter,
            observer=observer,
            http_extenders=None,
            limit=batch_limit.BatchLimit(100),
            preemptions=nobody,
            asynchronous={"default": True},
        )

    async def _run(
        self, profile: str, class_id: int, generation: int, preemptors: list[core_pb2.Pod], filtered: FilterAnswer
    ) -> filter_phase_pb2.RunPostFilterResponse:
        assert (profile, class_id, generation) == (*_KEY, filtered.columns.generation)
        self.asked.append(preemptors)
        return filter_phase_pb2.RunPostFilterResponse(results=[filter_phase_pb2.PostFilterResult()])

    def _fail(self, pods: list[queued_pod.QueuedPodInfo], failure: Failure) -> None:
        self.failures.append(([pod.uid for pod in pods], failure))

    def asked_about(self) -> list[tuple[str, str]]:
        """UID and nomination of each pod of the last call."""
        return [(pod.metadata.uid, pod.status.nominated_node_name) for pod in self.asked[-1]]


async def test_post_filter_runs_for_the_pods_before_the_first_that_is_nominated() -> None:
    setup = _Setup()
    setup.nominated["c"] = "n0"
    await setup.post_filters.run(_KEY, _pods("a", "b", "c", "d"), _refused())
    assert setup.asked_about() == [("a", ""), ("b", "")]
    assert [uids for uids, _ in setup.failures] == [["a", "b", "c", "d"]], "it helps none of them"


async def test_post_filter_runs_for_a_pod_that_is_nominated_alone_and_with_its_nomination() -> None:
    """Its node has refused it: room may have to be made for it elsewhere."""
    setup = _Setup()
    setup.nominated["a"] = "n0"
    await setup.post_filters.run(_KEY, _pods("a", "b"), _refused())
    assert setup.asked_about() == [("a", "n0")]


async def test_a_profile_without_post_filter_plugins_loses_its_nomination() -> None:
    setup = _Setup()
    assert await setup.post_filters.run(("other", 1), _pods("a", "b"), _refused()) == []
    ((uids, failure),) = setup.failures
    assert (uids, failure.nominated_node, setup.asked) == (["a", "b"], "", [])
    assert setup.post_filters.preemptors_after_refusal("other", _pods("a")[0]) == []
    (pod,) = setup.post_filters.preemptors_after_refusal("default", _pods("a")[0])
    assert pod.metadata.uid == "a"
