"""A remote plugin without a process: what it is called with, and its answers, read as those of a real one are."""

from collections.abc import Callable
from typing import Any

from google.protobuf import message

from trireme.remote import comparison_counts, remote_client, remote_connection
from trireme.v1 import cycle_pb2, filter_pb2, plugin_pb2, score_copies_pb2, score_pb2, snapshot_pb2

NAME = "Quota"
HASH = 77

_REQUESTS: dict[str, type[message.Message]] = {
    "PreFilter": filter_pb2.PreFilterRequest,
    "Filter": filter_pb2.FilterRequest,
    "FilterDryRun": filter_pb2.FilterDryRunRequest,
    "PostFilter": filter_pb2.PostFilterRequest,
    "PreScore": score_pb2.PreScoreRequest,
    "Score": score_pb2.ScoreRequest,
    "ScoreCopies": score_copies_pb2.ScoreCopiesRequest,
    "NormalizeScore": score_pb2.NormalizeScoreRequest,
}


class CalledPlugin:
    """Answers each RPC by `answers`: a message, an error, or a function that makes one of them from the request."""

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = answers
        self.requests: list[tuple[str, Any]] = []
        self.comparisons = comparison_counts.ComparisonCounts()

    async def call(self, method: Any, request: bytes, read: Callable[[Any], Any]) -> Any:
        """As PluginConnection."""
        parsed = _REQUESTS[method.name].FromString(request)
        self.requests.append((method.name, parsed))
        answer = self.answers[method.name]
        if callable(answer):
            answer = answer(parsed)
        if isinstance(answer, Exception):
            raise answer
        try:
            return read(type(answer).FromString(answer.SerializeToString()))
        except ValueError as error:
            raise remote_connection.PluginError(f"wrong: {error}") from error

    def requests_of(self, rpc: str) -> list[Any]:
        """The requests of this RPC."""
        return [request for name, request in self.requests if name == rpc]

    def client(
        self,
        *points: plugin_pb2.ExtensionPoint.ValueType,
        ignore: bool = False,
        shadow: bool = False,
        node_data: plugin_pb2.NodeData.ValueType = plugin_pb2.NODE_DATA_NAMES,
        **info: Any,
    ) -> remote_client.PluginClient:
        """The client of this plugin, which serves these extension points. `ignore`: its failures are ignored."""
        policy = snapshot_pb2.FAILURE_POLICY_IGNORE if ignore else snapshot_pb2.FAILURE_POLICY_FAIL
        described = plugin_pb2.PluginInfo(name=NAME, extension_points=points, node_data=node_data, **info)
        config = snapshot_pb2.RemotePlugin(name=NAME, failure_policy=policy, shadow=shadow, info=described)
        return remote_client.PluginClient(config, lambda: cycle_pb2.Cycle(config_hash=HASH), _as_connection(self))


def _as_connection(plugin: Any) -> remote_connection.PluginConnection:
    connection: remote_connection.PluginConnection = plugin
    return connection
