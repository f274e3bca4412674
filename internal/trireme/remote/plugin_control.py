"""The calls that set up a remote plugin: GetPluginInfo, Configure, and whether it serves the snapshot stream.

The frontend makes them before a plugin takes part in scheduling. Later callers repeat Configure if the plugin lacks the
configuration, because it was restarted or is one of several instances behind one address.

Also change: internal/trireme/frontend/phase_clients/replica_link.py,
internal/trireme/plugin_verification/followed_cluster.py, internal/trireme/rpc/follower.py (the stream of deltas).
Also change: protos/trireme/v1/plugin.proto (the messages).
Also change: protos/trireme/v1/snapshot.proto (the service).

Tests: tests/unit/remote/test_plugin_failures.py, tests/contract/test_plugin_handshake.py,
tests/unit/plugin_verification/test_stream_specifications.py.
"""

from collections.abc import Iterable
from typing import Any

import grpc
from grpc import aio

from trireme.plugin_api import contract_features
from trireme.rpc import fencing
from trireme.v1 import plugin_pb2

_GET_PLUGIN_INFO = "/trireme.v1.PluginService/GetPluginInfo"
_CONFIGURE = "/trireme.v1.PluginService/Configure"
_SYNC = "/trireme.v1.SnapshotFollower/Sync"
_NO_ARGUMENTS = (b"", b"{}")


class ConfigurationRefused(Exception):
    """The plugin does not accept its configuration for a profile. The text is one line; a retry does not help."""

    def __init__(self, profile: str, reason: str) -> None:
        super().__init__(f"profile {profile}: pluginConfig: {reason}")
        #: What is wrong with the arguments, by field.
        self.reason = reason


async def get_plugin_info(channel: aio.Channel, timeout_seconds: float) -> plugin_pb2.GetPluginInfoResponse:
    """Return the descriptions of the plugins that the service hosts.

    Raises:
        AioRpcError: there is no answer.
        DecodeError: the answer is no such message.
    """
    call: Any = channel.unary_unary(
        _GET_PLUGIN_INFO,
        request_serializer=plugin_pb2.GetPluginInfoRequest.SerializeToString,
        response_deserializer=None,  # gRPC turns a message that it cannot read into None
    )
    response = await call(contract_features.handshake_request(), timeout=timeout_seconds)
    return plugin_pb2.GetPluginInfoResponse.FromString(response)


async def configure(
    channel: aio.Channel,
    configurations: Iterable[plugin_pb2.ConfigureRequest],
    config_hash: int,
    timeout_seconds: float,
) -> None:
    """Send the plugin its configuration for each profile.

    Raises:
        ConfigurationRefused: the plugin does not accept it, or has arguments and no Configure.
        AioRpcError: there is no answer.
        DecodeError: the answer is no such message.
    """
    call: Any = channel.unary_unary(
        _CONFIGURE,
        request_serializer=plugin_pb2.ConfigureRequest.SerializeToString,
        response_deserializer=None,
    )
    for configuration in configurations:
        request = plugin_pb2.ConfigureRequest()
        request.CopyFrom(configuration)
        request.config_hash = config_hash
        try:
            answer = await call(request, timeout=timeout_seconds)
        except aio.AioRpcError as error:
            if error.code() is not grpc.StatusCode.UNIMPLEMENTED:
                raise
            if request.args_json in _NO_ARGUMENTS:
                continue
            raise ConfigurationRefused(
                request.profile, "args: the plugin takes none: it does not serve Configure"
            ) from error
        errors = plugin_pb2.ConfigureResponse.FromString(answer).errors
        if errors:
            raise ConfigurationRefused(request.profile, ", ".join(_error_text(error) for error in errors))


async def serves_snapshot_follower(channel: aio.Channel, timeout_seconds: float) -> bool:
    """Return whether the service has SnapshotFollower.

    The stream to find out has no Hello, so the service refuses it, and goes on to follow the one that it has.

    Raises:
        AioRpcError: it cannot be reached.
    """
    call: Any = channel.stream_stream(_SYNC)(iter(()), timeout=timeout_seconds)
    try:
        await call.read()
    except aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.UNAVAILABLE:
            raise
        return error.code() is not grpc.StatusCode.UNIMPLEMENTED
    finally:
        call.cancel()
    return True


def lacks_configuration(error: aio.AioRpcError) -> bool:
    """Whether the plugin refused a call because it lacks the configuration that the call names."""
    if error.code() is not grpc.StatusCode.FAILED_PRECONDITION:
        return False
    return fencing.reason_of(error) == fencing.RefusalReason.CONFIG_MISMATCH


def _error_text(error: plugin_pb2.FieldError) -> str:
    message = " ".join(error.message.split()) or "refused without a reason"
    return f"{error.field}: {message}" if error.field else message
