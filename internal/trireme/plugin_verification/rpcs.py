"""The RPCs that plugins serve.

Also change: tests/helpers/contract_document.py, sdk/java/src/main/java/dev/trireme/sdk/Rpcs.java (RPCs of plugins).

Tests: tests/unit/cli/test_plugin_command.py, tests/unit/plugin_verification/test_specifications.py,
tests/contract/test_plugin_verification.py.
"""

from dataclasses import dataclass
from typing import TypeAlias

from google.protobuf.message import Message

from trireme.v1 import bind_pb2, filter_pb2, plugin_pb2, pod_groups_pb2, queue_pb2, score_copies_pb2, score_pb2

Point: TypeAlias = plugin_pb2.ExtensionPoint.ValueType


@dataclass(frozen=True, slots=True)
class Rpc:
    """One RPC. `points` are the extension points that it belongs to; none: every plugin may serve it."""

    service: str
    name: str
    request: type[Message]
    response: type[Message]
    points: tuple[Point, ...] = ()
    #: The answer is a stream of responses.
    streams: bool = False

    @property
    def path(self) -> str:
        """The path of its calls."""
        return f"/trireme.v1.{self.service}/{self.name}"


PRE_ENQUEUE_POINT = plugin_pb2.EXTENSION_POINT_PRE_ENQUEUE
QUEUE_SORT_POINT = plugin_pb2.EXTENSION_POINT_QUEUE_SORT
PRE_FILTER_POINT = plugin_pb2.EXTENSION_POINT_PRE_FILTER
FILTER_POINT = plugin_pb2.EXTENSION_POINT_FILTER
POST_FILTER_POINT = plugin_pb2.EXTENSION_POINT_POST_FILTER
PRE_SCORE_POINT = plugin_pb2.EXTENSION_POINT_PRE_SCORE
SCORE_POINT = plugin_pb2.EXTENSION_POINT_SCORE
NORMALIZE_POINT = plugin_pb2.EXTENSION_POINT_NORMALIZE_SCORE
RESERVE_POINT = plugin_pb2.EXTENSION_POINT_RESERVE
PERMIT_POINT = plugin_pb2.EXTENSION_POINT_PERMIT
PRE_BIND_POINT = plugin_pb2.EXTENSION_POINT_PRE_BIND
BIND_POINT = plugin_pb2.EXTENSION_POINT_BIND
POST_BIND_POINT = plugin_pb2.EXTENSION_POINT_POST_BIND
PLACEMENT_FEASIBLE_POINT = plugin_pb2.EXTENSION_POINT_PLACEMENT_FEASIBLE

GET_PLUGIN_INFO = Rpc(
    "PluginService", "GetPluginInfo", plugin_pb2.GetPluginInfoRequest, plugin_pb2.GetPluginInfoResponse
)
CONFIGURE = Rpc("PluginService", "Configure", plugin_pb2.ConfigureRequest, plugin_pb2.ConfigureResponse)
PRE_ENQUEUE = Rpc(
    "QueueService", "PreEnqueue", queue_pb2.PreEnqueueRequest, queue_pb2.PreEnqueueResponse, (PRE_ENQUEUE_POINT,)
)
QUEUE_SORT = Rpc(
    "QueueService", "QueueSort", queue_pb2.QueueSortRequest, queue_pb2.QueueSortResponse, (QUEUE_SORT_POINT,)
)
QUEUEING_HINT = Rpc("QueueService", "QueueingHint", queue_pb2.QueueingHintRequest, queue_pb2.QueueingHintResponse)
PRE_FILTER = Rpc(
    "FilterPlugin", "PreFilter", filter_pb2.PreFilterRequest, filter_pb2.PreFilterResponse, (PRE_FILTER_POINT,)
)
FILTER = Rpc("FilterPlugin", "Filter", filter_pb2.FilterRequest, filter_pb2.FilterResponse, (FILTER_POINT,))
FILTER_DRY_RUN = Rpc(
    "FilterPlugin", "FilterDryRun", filter_pb2.FilterDryRunRequest, filter_pb2.FilterDryRunResponse, (FILTER_POINT,)
)
POST_FILTER = Rpc(
    "FilterPlugin", "PostFilter", filter_pb2.PostFilterRequest, filter_pb2.PostFilterResponse, (POST_FILTER_POINT,)
)
RESERVE = Rpc("FilterPlugin", "Reserve", filter_pb2.ReserveRequest, filter_pb2.ReserveResponse, (RESERVE_POINT,))
UNRESERVE = Rpc(
    "FilterPlugin", "Unreserve", filter_pb2.UnreserveRequest, filter_pb2.UnreserveResponse, (RESERVE_POINT,)
)
PRE_SCORE = Rpc("ScorePlugin", "PreScore", score_pb2.PreScoreRequest, score_pb2.PreScoreResponse, (PRE_SCORE_POINT,))
SCORE = Rpc("ScorePlugin", "Score", score_pb2.ScoreRequest, score_pb2.ScoreResponse, (SCORE_POINT,))
# Called where PluginInfo.score_copies announces it, and not wherever the plugin scores.
SCORE_COPIES = Rpc(
    "ScorePlugin",
    "ScoreCopies",
    score_copies_pb2.ScoreCopiesRequest,
    score_copies_pb2.ScoreCopiesResponse,
    (SCORE_POINT,),
)
NORMALIZE_SCORE = Rpc(
    "ScorePlugin",
    "NormalizeScore",
    score_pb2.NormalizeScoreRequest,
    score_pb2.NormalizeScoreResponse,
    (NORMALIZE_POINT,),
)
PERMIT = Rpc("BindPlugin", "Permit", bind_pb2.PermitRequest, bind_pb2.PermitResponse, (PERMIT_POINT,))
PRE_BIND_PRE_FLIGHT = Rpc(
    "BindPlugin",
    "PreBindPreFlight",
    bind_pb2.PreBindPreFlightRequest,
    bind_pb2.PreBindPreFlightResponse,
    (PRE_BIND_POINT,),
)
PRE_BIND = Rpc("BindPlugin", "PreBind", bind_pb2.PreBindRequest, bind_pb2.PreBindResponse, (PRE_BIND_POINT,))
BIND = Rpc("BindPlugin", "Bind", bind_pb2.BindRequest, bind_pb2.BindResponse, (BIND_POINT,), streams=True)
POST_BIND = Rpc("BindPlugin", "PostBind", bind_pb2.PostBindRequest, bind_pb2.PostBindResponse, (POST_BIND_POINT,))
PLACEMENT_FEASIBLE = Rpc(
    "PodGroupPlugin",
    "PlacementFeasible",
    pod_groups_pb2.PlacementFeasibleRequest,
    pod_groups_pb2.PlacementFeasibleResponse,
    (PLACEMENT_FEASIBLE_POINT,),
)

WITH_CYCLE = (
    PRE_FILTER,
    FILTER,
    FILTER_DRY_RUN,
    POST_FILTER,
    RESERVE,
    UNRESERVE,
    PRE_SCORE,
    SCORE,
    NORMALIZE_SCORE,
    PERMIT,
    PRE_BIND_PRE_FLIGHT,
    PRE_BIND,
    BIND,
    POST_BIND,
    PLACEMENT_FEASIBLE,
)
"""Those whose request has a `cycle`."""
ALL = (GET_PLUGIN_INFO, CONFIGURE, PRE_ENQUEUE, QUEUE_SORT, QUEUEING_HINT, *WITH_CYCLE, SCORE_COPIES)
