"""Serves a plugin on one address: its extension points, the handshake, health and reflection.

Also change: sdk/go/serving.go, sdk/go/main.go, sdk/go/service.go,
sdk/java/src/main/java/dev/trireme/sdk/PluginServer.java, sdk/java/src/main/java/dev/trireme/sdk/PluginMain.java,
sdk/java/src/main/java/dev/trireme/sdk/PluginHandlers.java, sdk/java/src/main/java/dev/trireme/sdk/Reflection.java,
sdk/java/src/main/java/dev/trireme/sdk/Address.java, sdk/java/src/main/java/dev/trireme/sdk/Rpcs.java,
sdk/java/src/main/java/dev/trireme/sdk/Rpc.java, sdk/rust/src/serving.rs, sdk/rust/src/services/handshake.rs,
sdk/typescript/src/server.ts, sdk/typescript/src/main.ts, sdk/typescript/src/services/plugin_service.ts,
sdk/typescript/src/reflection.ts, sdk/typescript/src/address.ts (the same in the other languages' SDKs).
Also change: internal/trireme/frontend/phase_clients/replica_link.py, internal/trireme/remote/remote_endpoint.py,
internal/trireme/rpc/grpc_server.py, internal/trireme/rpc/message_sizes.py (gRPC options of both sides).
Also change: internal/trireme/framework/programs.py (the line by which a process says that it serves).
Also change: protos/trireme/v1/plugin.proto (the service).

Tests: tests/contract/test_plugin_sdk_results.py, tests/contract/test_plugin_evaluation.py,
tests/contract/test_plugin_contract.py.
"""

import argparse
import dataclasses
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import orjson
from grpc import aio

from trireme.rpc import grpc_server, listen_flags
from trireme.sdk import binding, description, filtering, logs, metrics, placing, queueing, scoring
from trireme.sdk.configuring import Configuration, InvalidArguments
from trireme.sdk.invoker import Invoker
from trireme.v1 import (
    bind_pb2,
    bind_pb2_grpc,
    filter_pb2,
    filter_pb2_grpc,
    plugin_pb2,
    plugin_pb2_grpc,
    pod_groups_pb2,
    pod_groups_pb2_grpc,
    queue_pb2,
    queue_pb2_grpc,
    score_pb2,
    score_pb2_grpc,
    snapshot_pb2,
    snapshot_pb2_grpc,
)
from trireme_kube.componentbase.logs import process_output


class PluginServicer(plugin_pb2_grpc.PluginServiceServicer):
    """The handshake and the configuration of one plugin."""

    def __init__(self, plugin: description.Plugin, invoker: Invoker) -> None:
        self._plugin = plugin
        self._invoker = invoker
        self._instance = uuid.uuid4().hex

    async def GetPluginInfo(
        self, request: plugin_pb2.GetPluginInfoRequest, context: aio.ServicerContext[Any, Any]
    ) -> plugin_pb2.GetPluginInfoResponse:
        """Return the plugin's description now; FAILED_PRECONDITION if the caller lacks a feature that it requires."""
        info = description.describe(self._plugin)
        missing = sorted(set(info.required_features) - set(request.features))
        if missing:
            text = f"required_features: the caller does not know {', '.join(missing)}; update the scheduler"
            await grpc_server.abort(context, grpc.StatusCode.FAILED_PRECONDITION, text)
        if description.PLACEMENT_FEASIBLE_FEATURE not in request.features:
            description.leave_out_placement_feasible(info)
        return plugin_pb2.GetPluginInfoResponse(plugins=[info], instance=self._instance)

    async def Configure(
        self, request: plugin_pb2.ConfigureRequest, context: aio.ServicerContext[Any, Any]
    ) -> plugin_pb2.ConfigureResponse:
        """Call configure; its result is passed to all later calls under this configuration."""
        await self._invoker.require(context, "configure")
        response = plugin_pb2.ConfigureResponse()
        async with self._invoker.turn(context, "Configure", "configure"):
            configuration = Configuration(request.profile, orjson.loads(request.args_json), dict(request.feature_gates))
            try:
                config = await self._invoker.call("configure", configuration)
            except InvalidArguments as refused:
                for field, message in refused.problems:
                    response.errors.add(field=field, message=message)
                return response
            self._invoker.configurations.add(request.config_hash, request.profile, config)
        return response

    async def GetPluginStatistics(
        self, request: plugin_pb2.GetPluginStatisticsRequest, context: aio.ServicerContext[Any, Any]
    ) -> plugin_pb2.GetPluginStatisticsResponse:
        """Not served: a plugin calls no plugins."""
        await grpc_server.abort(context, grpc.StatusCode.UNIMPLEMENTED, "only phases call plugins")


def services(
    plugin: description.Plugin, call_metrics: metrics.CallMetrics | None = None
) -> Sequence[grpc_server.Service]:
    """Make the plugin's services, for the running loop; `call_metrics` counts their calls.

    Raises:
        ValueError: the plugin describes itself wrongly.
    """
    invoker = Invoker(plugin, call_metrics)
    description.describe(plugin)
    handshake = PluginServicer(plugin, invoker)
    out = [_make_service(plugin_pb2, "PluginService", plugin_pb2_grpc.add_PluginServiceServicer_to_server, handshake)]
    for methods, module, name, add, servicer in _SERVICES:
        if any(hasattr(plugin, method) for method in methods):
            out.append(_make_service(module, name, add, servicer(invoker)))
    if invoker.follow is not None:
        add_snapshot = snapshot_pb2_grpc.add_SnapshotFollowerServicer_to_server
        snapshots = _make_service(snapshot_pb2, "SnapshotFollower", add_snapshot, invoker.follow)
        out.append(dataclasses.replace(snapshots, end_streams=invoker.follow.end_streams))
    return out


def serve(plugin: description.Plugin, listen: str = "127.0.0.1:0") -> int:
    """Serve the plugin until SIGTERM or SIGINT, on `host:port` or `unix:/path`; return the exit code.

    Raises:
        ValueError: the plugin describes itself wrongly, or the address cannot be listened on.
    """
    description.describe(plugin)
    return _serve(plugin, listen_flags.make_listener(listen))


def main(plugin: description.Plugin, argv: Sequence[str] | None = None) -> int:
    """Serve as `serve` does, with address, certificates, allowed callers, metrics and log format from flags.

    `--help` lists them.

    An error is one line on stderr.
    """
    options = _make_parser(plugin.info).parse_args(argv)
    try:
        description.describe(plugin)
        listener = listen_flags.make_listener(
            options.listen,
            certificate=options.tls_cert_file,
            private_key=options.tls_private_key_file,
            client_ca=options.client_ca_file,
            identities=tuple(filter(None, options.allowed_identities.split(","))),
        )
        if listener.address.socket_path is not None:
            # A Unix socket is plain: its permissions say who may call.
            listener = dataclasses.replace(listener, tls=None, identities=frozenset())
        call_metrics = metrics.CallMetrics(plugin.info.name)
        if options.metrics_listen:
            call_metrics.serve(options.metrics_listen)
        return _serve(plugin, listener, call_metrics, options.log_format)
    except ValueError as error:
        return grpc_server.fail(str(error))


def _serve(
    plugin: description.Plugin,
    listener: listen_flags.Listener,
    call_metrics: metrics.CallMetrics | None = None,
    log_format: str = "text",
) -> int:
    """Serve on the listener, with the log on stderr; returns the exit code."""
    process_output.ignore_failed_writes()
    logs.setup(log_format)
    return grpc_server.serve(listener, lambda _: _lifespan(plugin, call_metrics))


def _make_parser(info: description.Info) -> argparse.ArgumentParser:
    """The flags of `main`: address, certificates, allowed callers."""
    text = f"The scheduler plugin {info.name} {info.version}".rstrip() + "."
    parser = argparse.ArgumentParser(prog=info.name, description=text, allow_abbrev=False)
    parser.add_argument("--listen", default="127.0.0.1:0", help="host:port or unix:/path (default %(default)s)")
    parser.add_argument("--tls-cert-file", default="", help="certificate to serve with; reloaded when it changes")
    parser.add_argument("--tls-private-key-file", default="", help="its private key")
    parser.add_argument("--client-ca-file", default="", help="CA that callers' certificates must be signed by")
    parser.add_argument("--allowed-identities", default="", help="names of callers' certificates, comma-separated")
    parser.add_argument("--metrics-listen", default="", help="host:port for metrics in Prometheus' text format")
    parser.add_argument(
        "--log-format", default="text", choices=("text", "json"), help="on stderr (default %(default)s)"
    )
    return parser


@asynccontextmanager
async def _lifespan(
    plugin: description.Plugin, call_metrics: metrics.CallMetrics | None
) -> AsyncIterator[Sequence[grpc_server.Service]]:
    yield services(plugin, call_metrics)


def _make_service(module: Any, name: str, add: Callable[[Any, aio.Server], None], servicer: Any) -> grpc_server.Service:
    return grpc_server.Service(module.DESCRIPTOR.services_by_name[name], lambda server: add(servicer, server))


# For each service: the methods that require it, and how to serve it.
_SERVICES: Sequence[tuple[Sequence[str], Any, str, Callable[[Any, aio.Server], None], Callable[[Invoker], Any]]] = (
    (
        queueing.METHODS,
        queue_pb2,
        "QueueService",
        queue_pb2_grpc.add_QueueServiceServicer_to_server,
        queueing.QueueServicer,
    ),
    (
        filtering.METHODS,
        filter_pb2,
        "FilterPlugin",
        filter_pb2_grpc.add_FilterPluginServicer_to_server,
        filtering.FilterServicer,
    ),
    (
        scoring.METHODS,
        score_pb2,
        "ScorePlugin",
        score_pb2_grpc.add_ScorePluginServicer_to_server,
        scoring.ScoreServicer,
    ),
    (
        binding.METHODS,
        bind_pb2,
        "BindPlugin",
        bind_pb2_grpc.add_BindPluginServicer_to_server,
        binding.BindServicer,
    ),
    (
        placing.METHODS,
        pod_groups_pb2,
        "PodGroupPlugin",
        pod_groups_pb2_grpc.add_PodGroupPluginServicer_to_server,
        placing.PodGroupServicer,
    ),
)
