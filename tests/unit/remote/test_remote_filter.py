"""RemoteFilterPlugin: which calls a class costs, and what their answers and failures become."""

from typing import Any

import numpy as np
import pytest

from tests.helpers.called_plugin import HASH, CalledPlugin
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.remote import answer_recording, remote_connection, remote_filter
from trireme.v1 import filter_pb2, plugin_pb2, remote_answer_pb2, status_pb2

PRE_FILTER, FILTER = plugin_pb2.EXTENSION_POINT_PRE_FILTER, plugin_pb2.EXTENSION_POINT_FILTER
SUCCESS = status_pb2.Status(code=status_pb2.CODE_SUCCESS)
SKIP = status_pb2.Status(code=status_pb2.CODE_SKIP)
ERROR = status_pb2.Status(code=status_pb2.CODE_ERROR, messages=["broken"])
REFUSED = status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE, messages=["full"])
AWAY = remote_connection.PluginError("away")
UNLIMITED = interfaces.UNLIMITED
SLOTS = np.arange(3)


def answering(*refused: str, failed: str = "", capacity: int = UNLIMITED) -> Any:
    """An answer about the nodes of a request: these are refused, one has failed, and others take so many pods."""

    def answer(request: Any) -> Any:
        dry = isinstance(request, filter_pb2.FilterDryRunRequest)
        names = [run.node.name for run in request.runs] if dry else [node.name for node in request.nodes.nodes]
        index = [1 if name in refused else 2 if name == failed else 0 for name in names]
        columns = filter_pb2.NodeColumns(
            size=len(names),
            status_index=index,
            capacity=[0 if each else capacity for each in index],
            statuses=[REFUSED, ERROR],
        )
        return (filter_pb2.FilterDryRunResponse if dry else filter_pb2.FilterResponse)(columns=columns)

    return answer


class Cluster:
    """Three nodes, two classes that are equal to a plugin that reads labels, and the plugin."""

    def __init__(self, called: CalledPlugin, **client: Any) -> None:
        builder = SnapshotBuilder()
        for name in ("n0", "n1", "n2"):
            builder.set_node(name)
        for number, cpu in ((1, "1"), (2, "2")):
            builder.add_class(number, pod_of(requesting(cpu=cpu)))
        builder.place(1, "n0", "n1")
        self.builder, self.snap, self.called = builder, builder.snap, called
        self.table = interfaces.StatusTable()
        points = client.pop("points", (PRE_FILTER, FILTER))
        client.setdefault("pod_fields", ["metadata.labels"])
        self.plugin = remote_filter.RemoteFilterPlugin(called.client(*points, **client), "p")

    async def pre_filter(self, number: int = 1) -> interfaces.PreFilterResult:
        return await self.plugin.pre_filter(self.snap.classes[number], self.snap)

    async def refusals(self, state: Any, number: int = 1) -> list[str | None]:
        """Why each node refuses the class, after the plugin was called; None: it passes."""
        pod_class = self.snap.classes[number]
        failed = await self.plugin.prepare(pod_class, self.snap, state, SLOTS, self.table)
        assert failed is None
        return self.texts(self.plugin.filter(pod_class, self.snap, state, SLOTS, self.table).index)

    def texts(self, index: Any) -> list[str | None]:
        return [self.table.statuses[number - 1].message if number else None for number in index.tolist()]

    async def dry_runs(self, state: Any, *runs: interfaces.DryRun) -> list[str | None]:
        return self.texts((await self.plugin.dry_runs(self.snap.classes[1], self.snap, state, runs, self.table)).index)


@pytest.mark.parametrize("shares", [False, True])
async def test_each_node_has_the_plugins_verdict(shares: bool) -> None:
    called = CalledPlugin(PreFilter=filter_pb2.PreFilterResponse(status=SUCCESS, state=b"own"), Filter=answering("n1"))
    depends_on = plugin_pb2.DEPENDENCY_NODE if shares else plugin_pb2.DEPENDENCY_NODE_PODS
    cluster = Cluster(called, depends_on=depends_on)
    found = await cluster.pre_filter()
    assert (found.status, found.skip, found.nodes) == (None, False, None)
    assert await cluster.refusals(found.state) == [None, "full", None]
    (first,), (second,) = called.requests_of("PreFilter"), called.requests_of("Filter")
    assert (first.cycle.profile, first.cycle.pod_class, first.cycle.config_hash, first.cycle.state) == (
        "p",
        1,
        HASH,
        b"",
    )
    assert (second.cycle.state, [node.name for node in second.nodes.nodes]) == (b"own", ["n0", "n1", "n2"])
    assert second.cycle.generation == cluster.snap.generation
    other = await cluster.pre_filter(2)
    assert await cluster.refusals(other.state, 2) == [None, "full", None]
    # What a plugin does not read does not distinguish classes for it.
    assert len(called.requests) == (2 if shares else 4)


async def test_a_node_takes_as_many_pods_as_the_plugin_answers() -> None:
    called = CalledPlugin(Filter=answering("n1", capacity=3))
    cluster = Cluster(called, points=(FILTER,), depends_on=plugin_pb2.DEPENDENCY_NODE_PODS)
    state = (await cluster.pre_filter()).state
    await cluster.refusals(state)
    verdicts = cluster.plugin.filter(cluster.snap.classes[1], cluster.snap, state, SLOTS, cluster.table)
    assert verdicts.capacity is not None
    assert verdicts.capacity.tolist() == [3, 0, 3]
    assert [name for name, _ in called.requests] == ["Filter"]


@pytest.mark.parametrize(
    ("points", "answer", "skip", "refusal", "nodes"),
    [
        ((PRE_FILTER, FILTER), filter_pb2.PreFilterResponse(status=SUCCESS), False, "", None),
        ((PRE_FILTER, FILTER), filter_pb2.PreFilterResponse(status=SKIP), True, "", None),
        ((PRE_FILTER, FILTER), filter_pb2.PreFilterResponse(status=REFUSED), False, "full", None),
        ((PRE_FILTER,), filter_pb2.PreFilterResponse(status=SUCCESS), True, "", None),
        ((PRE_FILTER,), filter_pb2.PreFilterResponse(status=REFUSED), False, "full", None),
        (
            (PRE_FILTER,),
            filter_pb2.PreFilterResponse(status=SUCCESS, narrowed=True, node_names=["n1"]),
            False,
            "",
            frozenset({"n1"}),
        ),
        ((FILTER,), None, False, "", None),
    ],
)
@pytest.mark.parametrize("shares", [False, True])
async def test_a_class_is_left_out_where_filter_would_have_nothing_to_say(
    points: Any, answer: Any, skip: bool, refusal: str, nodes: Any, shares: bool
) -> None:
    called = CalledPlugin(PreFilter=answer)
    depends_on = plugin_pb2.DEPENDENCY_NODE if shares else plugin_pb2.DEPENDENCY_NODE_PODS
    found = await Cluster(called, points=points, depends_on=depends_on).pre_filter()
    assert (found.skip, found.status.message if found.status else "", found.nodes) == (skip, refusal, nodes)
    assert not found.unanswered


async def test_a_refusal_of_a_class_is_not_shared() -> None:
    called = CalledPlugin(PreFilter=filter_pb2.PreFilterResponse(status=REFUSED))
    cluster = Cluster(called, depends_on=plugin_pb2.DEPENDENCY_NODE)
    for number in (1, 2):
        refusal = (await cluster.pre_filter(number)).status
        assert refusal is not None
        assert refusal.message == "full"
    assert len(called.requests) == 2


@pytest.mark.parametrize("ignore", [False, True])
@pytest.mark.parametrize(("answer", "text"), [(AWAY, "away"), (filter_pb2.PreFilterResponse(status=ERROR), "broken")])
async def test_a_pre_filter_that_fails_is_an_error_or_left_out_for_now(answer: Any, text: str, ignore: bool) -> None:
    found = await Cluster(CalledPlugin(PreFilter=answer), ignore=ignore).pre_filter()
    assert (found.skip, found.unanswered) == (ignore, ignore)
    if ignore:
        assert found.status is None
    else:
        assert found.status is not None
        assert found.status.code is status.Code.ERROR
        assert found.status.message == f'running PreFilter plugin "Quota": {text}'


@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("ignore", [False, True])
@pytest.mark.parametrize(("answer", "text"), [(AWAY, "away"), (answering("n1", failed="n2"), "broken")])
async def test_a_filter_that_fails_is_an_error_or_passes_all_for_now(
    answer: Any, text: str, ignore: bool, shares: bool
) -> None:
    called = CalledPlugin(Filter=answer)
    depends_on = plugin_pb2.DEPENDENCY_NODE if shares else plugin_pb2.DEPENDENCY_CLUSTER
    cluster = Cluster(called, points=(FILTER,), ignore=ignore, depends_on=depends_on)
    state = (await cluster.pre_filter()).state
    if ignore:
        assert await cluster.refusals(state) == [None] * 3
        assert state.unanswered
    else:
        failed = await cluster.plugin.prepare(cluster.snap.classes[1], cluster.snap, state, SLOTS, cluster.table)
        assert failed is not None
        assert (failed.code, failed.message) == (status.Code.ERROR, f'running "Quota" filter plugin: {text}')
    called.answers["Filter"] = answering("n0")
    assert await cluster.refusals(state) == ["full", None, None]
    assert not state.unanswered


async def test_many_nodes_are_several_calls_each_with_its_own_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trireme.remote.remote_request.NODES_PER_CALL", 2)
    called = CalledPlugin(Filter=answering("n0", "n2"))
    cluster = Cluster(called, points=(FILTER,), depends_on=plugin_pb2.DEPENDENCY_CLUSTER)
    assert await cluster.refusals((await cluster.pre_filter()).state) == ["full", None, "full"]
    assert [len(request.nodes.nodes) for request in called.requests_of("Filter")] == [2, 1]


@pytest.mark.parametrize("follows", [False, True])
async def test_only_a_plugin_that_follows_the_cluster_may_know_more_than_the_call(follows: bool) -> None:
    def newer(request: Any) -> Any:
        columns = filter_pb2.NodeColumns(
            size=3, status_index=[0] * 3, capacity=[UNLIMITED] * 3, generation=request.cycle.generation + 1
        )
        return filter_pb2.FilterResponse(columns=columns)

    called = CalledPlugin(Filter=newer)
    data = plugin_pb2.NODE_DATA_SNAPSHOT if follows else plugin_pb2.NODE_DATA_NAMES
    cluster = Cluster(called, points=(FILTER,), node_data=data, depends_on=plugin_pb2.DEPENDENCY_CLUSTER)
    state = (await cluster.pre_filter()).state
    failed = await cluster.plugin.prepare(cluster.snap.classes[1], cluster.snap, state, SLOTS, cluster.table)
    assert (failed is None) is follows


# --- dry runs --------------------------------------------------------------------------------------------------------

RUNS = (interfaces.DryRun(1, (1,), (2,)), interfaces.DryRun(0, (0,)), interfaces.DryRun(2, ()))


@pytest.mark.parametrize("follows", [False, True])
async def test_a_dry_run_says_which_pods_are_gone_and_which_are_there(follows: bool) -> None:
    """In rows and classes for a plugin that follows the cluster, and in what it reads of pods for another."""
    called = CalledPlugin(FilterDryRun=answering("n0"))
    data = plugin_pb2.NODE_DATA_SNAPSHOT if follows else plugin_pb2.NODE_DATA_NAMES
    fields = ["metadata.name", "metadata.uid", "spec.nodeName", "spec.containers"]
    cluster = Cluster(called, node_data=data, pod_fields=fields, depends_on=plugin_pb2.DEPENDENCY_CLUSTER)
    state = remote_filter.filter_state.RemoteFilterState(b"own")
    assert await cluster.dry_runs(state, *RUNS) == [None, "full", None]
    (request,) = called.requests_of("FilterDryRun")
    assert (request.cycle.state, request.cycle.generation) == (b"own", cluster.snap.generation)
    assert [run.node.name for run in request.runs] == ["n1", "n0", "n2"]
    first = request.runs[0]
    if follows:
        assert [(run.slot, list(run.removed_rows), list(run.added_classes)) for run in request.runs] == [
            (1, [1], [2]),
            (0, [0], []),
            (2, [], []),
        ]
        assert (list(first.removed_pods), list(first.added_pods)) == ([], [])
    else:
        (gone,), (added,) = first.removed_pods, first.added_pods
        row = 1
        pods = cluster.snap.pods
        assert (gone.metadata.uid, gone.metadata.name, gone.spec.node_name) == (pods.uids[row], pods.names[row], "n1")
        cpus = [pod.spec.containers[0].resources.requests["cpu"].string for pod in (gone, added)]
        assert cpus == ["1", "2"]
        assert (list(first.removed_rows), list(first.added_classes)) == ([], [])
        assert [len(run.removed_pods) for run in request.runs] == [1, 1, 0]


async def test_many_dry_runs_are_several_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_filter, "RUNS_PER_CALL", 2)
    called = CalledPlugin(FilterDryRun=answering("n2"))
    cluster = Cluster(called, depends_on=plugin_pb2.DEPENDENCY_CLUSTER)
    state = remote_filter.filter_state.RemoteFilterState(b"")
    assert await cluster.dry_runs(state, *RUNS) == [None, None, "full"]
    assert [len(request.runs) for request in called.requests_of("FilterDryRun")] == [2, 1]


@pytest.mark.parametrize("ignore", [False, True])
@pytest.mark.parametrize(("answer", "text"), [(AWAY, "away"), (answering("n1", failed="n0"), "broken")])
async def test_a_dry_run_that_fails_refuses_all_or_passes_all(answer: Any, text: str, ignore: bool) -> None:
    cluster = Cluster(CalledPlugin(FilterDryRun=answer), ignore=ignore, depends_on=plugin_pb2.DEPENDENCY_CLUSTER)
    state = remote_filter.filter_state.RemoteFilterState(b"")
    refusal = None if ignore else f'running "Quota" filter plugin: {text}'
    assert await cluster.dry_runs(state, *RUNS) == [refusal] * 3


async def test_dry_runs_and_what_they_read_are_recorded() -> None:
    called = CalledPlugin(Filter=answering("n1"), FilterDryRun=answering("n0"))
    cluster = Cluster(called, points=(FILTER,), depends_on=plugin_pb2.DEPENDENCY_CLUSTER)
    state = (await cluster.pre_filter()).state
    with answer_recording.recording(wanted=True) as collected:
        assert collected is not None
        await cluster.dry_runs(state, *RUNS)
        await cluster.refusals(state)
    answers = remote_answer_pb2.RemoteAnswers.FromString(collected.content()).answers
    assert [(each.plugin, each.pod_class, each.WhichOneof("answer")) for each in answers] == [
        ("Quota", 1, "dry_runs"),
        ("Quota", 1, "nodes"),
    ]
    assert [run.status for run in answers[0].dry_runs.runs] == [0, 1, 0]


async def test_dry_runs_on_many_nodes_are_about_their_own_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one call of Filter could not have all of them."""
    monkeypatch.setattr("trireme.remote.remote_request.NODES_PER_CALL", 1)
    cluster = Cluster(CalledPlugin(FilterDryRun=answering("n0")), depends_on=plugin_pb2.DEPENDENCY_CLUSTER)
    state = remote_filter.filter_state.RemoteFilterState(b"own")
    assert await cluster.dry_runs(state, *RUNS) == [None, "full", None]


@pytest.mark.parametrize("shares", [False, True])
async def test_a_node_that_was_refused_passes_while_a_failure_is_ignored(shares: bool) -> None:
    called = CalledPlugin(Filter=answering("n1"))
    depends_on = plugin_pb2.DEPENDENCY_NODE if shares else plugin_pb2.DEPENDENCY_CLUSTER
    cluster = Cluster(called, points=(FILTER,), ignore=True, depends_on=depends_on)
    state = (await cluster.pre_filter()).state
    assert await cluster.refusals(state) == [None, "full", None]
    called.answers["Filter"] = AWAY
    if not shares:  # else nothing is called about nodes that have not changed
        assert await cluster.refusals(state) == [None] * 3
        assert state.unanswered
