"""PostFilters: for whom PostFilter runs, and what becomes of its results."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.helpers import preemption_world
from trireme.framework import status
from trireme.queueing import queued_pod
from trireme.queueing.states import Done, Gone
from trireme.scheduling import batch_limit
from trireme.scheduling.failure import Failure
from trireme.scheduling.post_filtering import PostFilters
from trireme.v1 import bind_pb2, core_pb2, filter_pb2, filter_phase_pb2, status_pb2
from trireme.wire import node_columns
from trireme.wire.phase_answers import FilterAnswer

_KEY = ("default", 1)


def _refused() -> FilterAnswer:
    full = status.unschedulable("Fit", "Insufficient cpu")
    columns = node_columns.NodeColumns.complete(7, (full,), np.array([1], dtype=np.int16), np.zeros(1, dtype=np.int32))
    return FilterAnswer(columns=columns)


def _pods(*names: str) -> list[queued_pod.QueuedPodInfo]:
    """Pods in their attempts."""
    pods = [queued_pod.QueuedPodInfo(preemption_world.record(name, 100), 0.0) for name in names]
    for pod in pods:
        pod.state = Done()
    return pods


class _Setup:
    """PostFilters on nodes that are full; pods are nominated as `nominated` says, and nobody can be evicted."""

    def __init__(self, *, extended: bool = False) -> None:
        self.nominated: dict[str, str] = {}
        self.results = [filter_phase_pb2.PostFilterResult()]
        self.done: list[tuple[str, list[str]]] = []
        #: Whether a pod whose failure is reported is nominated from then on.
        self.nominates = False
        self.on_evict: Callable[[], object] = lambda: None
        self.asked: list[list[core_pb2.Pod]] = []
        self.failures: list[tuple[list[str], Failure]] = []
        self.evaluators: Any = SimpleNamespace(run_post_filter=self._run)
        reporter: Any = SimpleNamespace(report_failures=self._fail, report_failure=self._fail_one)
        cache: Any = SimpleNamespace(node_count=1)
        nominations: Any = SimpleNamespace(node_of=lambda uid: self.nominated.get(uid, ""))
        self.runs: list[tuple[str, int]] = []
        self.stages: list[tuple[str, str]] = []
        observer: Any = SimpleNamespace(
            clock=lambda: 0.0,
            on_post_filter_run=lambda profile, result, pods, seconds: self.runs.append((profile, pods)),
            on_volume_stage_ended=lambda stage, result: self.stages.append((stage, result.message)),
        )
        preemptions: Any = SimpleNamespace(execute=self._execute, evict_in_background=self._evict)
        self.extenders: Any = SimpleNamespace() if extended else None
        self.post_filters = PostFilters(
            cache=cache,
            nominations=nominations,
            evaluators=self.evaluators,
            reporter=reporter,
            observer=observer,
            http_extenders=self.extenders,
            limit=batch_limit.BatchLimit(100),
            preemptions=preemptions,
            asynchronous={"default": True},
        )

    async def _run(
        self, profile: str, class_id: int, generation: int, preemptors: list[core_pb2.Pod], filtered: FilterAnswer
    ) -> filter_phase_pb2.RunPostFilterResponse:
        assert (profile, class_id, generation) == (*_KEY, filtered.columns.generation)
        self.asked.append(preemptors)
        return filter_phase_pb2.RunPostFilterResponse(results=self.results)

    def _fail_one(self, pod: queued_pod.QueuedPodInfo, failure: Failure) -> None:
        self._fail([pod], failure)
        if self.nominates:
            self.nominated[pod.uid] = failure.nominated_node or ""

    async def _execute(self, actions: list[bind_pb2.Action]) -> str:
        self.done.append(("execute", [action.pod.name for action in actions]))
        return ""

    def _evict(self, pod: queued_pod.QueuedPodInfo, node: str, victims: list[bind_pb2.Action]) -> None:
        self.done.append((f"evict {pod.uid} {node}", [action.pod.name for action in victims]))
        self.on_evict()

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


async def test_with_extenders_filter_runs_no_post_filter_beside() -> None:
    """They trim its candidates, which takes calls of their own."""
    setup = _Setup(extended=True)
    assert setup.post_filters.preemptors_after_refusal("default", _pods("a")[0]) == []


def _result(node: str = "", *actions: bind_pb2.Action) -> filter_phase_pb2.PostFilterResult:
    answer = filter_pb2.PostFilterResponse(status=status_pb2.Status(code=status_pb2.CODE_SUCCESS), actions=actions)
    if node:
        answer.nominated_node = node
    return filter_phase_pb2.PostFilterResult(answer=answer)


_EVICT = bind_pb2.Action(pod={"name": "low", "uid": "low"}, evict=bind_pb2.Evict(message="go"))
_CLEAR = bind_pb2.Action(pod={"name": "other", "uid": "other"}, clear_nomination=bind_pb2.ClearNomination())


async def test_pods_are_evicted_for_the_pod_and_other_actions_done_first() -> None:
    setup = _Setup()
    setup.results = [_result("n0", _CLEAR, _EVICT)]
    await setup.post_filters.run(_KEY, _pods("a"), _refused())
    assert setup.done == [("execute", ["other"]), ("evict a n0", ["low"])]
    assert [uids for uids, _ in setup.failures] == [["a"]]


async def test_a_result_without_other_actions_has_none_executed() -> None:
    setup = _Setup()
    setup.results = [_result("", _EVICT)]
    await setup.post_filters.run(_KEY, _pods("a"), _refused())
    assert setup.done == [("evict a ", ["low"])]


async def test_a_result_behind_a_pod_that_was_not_nominated_says_nothing() -> None:
    """It holds only if the pod before has its room."""
    for first in (_result("", _EVICT), _result("n0", _EVICT)):
        setup = _Setup()
        setup.results = [first, _result("n1", _EVICT)]
        left = await setup.post_filters.run(_KEY, _pods("a", "b"), _refused())
        assert [pod.uid for pod in left] == ["b"]
        assert [uids for uids, _ in setup.failures] == [["a"]]


async def test_results_behind_pods_that_are_gone_are_not_read() -> None:
    setup = _Setup()
    pods = _pods("a", "b", "c")
    setup.nominates = True
    setup.results = [_result(f"n{number}", _EVICT) for number in range(3)]
    setup.on_evict = lambda: [setattr(pod, "state", Gone()) for pod in pods[1:]]
    assert await setup.post_filters.run(_KEY, pods, _refused()) == []
    assert [uids for uids, _ in setup.failures] == [["a"]]


async def test_each_result_is_of_its_pod_while_those_before_are_nominated_by_theirs() -> None:
    setup = _Setup()
    setup.nominates = True
    setup.results = [_result(f"n{number}", _EVICT) for number in range(2)]
    left = await setup.post_filters.run(_KEY, _pods("a", "b", "c"), _refused())
    assert [pod.uid for pod in left] == ["c"]
    assert [what for what, _ in setup.done] == ["evict a n0", "evict b n1"]
    assert [(uids, failure.nominated_node) for uids, failure in setup.failures] == [(["a"], "n0"), (["b"], "n1")]
    assert setup.runs == [("default", 1), ("default", 1)]


async def test_a_result_that_helps_nobody_is_counted_for_each_pod() -> None:
    setup = _Setup()
    await setup.post_filters.run(_KEY, _pods("a", "b", "c"), _refused())
    assert setup.runs == [("default", 3)]


async def test_results_behind_a_pod_that_left_meanwhile_say_nothing_about_the_next() -> None:
    setup = _Setup()
    setup.nominates = True
    pods = _pods("a", "b", "c")
    setup.results = [_result(f"n{number}", _EVICT) for number in range(3)]
    setup.on_evict = lambda: setattr(pods[1], "state", Gone())
    left = await setup.post_filters.run(_KEY, pods, _refused())
    assert [pod.uid for pod in left] == ["c"]
    assert [uids for uids, _ in setup.failures] == [["a"]]


async def test_an_error_of_a_plugin_on_a_node_runs_no_post_filter() -> None:
    setup = _Setup()
    broken = status.error("VolumeBinding", "boom")
    columns = node_columns.NodeColumns.complete(
        7, (broken,), np.array([1], dtype=np.int16), np.zeros(1, dtype=np.int32)
    )
    assert await setup.post_filters.run(_KEY, _pods("a", "b"), FilterAnswer(columns=columns)) == []
    ((uids, failure),) = setup.failures
    assert (uids, failure.message, setup.asked) == (["a", "b"], "boom", [])
    assert setup.stages == [("predicate", "boom")], "an error of volumes is counted by its stage"


async def test_extenders_are_not_called_about_no_candidates() -> None:
    async def trim(_: object) -> object:
        raise AssertionError("there is nothing to trim")

    async def list_candidates(*_: object) -> filter_phase_pb2.ListPreemptionCandidatesResponse:
        code = status_pb2.CODE_UNSCHEDULABLE
        refused = filter_pb2.PostFilterResponse(status=status_pb2.Status(code=code, messages=["nobody may go"]))
        return filter_phase_pb2.ListPreemptionCandidatesResponse(answer=refused)

    setup = _Setup(extended=True)
    setup.extenders.candidate_trimmer = lambda *_: trim
    setup.evaluators.list_preemption_candidates = list_candidates
    await setup.post_filters.run(_KEY, _pods("a"), _refused())
    ((_, failure),) = setup.failures
    assert failure.message == "0/1 nodes are available: 1 Insufficient cpu. nobody may go"
