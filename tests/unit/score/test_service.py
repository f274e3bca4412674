"""ScorePhase: a batch through filter and score lands as its pods would one by one; what Place needs and refuses."""

from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import phase_calls
from tests.helpers.phase_calls import Aborted, context
from tests.helpers.snapshot_views import Json, SnapshotBuilder, pod_of, requesting
from trireme.evaluation import request_errors, score_engine
from trireme.evaluation.scoring import score_evaluator
from trireme.filter import service as filter_service
from trireme.framework import status
from trireme.plugin_api import interfaces, scorers
from trireme.registry import score_profiles
from trireme.score import service
from trireme.snapshot import arrays, classes, snapshot
from trireme.v1 import filter_pb2, filter_phase_pb2, score_phase_pb2, snapshot_pb2
from trireme.wire import node_columns

FILTERS = ["NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit"]
SCORES = [
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodeResourcesFit", 1),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
]
CLASS = 1


def _nobody(config: snapshot_pb2.RemotePlugin) -> Any:
    raise AssertionError(f"no remote plugin is asked for, but {config.name} is")


class Phases:
    """Filter and score on one snapshot, and the frontend between them."""

    def __init__(self, builder: SnapshotBuilder) -> None:
        self._builder = builder
        self.filter = filter_service.FilterPhase(builder.snap, _nobody)
        self.score = service.ScorePhase(builder.snap, _nobody)

    async def start(self) -> "Phases":
        """Bring both their configuration."""
        message = phase_calls.configuration(FILTERS, SCORES)
        for phase in (self.filter, self.score):
            await phase_calls.greet(phase, message)
        return self

    async def place(self, count: int) -> list[tuple[int, int]]:
        """Slots and totals of the next pods."""
        cycle = phase_calls.cycle(self._builder, CLASS)
        filtered = await self.filter.Filter(
            filter_phase_pb2.FilterPhaseFilterRequest(cycle=cycle, count=count), context()
        )
        if not filtered.HasField("columns"):
            return []
        request = score_phase_pb2.PlaceRequest(cycle=cycle, count=count, capacities=filtered.columns)
        placed = await self.score.Place(request, context())
        assert not placed.HasField("status")
        assert not placed.more
        return list(zip(placed.slots, placed.totals, strict=True))


def _preferring(**weights: int) -> Json:
    """A preference for each zone."""
    preferred = [
        {"weight": weight, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}}
        for zone, weight in weights.items()
    ]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}


node_fields = st.fixed_dictionaries(
    {
        "allocatable": st.sampled_from(
            [
                {"cpu": "1", "memory": "2Gi", "pods": "4"},
                {"cpu": "4", "memory": "2Gi", "pods": "20"},
                {"cpu": "2", "memory": "16Gi", "pods": "3", "example.com/gpu": "2"},
            ]
        )
    },
    optional={
        "labels": st.sampled_from([{"zone": "a"}, {"zone": "b"}, {"zone": "c"}]),
        "taints": st.sampled_from([[("k", "v", "NoSchedule")], [("k", "v", "PreferNoSchedule")]]),
        "images": st.sampled_from([{"a:1": 300 << 20}, {"b:1": 900 << 20}]),
        "unschedulable": st.booleans(),
    },
)
specs = st.sampled_from(
    [
        {},
        requesting(cpu="500m"),
        requesting(cpu="300m", memory="1Gi"),
        requesting(memory="700Mi", **{"example.com/gpu": "1"}),
        {"containers": [{"name": "m", "image": "a:1", "resources": {"requests": {"cpu": "250m"}}}]},
        {"containers": [{"name": "m", "ports": [{"hostPort": 80}]}]},
        {**requesting(cpu="700m"), **_preferring(a=80, b=60, c=20)},
        {**requesting(cpu="100m"), **_preferring(a=30, b=20)},
        {**requesting(cpu="700m"), "tolerations": [{"key": "k", "operator": "Exists"}]},
        {**requesting(cpu="1"), "overhead": {"cpu": "100m", "memory": "50Mi"}},
        {**requesting(cpu="100m"), "resources": {"requests": {"cpu": "400m", "memory": "900Mi"}}},
    ]
)


def _cluster(nodes: list[Json], spec: Json, others: list[int]) -> SnapshotBuilder:
    builder = SnapshotBuilder()
    for number, fields in enumerate(nodes):
        builder.set_node(f"n{number}", **fields)
    builder.add_class(CLASS, pod_of(spec))
    builder.add_class(2, pod_of(requesting(cpu="250m", memory="512Mi")))
    for number in others:
        builder.place(2, f"n{number % len(nodes)}")
    return builder


@settings(max_examples=80)
@given(
    st.lists(node_fields, min_size=1, max_size=6), specs, st.lists(st.integers(0, 5), max_size=5), st.integers(1, 12)
)
async def test_a_batch_lands_as_one_by_one_cycles_would(
    nodes: list[Json], spec: Json, others: list[int], count: int
) -> None:
    batch = await (await Phases(_cluster(nodes, spec, others)).start()).place(count)
    builder = _cluster(nodes, spec, others)
    phases = await Phases(builder).start()
    single: list[tuple[int, int]] = []
    for _ in range(count):
        chosen = await phases.place(1)
        if not chosen:
            break
        single += chosen
        builder.place(CLASS, builder.snap.nodes.names[chosen[0][0]])
    assert batch == single


async def _ready(builder: SnapshotBuilder) -> service.ScorePhase:
    return (await Phases(builder).start()).score


def _engine(builder: SnapshotBuilder) -> score_engine.ScoreEngine:
    """What the service answers from."""
    profiles = score_profiles.make_profiles(phase_calls.configuration(FILTERS, SCORES), _nobody)
    return score_engine.ScoreEngine(builder.snap, profiles)


def _capacities(builder: SnapshotBuilder, *capacity: int, **more: Any) -> filter_pb2.NodeColumns:
    """An answer of filter's: so many copies fit on each slot; −1 refuses."""
    index = np.array([1 if each < 0 else 0 for each in capacity], dtype=np.int16)
    fits = np.array([max(each, 0) for each in capacity], dtype=np.int32)
    fields = {"generation": builder.snap.generation, "base": 0, "slots": None, "size": len(capacity), **more}
    refusals = (status.unschedulable("P", "no"),)
    return node_columns.to_message(
        node_columns.NodeColumns(
            fields["generation"], fields["base"], fields["size"], fields["slots"], refusals, index, fits
        )
    )


async def _place(
    score: service.ScorePhase, builder: SnapshotBuilder, count: int, capacities: filter_pb2.NodeColumns
) -> score_phase_pb2.PlaceResponse:
    cycle = phase_calls.cycle(builder, CLASS)
    request = score_phase_pb2.PlaceRequest(cycle=cycle, count=count, capacities=capacities)
    return await score.Place(request, context())


def _three_nodes() -> SnapshotBuilder:
    return _cluster([{}, {}, {}], requesting(cpu="1"), [])


async def test_capacities_are_taken_complete_and_then_patched() -> None:
    builder = _three_nodes()
    score = await _ready(builder)
    first = await _place(score, builder, 9, _capacities(builder, 2, -1, 1))
    assert sorted(first.slots) == [0, 0, 2]
    generation = builder.snap.generation
    builder.place(2, "n0")
    patch = _capacities(builder, 3, -1, base=generation, slots=np.array([1, 2]), size=3)
    second = await _place(score, builder, 9, patch)
    assert sorted(second.slots) == [0, 0, 1, 1, 1]
    builder.set_node("n3")
    patch = _capacities(builder, 1, base=builder.snap.generation - 1, slots=np.array([3]), size=4)
    third = await _place(score, builder, 9, patch)
    assert sorted(third.slots) == [0, 0, 1, 1, 1, 3]


async def test_a_patch_to_what_is_not_here_is_refused() -> None:
    builder = _three_nodes()
    score = await _ready(builder)
    patch = _capacities(builder, 1, base=3, slots=np.array([1]), size=3)
    with pytest.raises(Aborted, match="base_generation") as ended:
        await _place(score, builder, 1, patch)
    assert ended.value.code is grpc.StatusCode.FAILED_PRECONDITION


async def test_a_slot_without_a_node_is_not_chosen() -> None:
    builder = _three_nodes()
    score = await _ready(builder)
    capacities = _capacities(builder, 1, 1, 1, 1, 1)
    builder.remove_node("n1")
    placed = await _place(score, builder, 9, capacities)
    assert sorted(placed.slots) == [0, 2]


async def test_on_the_only_node_nothing_is_scored() -> None:
    unreadable = {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x"]}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": unreadable}]}
    builder = _cluster([{}, {}], {"affinity": {"nodeAffinity": preferred}}, [])
    score = await _ready(builder)
    alone = await _place(score, builder, 3, _capacities(builder, 2, -1))
    assert (list(alone.slots), list(alone.totals)) == ([0, 0], [0, 0])
    nowhere = await _place(score, builder, 3, _capacities(builder, -1, -1))
    assert list(nowhere.slots) == []
    both = await _place(score, builder, 3, _capacities(builder, 2, 2))
    assert both.status.messages[0].startswith('running PreScore plugin "NodeAffinity"')
    assert list(both.slots) == []


async def test_totals_are_those_of_the_moment_of_the_choice() -> None:
    builder = _cluster([{"allocatable": {"cpu": "4", "pods": "9"}}] * 2, requesting(cpu="1"), [])
    score = await _ready(builder)
    placed = await _place(score, builder, 3, _capacities(builder, 2, 1))
    assert len(placed.slots) == 3
    # Both nodes, both nodes, and then the one that is left.
    assert [total > 0 for total in placed.totals] == [True, True, False]


class Remote:
    """A remote score plugin whose answer the test decides."""

    depends_on = interfaces.Dependency.NODE

    def __init__(self, normalization: scorers.Normalization) -> None:
        self.name = "Remote"
        self.normalization = normalization
        self.raw: dict[str, int] | status.Status | None = {}
        self.asked = 0
        self.while_called: Callable[[], Any] = lambda: None

    async def prepare(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray
    ) -> scorers.PreparedScores:
        self.asked += slots.size
        names = [snap.nodes.names[slot] for slot in slots]
        self.while_called()
        if isinstance(self.raw, status.Status):
            return scorers.PreparedScores(state, failure=self.raw)
        if self.raw is None:
            return scorers.PreparedScores(state, silent=True)
        raw = {slot: self.raw.get(name, 0) for slot, name in zip(slots.tolist(), names, strict=True)}
        return scorers.PreparedScores({**(state or {}), **raw})

    def score(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: arrays.SlotArray
    ) -> arrays.Int64Array:
        return np.array([state[slot] for slot in slots.tolist()], dtype=np.int64)

    async def normalize(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: Any, slots: Any, raw: arrays.Int64Array
    ) -> arrays.Int64Array | status.Status:
        return 100 - raw


async def _with_remote(builder: SnapshotBuilder, remote: Remote) -> service.ScorePhase:
    def make(config: snapshot_pb2.RemotePlugin, profile: str) -> scorers.AsyncScore:
        return remote

    score = service.ScorePhase(builder.snap, make)
    await phase_calls.greet(score, phase_calls.configuration([], [("Remote", 5)], ["Remote"]))
    return score


async def test_a_remote_plugin_is_called_once_per_node() -> None:
    builder = _three_nodes()
    remote = Remote(scorers.Normalization.MAX)
    remote.raw = {"n1": 7, "n2": 3}
    score = await _with_remote(builder, remote)
    for _ in range(2):
        placed = await _place(score, builder, 2, _capacities(builder, 1, 1, 1))
        assert (list(placed.slots), list(placed.totals)) == ([1, 2], [500, 500])
    assert remote.asked == 3
    builder.set_node("n0", labels={"zone": "a"})
    remote.raw = {"n0": 9}
    placed = await _place(score, builder, 1, _capacities(builder, 1, 1, 1))
    assert list(placed.slots) == [0]
    assert remote.asked == 4


async def test_a_failed_remote_score_fails_the_pods_and_a_skipped_one_adds_nothing() -> None:
    builder = _three_nodes()
    remote = Remote(scorers.Normalization.MAX)
    remote.raw = status.error("Remote", "broken")
    score = await _with_remote(builder, remote)
    failed = await _place(score, builder, 1, _capacities(builder, 1, 1, 1))
    assert (list(failed.slots), list(failed.status.messages)) == ([], ["broken"])
    remote.raw = None
    placed = await _place(score, builder, 1, _capacities(builder, 1, 1, 1))
    assert list(placed.totals) == [0]
    remote.raw = {"n2": 1}
    placed = await _place(score, builder, 1, _capacities(builder, 1, 1, 1))
    assert (list(placed.slots), list(placed.totals)) == ([2], [500])


async def test_a_plugin_that_normalises_by_itself_places_one_pod_at_a_time() -> None:
    builder = _three_nodes()
    remote = Remote(scorers.Normalization.CUSTOM)
    remote.raw = {"n0": 100, "n1": 10, "n2": 50}
    score = await _with_remote(builder, remote)
    placed = await _place(score, builder, 3, _capacities(builder, 1, 1, 1))
    assert (list(placed.slots), list(placed.totals), placed.more) == ([1], [450], True)


async def test_scores_are_normalised_over_the_requested_nodes() -> None:
    builder = _cluster([{"labels": {"zone": zone}} for zone in ("a", "b", "c")], _preferring(a=80, b=60), [])
    engine, cycle, slots = _engine(builder), phase_calls.cycle(builder, CLASS), np.array([1, 2])
    raw = await engine.raw_scores(cycle, slots)
    assert not isinstance(raw, status.Status)
    by_name = {each.plugin: each for each in raw}
    assert by_name["NodeAffinity"].scores is not None
    assert (by_name["NodeAffinity"].scores.tolist(), by_name["NodeAffinity"].weight) == ([60, 0], 2)
    # It asks for neither cpu nor memory.
    assert by_name["NodeResourcesBalancedAllocation"].scores is None
    normal = await engine.normalized_scores(cycle, slots, raw)
    assert not isinstance(normal, status.Status)
    scores = {each.plugin: each.scores.tolist() for each in normal if each.scores is not None}
    assert scores["NodeAffinity"] == [100, 0]
    assert scores["TaintToleration"] == [100, 100]


@pytest.mark.parametrize("slots", [[0, 7], [1]], ids=["beyond-the-columns", "of-a-node-that-is-gone"])
async def test_scores_of_slots_without_a_node_are_refused(slots: list[int]) -> None:
    builder = _three_nodes()
    builder.remove_node("n1")
    with pytest.raises(request_errors.InvalidRequestError, match=r"nodes\.slots"):
        await _engine(builder).raw_scores(phase_calls.cycle(builder, CLASS), np.array(slots))


async def test_scores_that_are_not_one_a_node_are_refused() -> None:
    builder = _three_nodes()
    raw = [score_engine.PluginScores("TaintToleration", 3, np.array([1]))]
    with pytest.raises(request_errors.InvalidRequestError, match=r"columns\.scores"):
        await _engine(builder).normalized_scores(phase_calls.cycle(builder, CLASS), np.array([0, 1]), raw)


async def test_nodes_that_appear_while_a_service_scores_are_scored_too() -> None:
    builder = _three_nodes()
    remote = Remote(scorers.Normalization.MAX)
    remote.raw = {"n0": 1, "late": 9}
    names = [f"more{number}" for number in range(arrays.MIN_CAPACITY)] + ["late"]

    def grow() -> None:
        while names:
            builder.set_node(names.pop(0))

    remote.while_called = grow
    score = await _with_remote(builder, remote)
    size = 3 + len(names)
    placed = await _place(score, builder, 1, _capacities(builder, *[1] * size))
    assert (list(placed.slots), list(placed.totals)) == ([size - 1], [500])


async def test_a_service_that_scores_a_changing_cluster_is_called_a_few_times_only() -> None:
    builder = _three_nodes()
    remote = Remote(scorers.Normalization.MAX)
    remote.raw = {"n1": 1}
    remote.while_called = lambda: builder.set_node("n0", labels={"zone": "a"})
    score = await _with_remote(builder, remote)
    placed = await _place(score, builder, 1, _capacities(builder, 1, 1, 1))
    assert list(placed.slots) == [1]
    assert remote.asked == 3 + score_evaluator.ROUNDS - 1


@pytest.mark.parametrize(
    ("depends_on", "expected"),
    [
        (interfaces.Dependency.NODE, ([0, 0, 0], False)),
        (interfaces.Dependency.NODE_PODS, ([0], True)),
        (interfaces.Dependency.CLUSTER, ([0], True)),
    ],
)
async def test_a_plugin_that_scores_by_the_pods_of_a_node_is_called_after_each_of_a_batch(
    depends_on: interfaces.Dependency, expected: tuple[list[int], bool]
) -> None:
    builder = _three_nodes()
    remote = Remote(scorers.Normalization.NONE)
    remote.depends_on = depends_on
    remote.raw = {"n0": 90}
    score = await _with_remote(builder, remote)
    placed = await _place(score, builder, 3, _capacities(builder, 5, 5, 5))
    assert (list(placed.slots), placed.more) == expected
