"""Remote filter and score plugins as the phases ask them, against plugins that answer well, badly, late and never."""

import asyncio
import contextlib
import functools
import re
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from tests.contract.plugin_bench import Bench
from tests.contract.plugin_servers import (
    FILTER,
    NORMALIZE,
    PRE_FILTER,
    PRE_SCORE,
    SCORE,
    SUCCESS,
    UNLIMITED,
    ScriptedPlugin,
    passing,
    remote,
    scored,
)
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.remote import plugin_statistics, remote_connection, remote_filter, remote_score
from trireme.remote.remote_breaker import State
from trireme.v1 import filter_pb2, plugin_pb2, score_pb2, snapshot_pb2, status_pb2

REFUSED = status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE, plugin="P", messages=["too far away"])
CALL_FAILED = (status.Reason("pluginCallFailed"),)
IGNORE = {"failure_policy": snapshot_pb2.FAILURE_POLICY_IGNORE}
# What it answers about nodes is not shared, nor known until they change.
CALLED_EACH_TIME = {"depends_on": plugin_pb2.DEPENDENCY_NODE_PODS}


async def test_verdicts_come_in_the_order_of_the_slots(bench: Bench) -> None:
    """If this fails, a refusal lands on another node."""

    def answer(request: filter_pb2.FilterRequest) -> filter_pb2.FilterResponse:
        even = [int(view.name[5:]) % 2 == 0 for view in request.nodes.nodes]
        columns = filter_pb2.NodeColumns(
            size=len(even),
            statuses=[REFUSED],
            status_index=[0 if passes else 1 for passes in even],
            capacity=[3 if passes else 0 for passes in even],
        )
        return filter_pb2.FilterResponse(columns=columns)

    target = await bench.serve(ScriptedPlugin({FILTER: answer}))
    # More than one call, so that the parts are put together too.
    plugin = bench.make_filter_plugin(4500, target, info={"depends_on": plugin_pb2.DEPENDENCY_NODE_PODS})
    verdicts = await bench.filter(plugin)
    assert isinstance(verdicts, interfaces.Verdicts)
    assert verdicts.capacity is not None
    assert verdicts.index.tolist() == [0, 1] * 2250
    assert verdicts.capacity.tolist() == [3, 0] * 2250
    assert bench.table.statuses == [status.unschedulable("P", "too far away")]


async def test_the_plugin_sees_the_cycle_and_only_what_it_reads(bench: Bench) -> None:
    """If this fails, a plugin decides by nothing, or is told more of the pod than it asked for."""
    served = ScriptedPlugin({FILTER: passing})
    plugin = bench.make_filter_plugin(1, await bench.serve(served), info={"pod_fields": ["metadata.namespace"]})
    await bench.filter(plugin, b"my state")
    (request,) = served.requests
    cycle = request.cycle
    assert (cycle.fence.epoch, cycle.config_hash, cycle.generation, cycle.pod_class) == (9, 11, 7, 1)
    assert (cycle.profile, cycle.state) == ("default-scheduler", b"my state")
    assert cycle.pod.metadata.namespace == "shop"
    assert not cycle.pod.metadata.labels
    assert request.count == UNLIMITED


@pytest.mark.parametrize(
    ("form", "message", "json"),
    [(plugin_pb2.NODE_DATA_MESSAGES, "node-0", b""), (plugin_pb2.NODE_DATA_JSON, "", b'{"a":1}')],
    ids=["messages", "json"],
)
async def test_a_plugin_that_reads_nodes_gets_node_objects(
    bench: Bench, form: plugin_pb2.NodeData.ValueType, message: str, json: bytes
) -> None:
    """If this fails, a plugin gets nodes without the data that it decides by."""
    served = ScriptedPlugin({FILTER: passing})
    plugin = bench.make_filter_plugin(1, await bench.serve(served), info={"node_data": form})
    await bench.filter(plugin)
    (view,) = served.requests[0].nodes.nodes
    assert (view.name, view.node.metadata.name, view.json) == ("node-0", message, json)


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (lambda _: (grpc.StatusCode.INTERNAL, "boom\nand more"), "INTERNAL: boom and more"),
        (lambda _: (grpc.StatusCode.INVALID_ARGUMENT, "odd pod"), "INVALID_ARGUMENT: odd pod"),
        (lambda _: (grpc.StatusCode.INTERNAL, "x" * 1000), "INTERNAL: " + "x" * 299 + "…"),
        (lambda _: None, "no answer within 200 ms"),
        (
            lambda _: filter_pb2.FilterResponse(),
            "the answer to Filter is wrong: columns.size: 0, but the call is about 2 nodes",
        ),
        (lambda _: b"\xff\xff", "the answer to Filter is wrong: Error parsing message"),
    ],
    ids=["an error", "invalid", "a long text", "no answer", "a wrong answer", "no message at all"],
)
@pytest.mark.parametrize("ignore", [False, True], ids=["fail", "ignore"])
async def test_a_failed_call_follows_the_failure_policy(bench: Bench, answer: Any, detail: str, ignore: bool) -> None:
    """If this fails, a failing plugin crashes the phase, blocks pods for no reason, or lets pods through unseen."""
    target = await bench.serve(ScriptedPlugin({FILTER: answer}))
    policy = IGNORE if ignore else {}
    deadline_ms = 200 if "within 200 ms" in detail else 20_000
    plugin = bench.make_filter_plugin(2, target, deadline_ms=deadline_ms, **policy)
    outcome = await bench.filter(plugin)
    if ignore:
        assert outcome is None
        return
    assert isinstance(outcome, status.Status)
    assert outcome.code is status.Code.ERROR
    assert outcome.plugin == "P"
    assert outcome.message.startswith(f'running "P" filter plugin: {target}: {detail}')


async def test_an_error_status_of_one_node_is_worded_as_kube_scheduler_does(bench: Bench) -> None:
    """If this fails, the event of a pod whose plugin failed reads otherwise than kube-scheduler's."""
    failed = status_pb2.Status(code=status_pb2.CODE_ERROR, messages=["disk on fire"])
    columns = filter_pb2.NodeColumns(size=2, statuses=[failed], status_index=[0, 1], capacity=[UNLIMITED, 0])
    target = await bench.serve(ScriptedPlugin({FILTER: lambda _: filter_pb2.FilterResponse(columns=columns)}))
    outcome = await bench.filter(bench.make_filter_plugin(2, target))
    assert outcome == status.error("P", 'running "P" filter plugin: disk on fire', reasons=CALL_FAILED)


async def test_one_failed_part_fails_the_question(bench: Bench) -> None:
    """If this fails, the nodes of a part that failed count as passed."""

    def answer(request: filter_pb2.FilterRequest) -> Any:
        if request.nodes.nodes[0].name == "node-2000":
            return (grpc.StatusCode.INTERNAL, "boom")
        return passing(request)

    target = await bench.serve(ScriptedPlugin({FILTER: answer}))
    outcome = await bench.filter(bench.make_filter_plugin(9000, target))
    assert isinstance(outcome, status.Status)
    assert outcome.message.endswith("INTERNAL: boom")


async def test_an_endpoint_that_is_down_is_passed_over(bench: Bench, tmp_path: Path) -> None:
    """If this fails, one dead replica of a plugin makes every second question fail."""
    served = ScriptedPlugin({FILTER: passing})
    target = await bench.serve(served)
    plugin = bench.make_filter_plugin(1, f"unix:{tmp_path}/nobody.sock", target, info=CALLED_EACH_TIME)
    for _ in range(3):
        assert isinstance(await bench.filter(plugin), interfaces.Verdicts)
    assert len(served.requests) == 3
    assert bench.plugins.connections.statistics()["P"].failed == 0


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED], ids=lambda code: code.name)
async def test_a_failed_endpoint_is_avoided_for_a_while(bench: Bench, code: grpc.StatusCode) -> None:
    """If this fails, each call fails first at the replica that is going down.

    A server of gRPC that stops answers UNAVAILABLE before it has accepted a connection, CANCELLED after.
    """
    failing = ScriptedPlugin({FILTER: lambda _: (code, "going down")})
    well = ScriptedPlugin({FILTER: passing})
    targets = await bench.serve(failing, "a.sock"), await bench.serve(well, "b.sock")
    plugin = bench.make_filter_plugin(1, *targets, info=CALLED_EACH_TIME)
    for _ in range(3):
        assert isinstance(await bench.filter(plugin), interfaces.Verdicts)
    assert (len(failing.requests), len(well.requests)) == (1, 3)


async def test_all_endpoints_down_names_the_last(bench: Bench, tmp_path: Path) -> None:
    """If this fails, the pod's event does not say where nobody answers."""
    plugin = bench.make_filter_plugin(1, f"unix:{tmp_path}/one.sock", f"unix:{tmp_path}/two.sock")
    outcome = await bench.filter(plugin)
    assert isinstance(outcome, status.Status)
    assert outcome.message.startswith(f'running "P" filter plugin: unix:{tmp_path}/two.sock: UNAVAILABLE: ')


async def test_the_breaker_spares_the_deadline(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, every pod waits out the deadline of a plugin that hangs; or it is never asked again."""
    now = 0.0
    connection = functools.partial(remote_connection.PluginConnection, clock=lambda: now)
    monkeypatch.setattr(remote_connection, "PluginConnection", connection)
    served = ScriptedPlugin({FILTER: lambda _: None})
    target = await bench.serve(served)
    plugin = bench.make_filter_plugin(1, target, deadline_ms=200, breaker_failures=2, breaker_open_ms=300)
    for _ in range(2):
        await bench.filter(plugin)
    assert bench.plugins.connections.statistics()["P"].breaker is State.OPEN
    outcome = await bench.filter(plugin)
    assert isinstance(outcome, status.Status)
    why = "because the last 2 calls of Filter failed, about this or other pods, the last one with: "
    assert re.search(
        "Filter was not called: the circuit breaker of plugin P is open since [0-9:]{8} UTC, until [0-9:]{8} UTC, "
        f"{why}",
        outcome.message,
    )
    assert len(served.requests) == 2

    served.answers[FILTER] = passing
    attempts = 0
    while bench.plugins.connections.statistics()["P"].breaker is not State.CLOSED:
        # On a busy machine an answer may miss the deadline, which opens the breaker again.
        assert attempts < 20
        attempts += 1
        now += 0.301
        outcome = await bench.filter(plugin)
    assert isinstance(outcome, interfaces.Verdicts)
    statistics = bench.plugins.connections.statistics()["P"]
    opened = statistics.breakers["Filter"].opened
    assert (statistics.failed, statistics.answered, opened) == (attempts + 1, 1, attempts)


async def test_an_rpc_that_always_fails_is_not_called_though_another_answers(bench: Bench) -> None:
    """If this fails, each pod waits out Score's deadline, because PreScore of the same plugin answers before it."""
    served = ScriptedPlugin({PRE_SCORE: lambda _: score_pb2.PreScoreResponse(status=SUCCESS), SCORE: lambda _: None})
    points = [plugin_pb2.EXTENSION_POINT_PRE_SCORE, plugin_pb2.EXTENSION_POINT_SCORE]
    info = {"extension_points": points, "depends_on": plugin_pb2.DEPENDENCY_CLUSTER}
    target = await bench.serve(served)
    plugin = bench.make_score_plugin(1, target, info=info, deadline_ms=200, breaker_failures=2, breaker_open_ms=60_000)
    for _ in range(4):
        failed = await bench.score(plugin)
    assert isinstance(failed, status.Status)
    assert failed.message.startswith('running Score plugins: plugin "P" failed with: Score was not called: ')
    assert failed.message.endswith(
        f"about this or other pods, the last one with: {target}: no answer within 200 ms (remotePlugins[].deadline)"
    )
    assert [type(request) for request in served.requests].count(score_pb2.ScoreRequest) == 2
    statistics = bench.plugins.connections.statistics()["P"]
    states = {rpc: breaker.state for rpc, breaker in statistics.breakers.items()}
    assert states == {"PreScore": State.CLOSED, "Score": State.OPEN}
    assert (statistics.breaker, statistics.answered, statistics.failed) == (State.OPEN, 4, 2)
    begin = f"Score is not called: {target}: no answer within 200 ms (remotePlugins[].deadline)"
    assert re.fullmatch(re.escape(begin) + r" \(until [0-9:]{8} UTC\)", statistics.last_error)
    sent = plugin_statistics.to_message("P", statistics)
    assert (sent.last_error, sent.HasField("last_error_age_ms")) == (statistics.last_error, True)


async def test_a_status_with_an_unknown_code_fails_the_call(bench: Bench) -> None:
    """If this fails, a plugin that answers nothing usable looks healthy, and nobody learns which answer is wrong."""
    unknown = status_pb2.Status.FromString(bytes([1 << 3, 42]))
    target = await bench.serve(ScriptedPlugin({SCORE: lambda _: score_pb2.ScoreResponse(status=unknown)}))
    plugin = bench.make_score_plugin(2, target, breaker_failures=2, breaker_open_ms=60_000)
    for _ in range(2):
        failed = await bench.score(plugin)
        text = f"{target}: the answer to Score is wrong: status.code: 42 is not known here"
        message = f'running Score plugins: plugin "P" failed with: {text}'
        assert failed == status.error("P", message, reasons=CALL_FAILED)
    statistics = bench.plugins.connections.statistics()["P"]
    assert (statistics.failed, statistics.answered, statistics.breaker) == (2, 0, State.OPEN)


class _FailsToEnter(contextlib.AbstractContextManager[None]):
    """What a call is made within; entering it fails."""

    def __enter__(self) -> None:
        raise RuntimeError("not entered")

    def __exit__(self, *_: object) -> None:
        """Nothing to leave."""


@pytest.mark.parametrize("stream", [False, True])
async def test_a_probe_that_is_never_sent_leaves_room_for_the_next(bench: Bench, stream: bool) -> None:
    """If this fails, a fault of the caller's after the breaker admitted it shuts the plugin out forever."""
    now = 0.0
    served = ScriptedPlugin({FILTER: lambda _: (grpc.StatusCode.INTERNAL, "broken")})
    config = remote(await bench.serve(served), breaker_failures=1, breaker_open_ms=1000)
    connection = remote_connection.PluginConnection(config, clock=lambda: now)
    method = remote_connection.Method(FILTER, filter_pb2.FilterResponse)

    async def call(during: remote_connection.During = contextlib.nullcontext) -> None:
        if stream:
            async for _ in connection.call_stream(method, b"", during):
                pass
        else:
            await connection.call(method, b"", lambda response: response, during)

    try:
        with pytest.raises(remote_connection.PluginError, match="broken"):
            await call()
        now = 1.0
        with pytest.raises(RuntimeError, match="not entered"):
            await call(_FailsToEnter)
        served.answers[FILTER] = passing
        await call()
        assert connection.statistics().breaker is State.CLOSED
    finally:
        await connection.close()


async def test_refusing_and_not_understanding_are_answers(bench: Bench) -> None:
    """If this fails, one odd pod opens the breaker for all others."""
    target = await bench.serve(ScriptedPlugin({FILTER: lambda _: (grpc.StatusCode.INVALID_ARGUMENT, "odd")}))
    plugin = bench.make_filter_plugin(1, target, breaker_failures=1, breaker_open_ms=60_000)
    for _ in range(3):
        await bench.filter(plugin)
    assert bench.plugins.connections.statistics()["P"].breaker is State.CLOSED


async def test_no_more_calls_at_once_than_the_plugin_takes(bench: Bench) -> None:
    """If this fails, a plugin that serves one call at a time is asked for eight, and misses its deadlines."""
    served = ScriptedPlugin({FILTER: passing})
    served.gate.clear()
    plugin = bench.make_filter_plugin(9000, await bench.serve(served), info={"max_concurrent_calls": 2})
    asking = asyncio.create_task(bench.filter(plugin))
    await served.until_running(2)
    await asyncio.sleep(0.05)
    statistics = bench.plugins.connections.statistics()["P"]
    assert (statistics.in_flight, statistics.waiting) == (2, 3)
    served.gate.set()
    assert isinstance(await asking, interfaces.Verdicts)
    assert served.most_running == 2
    assert len(served.requests) == 5


async def test_waiting_for_a_turn_does_not_count_against_the_deadline(bench: Bench) -> None:
    """If this fails, the last of many classes fails though the plugin answers each in time."""
    served = ScriptedPlugin({FILTER: passing})
    plugin = bench.make_filter_plugin(1, await bench.serve(served), deadline_ms=900, info={"max_concurrent_calls": 1})

    async def slowly() -> None:
        for _ in range(5):
            served.gate.clear()
            await asyncio.sleep(0.25)
            served.gate.set()
            await asyncio.sleep(0.01)

    answers = await asyncio.gather(slowly(), *(bench.filter(plugin) for _ in range(5)))
    assert all(isinstance(answer, interfaces.Verdicts) for answer in answers[1:])


async def test_a_cancelled_caller_cancels_its_call(bench: Bench) -> None:
    """If this fails, abandoned questions keep a plugin busy that takes few at once."""
    served = ScriptedPlugin({FILTER: lambda _: None})
    plugin = bench.make_filter_plugin(1, await bench.serve(served), info={"max_concurrent_calls": 1})
    asking = asyncio.create_task(bench.filter(plugin))
    await served.until_running(1)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    served.answers[FILTER] = passing
    assert isinstance(await bench.filter(plugin), interfaces.Verdicts)
    assert served.cancelled == 1


async def test_a_closed_connection_is_a_failure_and_no_cancellation(bench: Bench) -> None:
    """If this fails, a phase that takes a new configuration cancels the calls of its clients."""
    served = ScriptedPlugin({FILTER: lambda _: None})
    plugin = bench.make_filter_plugin(1, await bench.serve(served))
    asking = asyncio.create_task(bench.filter(plugin))
    await served.until_running(1)
    await bench.plugins.connections.close()
    outcome = await asking
    assert isinstance(outcome, status.Status)
    assert outcome.message.endswith("the connection was closed")


async def test_profiles_share_the_plugins_turns(bench: Bench) -> None:
    """If this fails, two profiles ask a plugin twice as much at once as it takes."""
    served = ScriptedPlugin({FILTER: passing})
    target = await bench.serve(served)
    one = bench.make_filter_plugin(1, target, info={"max_concurrent_calls": 1})
    other = bench.make_filter_plugin(1, target, info={"max_concurrent_calls": 1})
    await asyncio.gather(*(bench.filter(plugin) for plugin in (one, other) * 4))
    assert served.most_running == 1


# PreFilter.


def pre_filter_plugin(bench: Bench, target: str, **fields: Any) -> remote_filter.RemoteFilterPlugin:
    """P with PreFilter."""
    points = [plugin_pb2.EXTENSION_POINT_PRE_FILTER, plugin_pb2.EXTENSION_POINT_FILTER]
    return bench.make_filter_plugin(1, target, info={"extension_points": points}, **fields)


async def test_pre_filter_is_called_only_where_it_is_implemented(bench: Bench) -> None:
    """If this fails, each class costs one call more, to a plugin that answers UNIMPLEMENTED."""
    served = ScriptedPlugin({FILTER: passing})
    plugin = bench.make_filter_plugin(1, await bench.serve(served))
    result = await plugin.pre_filter(bench.pod_class, bench.snap)
    assert result == interfaces.PreFilterResult(state=result.state)
    assert result.state.pre_filter == b""
    assert served.requests == []


async def test_pre_filter_narrows_and_gives_state(bench: Bench) -> None:
    """If this fails, Filter is asked without the state of its own PreFilter."""
    answer = filter_pb2.PreFilterResponse(status=SUCCESS, narrowed=True, node_names=["node-0"], state=b"s")
    plugin = pre_filter_plugin(bench, await bench.serve(ScriptedPlugin({PRE_FILTER: lambda _: answer})))
    result = await plugin.pre_filter(bench.pod_class, bench.snap)
    assert result == interfaces.PreFilterResult(nodes=frozenset({"node-0"}), state=result.state)
    assert result.state.pre_filter == b"s"


@pytest.mark.parametrize(
    ("answer", "skips"),
    [
        (filter_pb2.PreFilterResponse(status=SUCCESS), True),
        (filter_pb2.PreFilterResponse(status=SUCCESS, narrowed=True, node_names=["node-0"]), False),
        (filter_pb2.PreFilterResponse(status=REFUSED), False),
    ],
    ids=["passes", "narrows", "refuses"],
)
async def test_a_plugin_without_filter_counts_where_its_pre_filter_says_something(
    bench: Bench, answer: filter_pb2.PreFilterResponse, skips: bool
) -> None:
    """If this fails, Filter is called though it is not served, or what PreFilter said is lost."""
    target = await bench.serve(ScriptedPlugin({PRE_FILTER: lambda _: answer}))
    plugin = bench.make_filter_plugin(1, target, info={"extension_points": [plugin_pb2.EXTENSION_POINT_PRE_FILTER]})
    result = await plugin.pre_filter(bench.pod_class, bench.snap)
    assert (result.skip, result.nodes, result.status is not None) == (
        skips,
        frozenset({"node-0"}) if answer.narrowed else None,
        answer.status.code == status_pb2.CODE_UNSCHEDULABLE,
    )


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: filter_pb2.PreFilterResponse(status=status_pb2.Status(code=status_pb2.CODE_ERROR, messages=["bad"])),
        lambda _: filter_pb2.PreFilterResponse(),
        lambda _: (grpc.StatusCode.INTERNAL, "boom"),
    ],
    ids=["a status", "no status", "an error"],
)
async def test_a_failed_pre_filter_follows_the_failure_policy(bench: Bench, answer: Any) -> None:
    """If this fails, a pod whose plugin failed counts as refused, and preemption is tried for it."""
    target = await bench.serve(ScriptedPlugin({PRE_FILTER: answer}))
    failed = await pre_filter_plugin(bench, target).pre_filter(bench.pod_class, bench.snap)
    assert failed.status is not None
    assert failed.status.code is status.Code.ERROR
    assert failed.status.message.startswith('running PreFilter plugin "P": ')
    ignored = await pre_filter_plugin(bench, target, **IGNORE).pre_filter(bench.pod_class, bench.snap)
    assert ignored.status is None
    assert ignored.skip
    assert ignored.unanswered


# Score.


async def test_scores_come_in_the_order_of_the_slots(bench: Bench) -> None:
    """If this fails, a score lands on another node."""
    plugin = bench.make_score_plugin(4500, await bench.serve(ScriptedPlugin({SCORE: scored})))
    assert (await bench.score(plugin)).tolist() == [min(slot, 100) for slot in range(4500)]


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({SCORE: lambda _: (grpc.StatusCode.INTERNAL, "boom")}, 'running Score plugins: plugin "P" failed with: '),
        (
            {SCORE: lambda _: score_pb2.ScoreResponse(status=REFUSED)},
            'running Score plugins: plugin "P" failed with: too far away',
        ),
        (
            {SCORE: scored, PRE_SCORE: lambda _: score_pb2.PreScoreResponse(status=REFUSED)},
            'running PreScore plugin "P": {target}: the answer to PreScore is wrong: status.code: Unschedulable does '
            "not belong here; allowed: Success, Skip, Error",
        ),
        ({SCORE: scored, PRE_SCORE: lambda _: (grpc.StatusCode.INTERNAL, "x")}, 'running PreScore plugin "P": '),
    ],
    ids=["an error", "a status", "a status of PreScore", "an error of PreScore"],
)
async def test_a_failed_score_follows_the_failure_policy(bench: Bench, answers: Any, words: str) -> None:
    """If this fails, pods are placed by half the scores, or the event reads otherwise than kube-scheduler's."""
    points = [plugin_pb2.EXTENSION_POINT_SCORE]
    if PRE_SCORE in answers:
        points.append(plugin_pb2.EXTENSION_POINT_PRE_SCORE)
    target = await bench.serve(ScriptedPlugin(answers))
    outcome = await bench.score(bench.make_score_plugin(2, target, info={"extension_points": points}))
    assert isinstance(outcome, status.Status)
    assert outcome.message.startswith(words.replace("{target}", target))
    assert await bench.score(bench.make_score_plugin(2, target, info={"extension_points": points}, **IGNORE)) is None


@pytest.mark.parametrize(
    ("depends_on", "asked", "scored_again"),
    [
        (plugin_pb2.DEPENDENCY_NODE, 1, 1),
        (plugin_pb2.DEPENDENCY_NODE_PODS, 1, 3),
        (plugin_pb2.DEPENDENCY_CLUSTER, 3, 3),
    ],
    ids=["node", "node and pods", "cluster"],
)
async def test_pre_score_is_cached_while_its_result_is_valid(
    bench: Bench, depends_on: plugin_pb2.Dependency.ValueType, asked: int, scored_again: int
) -> None:
    """If this fails, each batch costs a call more than it must, or a plugin scores by state of another cluster."""
    served = ScriptedPlugin(
        {SCORE: scored, PRE_SCORE: lambda _: score_pb2.PreScoreResponse(status=SUCCESS, state=b"s")}
    )
    points = [plugin_pb2.EXTENSION_POINT_PRE_SCORE, plugin_pb2.EXTENSION_POINT_SCORE]
    target = await bench.serve(served)
    plugin = bench.make_score_plugin(2, target, info={"extension_points": points, "depends_on": depends_on})
    for _ in range(3):
        assert (await bench.score(plugin)).tolist() == [0, 1]
    pre_scores = [request for request in served.requests if isinstance(request, score_pb2.PreScoreRequest)]
    scores = [request for request in served.requests if isinstance(request, score_pb2.ScoreRequest)]
    assert len(pre_scores) == asked
    assert [request.cycle.state for request in scores] == [b"s"] * scored_again


async def test_pre_score_that_skips_costs_no_further_call(bench: Bench) -> None:
    """If this fails, a plugin that has nothing to say about a class is asked again for each of its batches."""
    skip = status_pb2.Status(code=status_pb2.CODE_SKIP)
    served = ScriptedPlugin({SCORE: scored, PRE_SCORE: lambda _: score_pb2.PreScoreResponse(status=skip)})
    points = [plugin_pb2.EXTENSION_POINT_PRE_SCORE, plugin_pb2.EXTENSION_POINT_SCORE]
    plugin = bench.make_score_plugin(2, await bench.serve(served), info={"extension_points": points})
    for _ in range(3):
        assert await bench.score(plugin) is None
    assert len(served.requests) == 1


async def test_custom_normalization_gets_all_scores(bench: Bench) -> None:
    """If this fails, a plugin normalises by a part of the nodes."""
    seen = []

    def normalize(request: score_pb2.NormalizeScoreRequest) -> score_pb2.NormalizeScoreResponse:
        seen.append((list(request.scores), [view.name for view in request.nodes.nodes]))
        scores = [score * 100 // max(request.scores) for score in request.scores]
        return score_pb2.NormalizeScoreResponse(status=SUCCESS, scores=scores)

    target = await bench.serve(ScriptedPlugin({NORMALIZE: normalize}))
    points = [plugin_pb2.EXTENSION_POINT_SCORE, plugin_pb2.EXTENSION_POINT_NORMALIZE_SCORE]
    info = {"extension_points": points, "normalization": plugin_pb2.NORMALIZATION_CUSTOM}
    plugin = bench.make_score_plugin(3, target, info=info)
    state = remote_score.RemoteScoreState()
    answer = await plugin.normalize(bench.pod_class, bench.snap, state, np.array([0, 2]), np.array([5, 20]))
    assert isinstance(answer, np.ndarray)
    assert answer.tolist() == [25, 100]
    assert seen == [([5, 20], ["node-0", "node-2"])]


async def test_a_call_where_no_endpoint_is_ready_fails_at_once(bench: Bench) -> None:
    """If this fails, a Service whose last pod is not ready breaks the phase instead of its plugin's pods."""
    failed = await bench.filter(bench.make_filter_plugin(1))
    assert isinstance(failed, status.Status)
    assert failed.message == 'running "P" filter plugin: none of its endpoints is ready'
