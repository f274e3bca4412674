"""A plugin without fault that serves every extension point, from which the broken ones derive."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import grpc
import orjson
from google.protobuf import message
from grpc import aio

from trireme.plugin_verification import rpcs
from trireme.v1 import bind_pb2, filter_pb2, plugin_pb2, pod_groups_pb2, queue_pb2, score_pb2, snapshot_pb2, status_pb2

NAME = "Reference"
UNLIMITED = 2**31 - 1
SUCCESS = status_pb2.Status(code=status_pb2.CODE_SUCCESS)
_PATHS = {rpc.path: rpc for rpc in rpcs.ALL}
_SYNC = "/trireme.v1.SnapshotFollower/Sync"
_NORMALIZE = plugin_pb2.EXTENSION_POINT_NORMALIZE_SCORE
_REFUSING = frozenset(
    {
        rpcs.PRE_ENQUEUE_POINT,
        rpcs.PRE_FILTER_POINT,
        rpcs.FILTER_POINT,
        rpcs.RESERVE_POINT,
        rpcs.PLACEMENT_FEASIBLE_POINT,
    }
)
_ALL_POINTS = [
    point
    for point in plugin_pb2.ExtensionPoint.values()
    if point not in (plugin_pb2.EXTENSION_POINT_UNSPECIFIED, plugin_pb2.EXTENSION_POINT_QUEUE_SORT)
]


class Refused(Exception):
    """The call ends with a gRPC error."""

    def __init__(self, code: grpc.StatusCode, details: str, reason: str = "") -> None:
        super().__init__(details)
        self.code, self.details = code, details
        self.trailing = (("trireme-reason", reason),) if reason else ()


def refusal(message: str = "node(s) were unscheduled", **fields: Any) -> status_pb2.Status:
    """A refusal of a node."""
    values = {"code": status_pb2.CODE_UNSCHEDULABLE, "plugin": NAME, "messages": [message], **fields}
    return status_pb2.Status(**values)


class ReferencePlugin:
    """Refuses the nodes that are unschedulable, prefers those of amd64, and lets at most four pods be reserved."""

    #: The specification that a broken plugin violates.
    violates: ClassVar[str] = ""
    points: ClassVar[Sequence[int]] = _ALL_POINTS
    #: gRPC's own limit of a request, where it is not raised.
    max_request_bytes: ClassVar[int] = 16 << 20

    def __init__(self) -> None:
        self.epochs: dict[str, int] = {}
        self.hashes: set[int] = set()
        self.reserved: set[str] = set()
        self.calls = 0
        #: Until the deadline of the call that begins; None: it has none.
        self.seconds_left: float | None = None

    def info(self) -> plugin_pb2.PluginInfo:
        """What it declares."""
        return plugin_pb2.PluginInfo(
            name=NAME,
            version="1",
            extension_points=self.points,
            events_to_register=self.events(),
            pod_fields=["metadata.namespace", "spec.priority"],
            node_data=plugin_pb2.NODE_DATA_MESSAGES,
            depends_on=plugin_pb2.DEPENDENCY_NODE,
            normalization=plugin_pb2.NORMALIZATION_CUSTOM if _NORMALIZE in self.points else 0,
        )

    def events(self) -> list[plugin_pb2.ClusterEvent]:
        """The events that may help a pod that it refused."""
        refuses = _REFUSING.intersection(self.points)
        return [plugin_pb2.ClusterEvent(resource="Node", actions=["Add"], hint=True)] if refuses else []

    def GetPluginInfo(self, request: plugin_pb2.GetPluginInfoRequest) -> plugin_pb2.GetPluginInfoResponse:
        return plugin_pb2.GetPluginInfoResponse(plugins=[self.info()], instance="1")

    def Configure(self, request: plugin_pb2.ConfigureRequest) -> plugin_pb2.ConfigureResponse:
        args = orjson.loads(request.args_json)
        if not isinstance(args, dict):
            return plugin_pb2.ConfigureResponse(errors=[{"field": "args", "message": "must be an object"}])
        if args:
            errors = [{"field": f"args.{name}", "message": "unknown field"} for name in args]
            return plugin_pb2.ConfigureResponse(errors=errors)
        self.hashes.add(request.config_hash)
        return plugin_pb2.ConfigureResponse()

    def admit(self, request: Any) -> None:
        """Check the epoch and the configuration of a call. Raises: Refused."""
        fence = request.cycle.fence
        if fence.epoch < self.epochs.get(fence.scheduler_id, 0):
            raise Refused(grpc.StatusCode.FAILED_PRECONDITION, "the epoch is over", "stale-epoch")
        self.epochs[fence.scheduler_id] = fence.epoch
        if request.cycle.config_hash not in self.hashes:
            raise Refused(grpc.StatusCode.FAILED_PRECONDITION, "another configuration", "config-mismatch")

    def verdict(self, node: filter_pb2.NodeView) -> status_pb2.Status | None:
        """The refusal of a node; None: it passes."""
        return refusal() if node.node.spec.unschedulable else None

    def columns(self, nodes: list[filter_pb2.NodeView]) -> filter_pb2.NodeColumns:
        """The verdicts about nodes."""
        columns = filter_pb2.NodeColumns(size=len(nodes))
        for node in nodes:
            status = self.verdict(node)
            if status is not None and status not in columns.statuses:
                columns.statuses.append(status)
            columns.status_index.append(0 if status is None else list(columns.statuses).index(status) + 1)
            columns.capacity.append(UNLIMITED if status is None else 0)
        return columns

    def PreFilter(self, request: filter_pb2.PreFilterRequest) -> filter_pb2.PreFilterResponse:
        return filter_pb2.PreFilterResponse(status=SUCCESS, state=b"state")

    def Filter(self, request: filter_pb2.FilterRequest) -> filter_pb2.FilterResponse:
        return filter_pb2.FilterResponse(columns=self.columns(list(request.nodes.nodes)))

    def FilterDryRun(self, request: filter_pb2.FilterDryRunRequest) -> filter_pb2.FilterDryRunResponse:
        return filter_pb2.FilterDryRunResponse(columns=self.columns([run.node for run in request.runs]))

    def PostFilter(self, request: filter_pb2.PostFilterRequest) -> filter_pb2.PostFilterResponse:
        pod = {"namespace": "verify", "name": "victim", "uid": "victim"}
        preemptor = {"namespace": "verify", "name": "pod", "uid": "pod"}
        action = bind_pb2.Action(pod=pod, evict={"message": "preempted", "preemptor": preemptor})
        return filter_pb2.PostFilterResponse(status=SUCCESS, actions=[action], nominated_node="verify-0")

    def Reserve(self, request: filter_pb2.ReserveRequest) -> filter_pb2.ReserveResponse:
        response = filter_pb2.ReserveResponse()
        for placement in request.placements:
            self.reserved.add(placement.pod.uid)
            full = len(self.reserved) > 4
            response.reservations.add(status=refusal("too many") if full else SUCCESS, state=b"reserved")
        return response

    def Unreserve(self, request: filter_pb2.UnreserveRequest) -> filter_pb2.UnreserveResponse:
        self.reserved.difference_update(placement.pod.uid for placement in request.placements)
        return filter_pb2.UnreserveResponse()

    def PreScore(self, request: score_pb2.PreScoreRequest) -> score_pb2.PreScoreResponse:
        return score_pb2.PreScoreResponse(status=SUCCESS)

    def score(self, node: filter_pb2.NodeView) -> int:
        """The raw score of a node."""
        return 100 if node.node.metadata.labels["kubernetes.io/arch"] == "amd64" else 10

    def Score(self, request: score_pb2.ScoreRequest) -> score_pb2.ScoreResponse:
        return score_pb2.ScoreResponse(status=SUCCESS, scores=[self.score(node) for node in request.nodes.nodes])

    def NormalizeScore(self, request: score_pb2.NormalizeScoreRequest) -> score_pb2.NormalizeScoreResponse:
        return score_pb2.NormalizeScoreResponse(status=SUCCESS, scores=[score // 2 for score in request.scores])

    def Permit(self, request: bind_pb2.PermitRequest) -> bind_pb2.PermitResponse:
        waiting = status_pb2.Status(code=status_pb2.CODE_WAIT, plugin=NAME)
        result = bind_pb2.PermitResult(status=waiting, timeout={"seconds": 1})
        return bind_pb2.PermitResponse(results=[result] * len(request.items))

    def PreBindPreFlight(self, request: bind_pb2.PreBindPreFlightRequest) -> bind_pb2.PreBindPreFlightResponse:
        return bind_pb2.PreBindPreFlightResponse(statuses=[SUCCESS] * len(request.items))

    def PreBind(self, request: bind_pb2.PreBindRequest) -> bind_pb2.PreBindResponse:
        waiting = status_pb2.Status(code=status_pb2.CODE_WAIT, plugin=NAME, messages=["waits for the claim"])
        key = {"kind": "persistent_volume_claim", "namespace": "verify", "name": "data"}
        result = bind_pb2.PreBindResult(status=waiting, wait_for=[key], timeout={"seconds": 30})
        return bind_pb2.PreBindResponse(results=[result] * len(request.items))

    def Bind(self, request: bind_pb2.BindRequest) -> bind_pb2.BindResponse:
        results = [bind_pb2.BindResult(index=at, status=SUCCESS) for at in range(len(request.items))]
        return bind_pb2.BindResponse(results=results)

    def PostBind(self, request: bind_pb2.PostBindRequest) -> bind_pb2.PostBindResponse:
        return bind_pb2.PostBindResponse()

    def PreEnqueue(self, request: queue_pb2.PreEnqueueRequest) -> queue_pb2.PreEnqueueResponse:
        return queue_pb2.PreEnqueueResponse(statuses=[SUCCESS] * len(request.pods))

    def QueueSort(self, request: queue_pb2.QueueSortRequest) -> queue_pb2.QueueSortResponse:
        keys = [queue_pb2.SortKey(level=[-pod.spec.priority], rest=[len(pod.metadata.name)]) for pod in request.pods]
        return queue_pb2.QueueSortResponse(keys=keys)

    def QueueingHint(self, request: queue_pb2.QueueingHintRequest) -> queue_pb2.QueueingHintResponse:
        return queue_pb2.QueueingHintResponse(hints=[queue_pb2.HINT_QUEUE] * len(request.pods))

    def PlacementFeasible(
        self, request: pod_groups_pb2.PlacementFeasibleRequest
    ) -> pod_groups_pb2.PlacementFeasibleResponse:
        waiting = status_pb2.Status(code=status_pb2.CODE_WAIT, plugin=NAME, messages=["more pods have to fit"])
        fits = [step.scheduled >= request.min_count for step in request.steps]
        return pod_groups_pb2.PlacementFeasibleResponse(statuses=[SUCCESS if each else waiting for each in fits])

    async def answer(self, rpc: rpcs.Rpc, payload: bytes) -> Any:
        """The response to a request. Raises: Refused."""
        request = rpc.request()
        request.MergeFromString(payload)
        if rpc in (*rpcs.WITH_CYCLE, rpcs.SCORE_COPIES):
            self.admit(request)
        return getattr(self, rpc.name)(request)


class _Handlers(grpc.GenericRpcHandler):
    def __init__(self, plugin: Any) -> None:
        self._plugin = plugin

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        if handler_call_details.method == _SYNC and hasattr(self._plugin, "sync"):
            return grpc.stream_stream_rpc_method_handler(
                self._sync,
                request_deserializer=snapshot_pb2.SyncRequest.FromString,
                response_serializer=snapshot_pb2.SyncResponse.SerializeToString,
            )
        rpc = _PATHS.get(handler_call_details.method)
        if rpc is None or not hasattr(self._plugin, rpc.name):
            return None

        async def call(payload: bytes, context: aio.ServicerContext[Any, Any]) -> bytes:
            self._plugin.seconds_left = context.time_remaining()
            try:
                response = await self._plugin.answer(rpc, payload)
            except Refused as refused:
                await context.abort(refused.code, refused.details, refused.trailing)
            except message.DecodeError as error:
                await context.abort(grpc.StatusCode.INTERNAL, str(error))
            data: bytes = response.SerializeToString()
            return data

        async def stream(payload: bytes, context: aio.ServicerContext[Any, Any]) -> AsyncIterator[bytes]:
            yield await call(payload, context)

        if rpc.streams:
            return grpc.unary_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(call)

    async def _sync(
        self, requests: AsyncIterator[snapshot_pb2.SyncRequest], context: aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[snapshot_pb2.SyncResponse]:
        """The stream of a plugin that follows the cluster."""
        try:
            async for response in self._plugin.sync(requests):
                yield response
        except Refused as refused:
            await context.abort(refused.code, refused.details, refused.trailing)


@asynccontextmanager
async def serving(
    make: Callable[[], ReferencePlugin], folder: Path, credentials: grpc.ServerCredentials | None = None
) -> AsyncIterator[str]:
    """The plugin on a socket in the folder, or with TLS on a port; its address."""
    plugin = make()
    server = aio.server(options=[("grpc.max_receive_message_length", plugin.max_request_bytes)])
    server.add_generic_rpc_handlers((_Handlers(plugin),))
    if credentials is None:
        address = f"unix:{folder}/plugin.sock"
        server.add_insecure_port(address)
    else:
        address = f"127.0.0.1:{server.add_secure_port('127.0.0.1:0', credentials)}"
    await server.start()
    try:
        yield address
    finally:
        await server.stop(0)
