"""Plugins to test with, on Unix sockets: ones that answer what a test says, and ones written on the SDK."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
from grpc import aio

from trireme import sdk
from trireme.rpc import grpc_server, listen_flags
from trireme.sdk import metrics
from trireme.snapshot import classes, snapshot
from trireme.v1 import (
    core_pb2,
    filter_pb2,
    meta_pb2,
    plugin_pb2,
    pod_groups_pb2,
    queue_pb2,
    score_pb2,
    snapshot_pb2,
    status_pb2,
)

SUCCESS = status_pb2.Status(code=status_pb2.CODE_SUCCESS)
UNLIMITED = 2**31 - 1

FILTER = "/trireme.v1.FilterPlugin/Filter"
PRE_FILTER = "/trireme.v1.FilterPlugin/PreFilter"
SCORE = "/trireme.v1.ScorePlugin/Score"
PRE_SCORE = "/trireme.v1.ScorePlugin/PreScore"
GET_PLUGIN_INFO = "/trireme.v1.PluginService/GetPluginInfo"
NORMALIZE = "/trireme.v1.ScorePlugin/NormalizeScore"
QUEUE_SORT = "/trireme.v1.QueueService/QueueSort"
PLACEMENT_FEASIBLE = "/trireme.v1.PodGroupPlugin/PlacementFeasible"

CONFIGURE = "/trireme.v1.PluginService/Configure"

REQUESTS: Mapping[str, Any] = {
    CONFIGURE: plugin_pb2.ConfigureRequest,
    GET_PLUGIN_INFO: plugin_pb2.GetPluginInfoRequest,
    FILTER: filter_pb2.FilterRequest,
    PRE_FILTER: filter_pb2.PreFilterRequest,
    SCORE: score_pb2.ScoreRequest,
    PRE_SCORE: score_pb2.PreScoreRequest,
    NORMALIZE: score_pb2.NormalizeScoreRequest,
    QUEUE_SORT: queue_pb2.QueueSortRequest,
    PLACEMENT_FEASIBLE: pod_groups_pb2.PlacementFeasibleRequest,
}

Answer = Callable[[Any], Any]


class ScriptedPlugin:
    """Answers each RPC by what the test put into `answers`.

    That is a function from the request to a message, to bytes, or to an exception that becomes the gRPC error;
    None: never.
    """

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = dict(answers)
        self.requests: list[Any] = []
        self.running = 0
        self.most_running = 0
        self.cancelled = 0
        #: Calls wait here while it is not set.
        self.gate = asyncio.Event()
        self.gate.set()
        self._changed = asyncio.Condition()

    async def until_running(self, count: int) -> None:
        """Return once so many calls are under way."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.running >= count)

    async def handle(self, path: str, payload: bytes, context: aio.ServicerContext[Any, Any]) -> bytes:
        """One call."""
        request = REQUESTS[path].FromString(payload)
        self.requests.append(request)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        async with self._changed:
            self._changed.notify_all()
        try:
            await self.gate.wait()
            answer = self.answers[path](request)
            if answer is None:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
        if isinstance(answer, tuple):
            await context.abort(*answer)
        return answer if isinstance(answer, bytes) else answer.SerializeToString()


class _Handlers(grpc.GenericRpcHandler):
    def __init__(self, plugin: ScriptedPlugin) -> None:
        self._plugin = plugin

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        path = handler_call_details.method
        if path not in self._plugin.answers:
            return None

        async def call(payload: bytes, context: aio.ServicerContext[Any, Any]) -> bytes:
            return await self._plugin.handle(path, payload, context)

        return grpc.unary_unary_rpc_method_handler(call)


@asynccontextmanager
async def scripted(target: str, plugin: ScriptedPlugin) -> AsyncIterator[None]:
    """The scripted plugin on a socket."""
    server = aio.server()
    server.add_generic_rpc_handlers((_Handlers(plugin),))
    server.add_insecure_port(target)
    await server.start()
    try:
        yield
    finally:
        await server.stop(0)


@asynccontextmanager
async def on_the_sdk(
    plugin: Any, folder: Path, name: str = "plugin.sock", call_metrics: metrics.CallMetrics | None = None
) -> AsyncIterator[str]:
    """A plugin written on the SDK, and its address."""
    listener = listen_flags.make_listener(f"unix:{folder}/{name}")
    server = grpc_server.ReplicaServer(listener, sdk.services(plugin, call_metrics))
    address = await server.start()
    try:
        yield address.text
    finally:
        await server.stop(0)


def passing(request: filter_pb2.FilterRequest) -> filter_pb2.FilterResponse:
    """Every node passes."""
    count = len(request.nodes.nodes)
    columns = filter_pb2.NodeColumns(size=count, status_index=[0] * count, capacity=[UNLIMITED] * count)
    return filter_pb2.FilterResponse(columns=columns)


def scored(request: score_pb2.ScoreRequest) -> score_pb2.ScoreResponse:
    """Every node's score is the number in its name, at most 100."""
    scores = [min(int(view.name.rpartition("-")[2]), 100) for view in request.nodes.nodes]
    return score_pb2.ScoreResponse(status=SUCCESS, scores=scores)


def remote(*targets: str, **fields: Any) -> snapshot_pb2.RemotePlugin:
    """The configuration of the plugin P; its info says Filter and Score, on nodes alone, unless told otherwise."""
    info: dict[str, Any] = {
        "name": "P",
        "extension_points": [plugin_pb2.EXTENSION_POINT_FILTER, plugin_pb2.EXTENSION_POINT_SCORE],
        "depends_on": plugin_pb2.DEPENDENCY_NODE,
    }
    info.update(fields.pop("info", {}))
    fields.setdefault("deadline_ms", 20_000)
    return snapshot_pb2.RemotePlugin(name="P", endpoints=targets, info=plugin_pb2.PluginInfo(**info), **fields)


def fill(snap: snapshot.Snapshot, count: int) -> classes.PodClass:
    """Nodes node-0, node-1, … and one class of pods."""
    pod = core_pb2.Pod()
    pod.metadata.namespace = "shop"
    pod.metadata.labels["app"] = "web"
    nodes = [
        snapshot_pb2.NodeEntry(
            slot=slot, node=core_pb2.Node(metadata=meta_pb2.ObjectMeta(name=f"node-{slot}")), json=b'{"a":1}'
        )
        for slot in range(count)
    ]
    entry = snapshot_pb2.PodClass(id=1, pod=pod)
    snap.apply(snapshot_pb2.Delta(reset=True, to_generation=7, nodes=nodes, classes=[entry]))
    return snap.classes[1]
