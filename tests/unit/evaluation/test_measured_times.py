"""Which times of an evaluation are recorded: of plugins and extension points, each with its code."""

from typing import Any

import numpy as np
import pytest

from tests.helpers import at_once, domain_cluster
from tests.helpers.fake_remote_filter import FakeRemoteFilter
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from trireme.evaluation import plugin_timer
from trireme.evaluation.filtering import filter_chain, filter_evaluator
from trireme.evaluation.scoring import score_chain, score_evaluator
from trireme.framework import status
from trireme.plugin_api import interfaces, scorers
from trireme.v1 import core_pb2, cycle_pb2, snapshot_pb2

SUCCESS, SKIP, ERROR, NEVER = (
    status.Code.SUCCESS,
    status.Code.SKIP,
    status.Code.ERROR,
    status.Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
)
BROKEN = status.error("Far", "broken")


class Clock:
    """A clock that goes on while plugins work, and at no other time."""

    def __init__(self) -> None:
        self.microseconds = 0

    def __call__(self) -> float:
        return self.microseconds / 1_000_000

    def work(self, microseconds: int) -> None:
        self.microseconds += microseconds


class Near:
    """A plugin of this process: PreFilter and PreScore take 1, Filter and Score 10."""

    name = "Near"
    depends_on = interfaces.Dependency.NODE
    normalization = scorers.Normalization.NONE
    reads: tuple[str, ...] = ()

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.pre_filtered = interfaces.PreFilterResult()
        self.pre_scored: Any = True

    def pre_filter(self, *_: object) -> interfaces.PreFilterResult:
        self._clock.work(1)
        return self.pre_filtered

    def filter(self, pod_class: object, snap: object, state: object, slots: Any, table: object) -> interfaces.Verdicts:
        self._clock.work(10)
        return interfaces.Verdicts(np.zeros(slots.shape[0], dtype=np.int16))

    def pre_score(self, *_: object) -> Any:
        self._clock.work(1)
        return self.pre_scored

    def score(self, pod_class: object, snap: object, state: object, slots: Any) -> Any:
        self._clock.work(10)
        return np.zeros(slots.shape[0], dtype=np.int64)


class FarFilter(FakeRemoteFilter):
    """A service: PreFilter takes 100, Filter 1000."""

    def __init__(self, clock: Clock) -> None:
        super().__init__("Far", interfaces.Dependency.NODE)
        self._clock = clock
        self.failure: status.Status | None = None

    def passes(self, *_: object) -> bool:
        return True

    async def pre_filter(self, *_: Any) -> interfaces.PreFilterResult:
        self._clock.work(100)
        return await super().pre_filter(*_)

    async def answering(self) -> status.Status | None:
        self._clock.work(1000)
        return self.failure


class FarScore:
    """A service: Score takes 1000."""

    name = "Far"
    depends_on = interfaces.Dependency.NODE
    normalization = scorers.Normalization.NONE

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.failure: status.Status | None = None

    async def prepare(self, *_: object) -> scorers.PreparedScores:
        self._clock.work(1000)
        return scorers.PreparedScores(None, failure=self.failure)

    def score(self, pod_class: object, snap: object, state: object, slots: Any) -> Any:
        return np.zeros(slots.shape[0], dtype=np.int64)

    async def normalize(self, *_: object) -> Any:
        raise AssertionError("not part of these tests")


Times = dict[tuple[str, str], tuple[int, status.Code]]


class Evaluation:
    """A node, a class, and evaluators with both plugins."""

    def __init__(self) -> None:
        self.builder = SnapshotBuilder()
        self.builder.set_node("n0")
        self.builder.add_class(1, pod_of())
        self.clock = Clock()
        self.near, self.far_filter, self.far_score = Near(self.clock), FarFilter(self.clock), FarScore(self.clock)
        filters: list[Any] = [self.near, self.far_filter]
        scores: list[Any] = [self.near, self.far_score]
        snap = self.builder.snap
        self.filters = filter_evaluator.FilterEvaluator(snap, {"p": filter_chain.FilterChain(filters)})
        weights = {"Near": 1, "Far": 1}
        self.scores = score_evaluator.ScoreEvaluator(snap, {"p": score_chain.ScoreChain(weights, scores)})

    def times(self, evaluator: Any, *, sampled: bool = True) -> Times:
        """By plugin and point, of the next evaluation."""
        timer = plugin_timer.PluginTimer(sampled, self.clock)
        at_once.answer(evaluator.evaluate("p", self.builder.snap.classes[1], timer))
        return {
            (each.plugin, each.extension_point): (each.duration_us, status.Code(each.code))
            for each in timer.timing_messages()
        }


def test_filter_is_timed_by_plugin_and_by_point() -> None:
    case = Evaluation()
    assert case.times(case.filters) == {
        ("Far", "Filter"): (1100, SUCCESS),
        ("Near", "PreFilter"): (1, SUCCESS),
        ("", "PreFilter"): (1, SUCCESS),
        ("Near", "Filter"): (10, SUCCESS),
        ("", "Filter"): (1110, SUCCESS),
    }
    # Nothing has changed: points end as before, and no plugin is called.
    again = case.times(case.filters, sampled=False)
    assert again == {("", "PreFilter"): (0, SUCCESS), ("", "Filter"): (0, SUCCESS)}


@pytest.mark.parametrize(
    ("answer", "times"),
    [
        (
            interfaces.PreFilterResult(skip=True),
            {("Near", "PreFilter"): (1, SKIP), ("", "PreFilter"): (1, SUCCESS), ("", "Filter"): (1100, SUCCESS)},
        ),
        (
            interfaces.PreFilterResult(status=status.unresolvable("Near", "never")),
            {("Near", "PreFilter"): (1, NEVER), ("", "PreFilter"): (1, NEVER), ("", "Filter"): (1100, SUCCESS)},
        ),
    ],
)
def test_pre_filter_is_timed_with_the_code_that_it_ends_with(answer: interfaces.PreFilterResult, times: Times) -> None:
    case = Evaluation()
    case.near.pre_filtered = answer
    assert case.times(case.filters) == {("Far", "Filter"): (1100, SUCCESS), **times}


def test_a_service_that_fails_is_timed_as_failed() -> None:
    case = Evaluation()
    case.far_filter.failure = case.far_score.failure = BROKEN
    assert case.times(case.filters) == {("Far", "Filter"): (1100, ERROR), ("", "Filter"): (1100, ERROR)}
    assert case.times(case.scores) == {("Far", "Score"): (1000, ERROR), ("", "Score"): (1000, ERROR)}


@pytest.mark.parametrize(
    ("answer", "times"),
    [
        (True, {("Near", "PreScore"): (1, SUCCESS), ("Near", "Score"): (10, SUCCESS), ("", "Score"): (1010, SUCCESS),
                ("", "PreScore"): (1, SUCCESS)}),
        (None, {("Near", "PreScore"): (1, SKIP), ("", "Score"): (1000, SUCCESS), ("", "PreScore"): (1, SUCCESS)}),
        (BROKEN, {("Near", "PreScore"): (1, ERROR), ("", "Score"): (1000, SUCCESS), ("", "PreScore"): (1, ERROR)}),
    ],
)  # fmt: skip
def test_score_is_timed_by_plugin_and_by_point(answer: Any, times: Times) -> None:
    case = Evaluation()
    case.near.pre_scored = answer
    assert case.times(case.scores) == {("Far", "Score"): (1000, SUCCESS), **times}


class Shared(Near):
    """What it answers does not depend on requests."""

    name = "Shared"
    ignores_requests: Any = True


class Demanding(Near):
    """Says what pods take, which takes 5, and 7 more to read."""

    name = "Demanding"

    def demand(self, *_: object) -> dict[str, int]:
        self._clock.work(5)
        return _Demand(self._clock, {"cpu": 1000})


class _Demand(dict[str, int]):
    def __init__(self, clock: Clock, amounts: dict[str, int]) -> None:
        super().__init__(amounts)
        self._clock = clock

    def items(self) -> Any:
        self._clock.work(7)
        return super().items()


def _to(node: str) -> core_pb2.Pod:
    """A pod of a DaemonSet, for this node."""
    return pod_of({"affinity": domain_cluster.to_nodes(node)})


class New:
    """Two nodes, and an evaluator with these plugins."""

    def __init__(self, *plugins: type[Near]) -> None:
        self.builder, self.clock = SnapshotBuilder(), Clock()
        self.builder.set_node("n0")
        self.builder.set_node("n1")
        self.plugins: list[Any] = [each(self.clock) for each in plugins]
        chain = filter_chain.FilterChain(self.plugins)
        self.evaluator = filter_evaluator.FilterEvaluator(self.builder.snap, {"p": chain})

    def times(self, number: int, pod: core_pb2.Pod) -> Times:
        """Those of the evaluation of a class that is new."""
        self.builder.add_class(number, pod)
        timer = plugin_timer.PluginTimer(True, self.clock)
        found = at_once.answer(self.evaluator.evaluate_new("p", self.builder.snap.classes[number], timer))
        assert found is not None
        return _read(timer)


def _read(timer: plugin_timer.PluginTimer) -> Times:
    return {
        (each.plugin, each.extension_point): (each.duration_us, status.Code(each.code))
        for each in timer.timing_messages()
    }


def test_a_class_that_differs_in_requests_has_the_times_of_what_reads_them() -> None:
    case = New(Shared, Demanding)
    case.builder.add_class(1, pod_of(requesting(cpu="1")))
    at_once.answer(case.evaluator.evaluate("p", case.builder.snap.classes[1]))
    assert case.times(2, pod_of(requesting(cpu="2"))) == {
        ("", "PreFilter"): (6, SUCCESS),
        ("Demanding", "Filter"): (7, SUCCESS),
        ("", "Filter"): (7, SUCCESS),
    }


def test_a_class_that_names_its_nodes_has_the_times_of_filtering_these() -> None:
    """Also where all but its node affinity is known of another class."""
    case = New(Near)
    points = {("", "PreFilter"): (1, SUCCESS), ("Near", "Filter"): (10, SUCCESS), ("", "Filter"): (10, SUCCESS)}
    for number, node in ((1, "n0"), (2, "n1")):
        case.plugins[0].pre_filtered = interfaces.PreFilterResult(nodes=frozenset({node}))
        times = case.times(number, _to(node))
        assert times == (points if number == 2 else {**points, ("Near", "PreFilter"): (1, SUCCESS)})


def test_a_nominated_pod_has_the_times_of_its_node() -> None:
    case = New(Near)
    case.builder.add_class(1, pod_of())
    identity = cycle_pb2.PodIdentity(uid="u")
    case.builder.apply(nominations=[snapshot_pb2.Nomination(pod=identity, pod_class=1, slot=1)])
    cycle = cycle_pb2.Cycle(profile="p", pod_class=1)
    cycle.pod.metadata.uid = "u"
    timer = plugin_timer.PluginTimer(True, case.clock)
    assert at_once.answer(case.evaluator.admit_nominated(cycle, case.builder.snap.classes[1], timer)) is not None
    assert _read(timer) == {
        ("Near", "PreFilter"): (1, SUCCESS),
        ("", "PreFilter"): (1, SUCCESS),
        ("", "Filter"): (10, SUCCESS),
    }


def test_beside_a_class_of_its_family_a_new_one_is_filtered_by_its_room_alone() -> None:
    """Where the family is refused, no node is looked at."""
    case = New(Shared, Shared, Demanding)
    case.plugins[1].name = "Other"
    case.builder.add_class(1, pod_of(requesting(cpu="1")))
    at_once.answer(case.evaluator.evaluate("p", case.builder.snap.classes[1]))

    def looked_at(number: int) -> int:
        before = case.evaluator.statistics().slots_evaluated
        case.builder.add_class(number, pod_of(requesting(cpu=f"{number}m")))
        pod_class = case.builder.snap.classes[number]
        at_once.answer(case.evaluator.evaluate_new("p", pod_class, plugin_timer.NO_TIMER))
        return case.evaluator.statistics().slots_evaluated - before

    assert looked_at(2) == 2
    case.builder.set_node("n1", labels={"changed": "yes"})
    assert looked_at(3) == 2 * 1 + 2
    assert looked_at(4) == 2
    at_once.answer(case.evaluator.evaluate("p", case.builder.snap.classes[1]))
    case.builder.set_node("n0", labels={"changed": "yes"})
    for plugin in case.plugins[:2]:
        plugin.reads = ("classes",)
        plugin.pre_filtered = interfaces.PreFilterResult(status=status.unschedulable("Shared", "no"))
    assert looked_at(5) == 0
