"""The Python SDK: what a method returns wrongly, state as a value, and each profile's configuration in the queue."""

import contextlib
import dataclasses
import logging
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import numpy as np
import orjson
import pytest
from grpc import aio

from tests.contract import plugin_servers
from trireme import sdk
from trireme.sdk import logs, metrics
from trireme.v1 import (
    bind_pb2,
    bind_pb2_grpc,
    core_pb2,
    cycle_pb2,
    filter_pb2,
    filter_pb2_grpc,
    plugin_pb2,
    plugin_pb2_grpc,
    queue_pb2,
    queue_pb2_grpc,
    score_pb2,
    score_pb2_grpc,
    status_pb2,
)

DEADLINE = 20.0
CYCLE = cycle_pb2.Cycle(profile="p", generation=3)
NODES = filter_pb2.NodeSelection(nodes=[filter_pb2.NodeView(name="a"), filter_pb2.NodeView(name="b")])
ITEMS = [bind_pb2.BindItem(pod={"name": "x"}, node_name="a")]
PLACEMENTS = [filter_pb2.Placement(pod={"name": "x"}, node_name="a")]


@dataclasses.dataclass
class Stubs:
    """The services of a plugin."""

    plugin: Any
    queue: Any
    filter: Any
    score: Any
    bind: Any


@asynccontextmanager
async def served(plugin: Any, folder: Path) -> AsyncIterator[Stubs]:
    """The plugin on a Unix socket."""
    async with (
        plugin_servers.on_the_sdk(plugin, folder) as address,
        aio.insecure_channel(address) as channel,
    ):
        yield Stubs(
            plugin_pb2_grpc.PluginServiceStub(channel),
            queue_pb2_grpc.QueueServiceStub(channel),
            filter_pb2_grpc.FilterPluginStub(channel),
            score_pb2_grpc.ScorePluginStub(channel),
            bind_pb2_grpc.BindPluginStub(channel),
        )


def _pre_filter(stubs: Stubs) -> Any:
    return stubs.filter.PreFilter(filter_pb2.PreFilterRequest(cycle=CYCLE), timeout=DEADLINE)


def _filter(stubs: Stubs) -> Any:
    return stubs.filter.Filter(filter_pb2.FilterRequest(cycle=CYCLE, count=1, nodes=NODES), timeout=DEADLINE)


def _post_filter(stubs: Stubs) -> Any:
    return stubs.filter.PostFilter(filter_pb2.PostFilterRequest(cycle=CYCLE), timeout=DEADLINE)


def _reserve(stubs: Stubs) -> Any:
    return stubs.filter.Reserve(filter_pb2.ReserveRequest(cycle=CYCLE, placements=PLACEMENTS), timeout=DEADLINE)


def _pre_score(stubs: Stubs) -> Any:
    return stubs.score.PreScore(score_pb2.PreScoreRequest(cycle=CYCLE, nodes=NODES), timeout=DEADLINE)


def _score(stubs: Stubs) -> Any:
    return stubs.score.Score(score_pb2.ScoreRequest(cycle=CYCLE, nodes=NODES), timeout=DEADLINE)


def _normalize(stubs: Stubs) -> Any:
    request = score_pb2.NormalizeScoreRequest(cycle=CYCLE, nodes=NODES, scores=[1, 2])
    return stubs.score.NormalizeScore(request, timeout=DEADLINE)


def _permit(stubs: Stubs) -> Any:
    return stubs.bind.Permit(bind_pb2.PermitRequest(cycle=CYCLE, items=ITEMS), timeout=DEADLINE)


def _pre_bind_pre_flight(stubs: Stubs) -> Any:
    return stubs.bind.PreBindPreFlight(bind_pb2.PreBindPreFlightRequest(cycle=CYCLE, items=ITEMS), timeout=DEADLINE)


def _pre_bind(stubs: Stubs) -> Any:
    return stubs.bind.PreBind(bind_pb2.PreBindRequest(cycle=CYCLE, items=ITEMS), timeout=DEADLINE)


async def _bind(stubs: Stubs) -> Any:
    return [each async for each in stubs.bind.Bind(bind_pb2.BindRequest(cycle=CYCLE, items=ITEMS), timeout=DEADLINE)]


def _pre_enqueue(stubs: Stubs) -> Any:
    return stubs.queue.PreEnqueue(queue_pb2.PreEnqueueRequest(profile="p", pods=[core_pb2.Pod()]), timeout=DEADLINE)


def _hint(stubs: Stubs) -> Any:
    return stubs.queue.QueueingHint(queue_pb2.QueueingHintRequest(pods=[core_pb2.Pod()]), timeout=DEADLINE)


_NOTHING = "None or a status"
_PRE_FILTER = "None, SKIP, a status, or a PreFilter"
_RESERVE = "None, a status, a Reservation, or a filter_pb2.Reservation"
_PRE_SCORE = "None, SKIP, a status that is an error, bytes, or a PreScore"
_SKIPPING = "None, SKIP, or a status"
_VERDICT = "None, a number above 0, or a status"

# A method, its RPC, what it returns wrongly, and what the caller reads after "plugin P: ".
_WRONG: list[tuple[str, Callable[[Stubs], Any], Any, str]] = [
    ("pre_enqueue", _pre_enqueue, False, f"PreEnqueue: pre_enqueue returned False: must be {_NOTHING}"),
    ("pre_enqueue", _pre_enqueue, sdk.SKIP, f"PreEnqueue: pre_enqueue returned SKIP: must be {_NOTHING}"),
    ("queueing_hint", _hint, None, "QueueingHint: queueing_hint returned None: must be True or False"),
    ("pre_filter", _pre_filter, True, f"PreFilter: pre_filter returned True: must be {_PRE_FILTER}"),
    (
        "pre_filter",
        _pre_filter,
        sdk.PreFilter(nodes="node-1"),
        "PreFilter: pre_filter returned 'node-1' as nodes: must be a collection of names",
    ),
    ("pre_filter", _pre_filter, sdk.PreFilter([7]), "PreFilter: pre_filter returned 7 among nodes: must be a name"),  # type: ignore[list-item]
    ("filter", _filter, 1.5, f"Filter: filter returned 1.5: must be {_VERDICT}"),
    ("filter_nodes", _filter, 3, "Filter: filter_nodes returned 3: must be a sequence of verdicts, one a node"),
    ("filter_nodes", _filter, [None], "Filter: filter_nodes returned 1 verdicts of 2 nodes"),
    (
        "post_filter",
        _post_filter,
        "a",
        "PostFilter: post_filter returned 'a': must be None, a status, or a filter_pb2.PostFilterResponse",
    ),
    ("reserve", _reserve, 3, f"Reserve: reserve returned 3: must be {_RESERVE}"),
    ("reserve", _reserve, sdk.SKIP, f"Reserve: reserve returned SKIP: must be {_RESERVE}"),
    ("pre_score", _pre_score, 3, f"PreScore: pre_score returned 3: must be {_PRE_SCORE}"),
    ("score", _score, 0.5, "Score: score returned 0.5 as score 0: must be a whole number"),
    ("score_nodes", _score, None, "Score: score_nodes returned None: must be a sequence of scores, one a node"),
    ("score_nodes", _score, {"a": 1, "b": 2}, "Score: score_nodes returned {'a': 1, 'b': 2}: must be a sequence"),
    ("normalize_scores", _normalize, [1], "NormalizeScore: normalize_scores returned 1 scores of 2 nodes"),
    ("permit", _permit, 30, "Permit: permit returned 30: must be None, a status, or a Wait"),
    (
        "pre_bind_pre_flight",
        _pre_bind_pre_flight,
        True,
        f"PreBindPreFlight: pre_bind_pre_flight returned True: must be {_SKIPPING}",
    ),
    ("pre_bind", _pre_bind, 5, "PreBind: pre_bind returned 5: must be None, SKIP, a status, or a PreBindWait"),
    ("bind", _bind, sdk.Wait(3), f"Bind: bind returned Wait(seconds=3, message=''): must be {_SKIPPING}"),
]
# What a plugin with the method needs beside it.
_BESIDE = {"pre_bind_pre_flight": "pre_bind", "normalize_scores": "score", "queueing_hint": "filter"}


@pytest.mark.parametrize(("method", "call", "result", "problem"), _WRONG, ids=[f"{w[0]} {w[2]}" for w in _WRONG])
async def test_a_wrong_result_is_named_with_plugin_and_rpc(
    method: str, call: Callable[[Stubs], Any], result: Any, problem: str, tmp_path: Path
) -> None:
    """If this fails, an author looks for the mistake in the scheduler, or a wrong value becomes a wrong placement."""
    events = (sdk.Event("Node", "Add"),) if method == "queueing_hint" else ()
    body: dict[str, Any] = {"info": sdk.Info("P", events=events), method: lambda self, *_: result}
    if method in _BESIDE:
        body[_BESIDE[method]] = lambda self, *_: None
    async with served(type("P", (), body)(), tmp_path) as stubs:
        with pytest.raises(aio.AioRpcError) as raised:
            await call(stubs)
        assert raised.value.code() is grpc.StatusCode.INTERNAL
        assert str(raised.value.details()).startswith(f"plugin P: {problem}")


@dataclasses.dataclass(frozen=True)
class Zone:
    """A part of the state."""

    name: str
    weights: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What steps hand to the next."""

    zone: Zone
    most: int = 1


class Stateful:
    """Hands a value from each step to the next."""

    info = sdk.Info("Stateful")

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def pre_filter(self, call: sdk.Call) -> sdk.PreFilter:
        return sdk.PreFilter(["a"], Wanted(Zone("west", (1, 2)), 7))

    def filter(self, call: sdk.Call, node: sdk.Node) -> sdk.Verdict:
        self.seen.append(call.read_state(Wanted))
        assert call.deadline is not None
        return np.int64(2)  # type: ignore[return-value]  # a number as well

    def pre_score(self, call: sdk.Call, nodes: list[sdk.Node]) -> sdk.PreScore:
        return sdk.PreScore([len(nodes)])

    def score(self, call: sdk.Call, node: sdk.Node) -> int:
        (count,) = call.read_state(list[int]) or ()
        return count

    def reserve(self, call: sdk.Call, placement: filter_pb2.Placement) -> sdk.Reservation | sdk.Status:
        if placement.pod.name == "late":
            return sdk.pending("no licence left", "noLicence", product="cad")
        return sdk.Reservation(Wanted(Zone(placement.pod.name)))

    def pre_bind(self, call: sdk.Call, item: bind_pb2.BindItem) -> None:
        self.seen.append(sdk.read_state(item, Wanted))


async def test_state_is_a_value_of_the_authors_type(tmp_path: Path) -> None:
    """If this fails, authors pack bytes by hand, and another replica reads them otherwise."""
    plugin = Stateful()
    async with served(plugin, tmp_path) as stubs:
        prepared = await _pre_filter(stubs)
        cycle = cycle_pb2.Cycle(profile="p", state=prepared.state)
        answer = await stubs.filter.Filter(filter_pb2.FilterRequest(cycle=cycle, nodes=NODES), timeout=DEADLINE)
        assert list(answer.columns.capacity) == [2, 2]
        assert plugin.seen == [Wanted(Zone("west", (1, 2)), 7)] * 2
        scored = cycle_pb2.Cycle(profile="p", state=(await _pre_score(stubs)).state)
        scores = await stubs.score.Score(score_pb2.ScoreRequest(cycle=scored, nodes=NODES), timeout=DEADLINE)
        assert list(scores.scores) == [2, 2]
        late = filter_pb2.Placement(pod={"name": "late"}, node_name="a")
        request = filter_pb2.ReserveRequest(cycle=CYCLE, placements=[*PLACEMENTS, late])
        reserved, refused = (await stubs.filter.Reserve(request, timeout=DEADLINE)).reservations
        assert refused.status.code == status_pb2.CODE_PENDING
        assert refused.status.reasons[0].parameters["product"] == "cad"
        item = bind_pb2.BindItem(pod={"name": "x"}, node_name="a", state=reserved.state)
        await stubs.bind.PreBind(bind_pb2.PreBindRequest(cycle=CYCLE, items=[item]), timeout=DEADLINE)
        assert plugin.seen[-1] == Wanted(Zone("x"))


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        (b'{"zone": {"name": 3}}', "state.zone.name: must be str, not 3"),
        (b'{"zone": {"name": "a", "size": 3}}', "state.zone.size: Zone has no such field"),
        (b'{"zone": {"name": "a", "weights": ["b"]}}', "state.zone.weights[0]: must be int, not 'b'"),
        (b"{}", "state: "),
    ],
    ids=["a type", "a field", "an element", "a field that is missing"],
)
async def test_state_of_another_version_is_named(state: bytes, problem: str, tmp_path: Path) -> None:
    """If this fails, replicas of two versions exchange state that the older one misunderstands in silence."""
    async with served(Stateful(), tmp_path) as stubs:
        cycle = cycle_pb2.Cycle(profile="p", state=state)
        with pytest.raises(aio.AioRpcError) as raised:
            await stubs.filter.Filter(filter_pb2.FilterRequest(cycle=cycle, nodes=NODES), timeout=DEADLINE)
        expected = f"plugin Stateful: Filter: filter failed: ValueError: {problem}"
        assert str(raised.value.details()).startswith(expected)


class Zoned:
    """Wakes pods for nodes of the profile's zone."""

    info = sdk.Info("Zoned", events=(sdk.Event("Node", "Add"),), idempotent=True)

    def configure(self, configuration: sdk.Configuration) -> str:
        return str(configuration.args["zone"])

    def pre_enqueue(self, pod: core_pb2.Pod, profile: str, config: str) -> sdk.Status | None:
        return sdk.unschedulable(f"{profile} is closed") if config == "closed" else None

    def queueing_hint(self, pod: core_pb2.Pod, event: plugin_pb2.ClusterEvent, old: Any, new: Any, config: str) -> bool:
        return bool(new["zone"] == config)


async def test_the_steps_around_the_queue_have_the_configuration_of_the_profile(tmp_path: Path) -> None:
    """If this fails, a pod waits for an event that helps another profile's pods."""
    async with served(Zoned(), tmp_path) as stubs:
        info = await stubs.plugin.GetPluginInfo(plugin_pb2.GetPluginInfoRequest(), timeout=DEADLINE)
        assert info.plugins[0].idempotent
        for profile, zone in (("one", b"east"), ("two", b"closed")):
            request = plugin_pb2.ConfigureRequest(config_hash=9, profile=profile, args_json=b'{"zone": "%s"}' % zone)
            assert not (await stubs.plugin.Configure(request, timeout=DEADLINE)).errors
        enter = queue_pb2.PreEnqueueRequest(profile="two", pods=[core_pb2.Pod()], config_hash=9)
        (refused,) = (await stubs.queue.PreEnqueue(enter, timeout=DEADLINE)).statuses
        assert list(refused.messages) == ["two is closed"]
        pods = [core_pb2.Pod(spec={"scheduler_name": name}) for name in ("one", "two", "")]
        hint = queue_pb2.QueueingHintRequest(new_json=b'{"zone": "east"}', pods=pods, config_hash=9)
        hints = (await stubs.queue.QueueingHint(hint, timeout=DEADLINE)).hints
        # A scheduler of the first release does not say the profile.
        assert list(hints) == [queue_pb2.HINT_QUEUE, queue_pb2.HINT_QUEUE_SKIP, queue_pb2.HINT_QUEUE]


async def test_calls_are_counted_by_rpc_and_code(tmp_path: Path) -> None:
    """If this fails, an operator cannot tell a plugin that fails from one that is not called."""

    class Odd:
        info = sdk.Info("Odd")

        def filter(self, call: sdk.Call, node: sdk.Node) -> sdk.Verdict:
            if node.name == "b" and call.profile == "odd":
                raise ValueError("no such node")
            return None

    counted = metrics.CallMetrics("Odd")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    counted.serve(address)
    async with plugin_servers.on_the_sdk(Odd(), tmp_path, call_metrics=counted) as plugin:
        async with aio.insecure_channel(plugin) as channel:
            stub = filter_pb2_grpc.FilterPluginStub(channel)
            for profile in ("p", "odd"):
                request = filter_pb2.FilterRequest(cycle=cycle_pb2.Cycle(profile=profile), nodes=NODES)
                with contextlib.suppress(aio.AioRpcError):
                    await stub.Filter(request, timeout=DEADLINE)
        async with aiohttp.ClientSession() as session, session.get(f"http://{address}/metrics") as response:
            text = await response.text()
    assert 'trireme_plugin_calls_total{code="OK",plugin="Odd",rpc="Filter"} 1.0' in text
    assert 'trireme_plugin_calls_total{code="INTERNAL",plugin="Odd",rpc="Filter"} 1.0' in text
    assert 'trireme_plugin_call_duration_seconds_count{plugin="Odd",rpc="Filter"} 2.0' in text
    assert 'trireme_plugin_calls_in_flight{plugin="Odd"} 0.0' in text
    assert "python_info" in text
    with pytest.raises(ValueError, match="--metrics-listen: 'nowhere' is not host:port"):
        counted.serve("nowhere")


def test_logs_are_one_object_a_line() -> None:
    """If this fails, a log pipeline takes a traceback for many messages."""
    record = logging.makeLogRecord({"name": "licences", "levelname": "WARNING", "msg": "%s left", "args": (3,)})
    record.product = "cad"
    try:
        raise ValueError("odd")
    except ValueError:
        record.exc_info = sys.exc_info()
    line = logs.JsonFormatter().format(record)
    entry = orjson.loads(line)
    assert "\n" not in line
    assert (entry["level"], entry["logger"], entry["message"], entry["product"]) == (
        "warning",
        "licences",
        "3 left",
        "cad",
    )
    assert "ValueError: odd" in entry["stacktrace"]
