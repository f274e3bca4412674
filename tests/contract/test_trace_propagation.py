"""Traces through the processes, over real gRPC: a frontend with filter, score and bind."""

import contextlib
import pathlib
from collections.abc import AsyncIterator, Sequence

import pytest
from opentelemetry import trace
from opentelemetry.sdk import trace as trace_sdk

from tests.contract import frontend_with_phases
from tests.helpers import polling, recorded_spans
from trireme import sdk
from trireme.frontend.tracing import pod_traces
from trireme.remote import plugin_connections, remote_connection
from trireme.rpc import dialing, grpc_server, listen_flags
from trireme.sdk import plugin_server
from trireme.tracing import trace_context
from trireme.tracing.trace_context import TraceContext
from trireme.v1 import cycle_pb2, filter_pb2, filter_pb2_grpc, snapshot_pb2


@contextlib.asynccontextmanager
async def _scheduling(folder: pathlib.Path, local: Sequence[str] = ()) -> AsyncIterator[frontend_with_phases.Cluster]:
    """A frontend that leads, with a replica of each phase; those of `local` are in its process."""
    cluster = frontend_with_phases.Cluster(in_process=local)
    remote = [name for name in ("filter", "score", "bind") if name not in local]
    servers = {name: frontend_with_phases.Server(cluster, name, folder, 0) for name in remote}
    for server in servers.values():
        await server.start()
    await cluster.local.start()
    try:
        links = cluster.frontend.phases.links
        async with cluster.scheduling():
            for name, phase in (("filter", links.filters), ("score", links.scores), ("bind", links.binders)):
                phase.set_endpoints([servers[name].address] if name in servers else cluster.local.addresses(name))
            yield cluster
    finally:
        for server in servers.values():
            await server.stop()


@pytest.mark.parametrize("local", [(), ("filter", "score")], ids=["replicas", "in-process"])
async def test_a_trace_of_a_pod_goes_through_all_phases(tmp_path: pathlib.Path, local: Sequence[str]) -> None:
    with recorded_spans.recorded() as recorder:
        async with _scheduling(tmp_path, local) as cluster:
            cluster.deliver_nodes([frontend_with_phases.node(name, 10) for name in ("n1", "n2")])
            uid = cluster.create("a", "1")
            await cluster.until_bound(1, 20)
            await polling.until(lambda: bool(recorder.named("Pod") and recorder.named("Bind")))
            instrument = cluster.frontend.context.metrics.instruments.attempt_seconds
        tree = recorder.tree(pod_traces.ids_of_pod(uid)[0])
    (exemplar,) = (found.exemplar for found in instrument.family().samples if found.exemplar is not None)
    assert exemplar.labels == {"trace_id": pod_traces.trace_id_text(uid)}
    assert [line for line in tree if len(line) - len(line.lstrip()) < 3] == [
        "Pod",
        " Queue",
        " Attempt",
        "  Filter",
        "  Place",
        "  Bind",
    ]
    below = {line.strip() for line in tree if line.startswith("   ")}
    assert {"trireme.v1.FilterPhase/Filter", "trireme.v1.ScorePhase/Place", "trireme.v1.BindPhase/Bind"} <= below
    assert {"Filter NodeResourcesFit", "Score NodeResourcesFit"} <= below


async def test_a_pod_that_fits_nowhere_has_its_attempt_kept(tmp_path: pathlib.Path) -> None:
    with recorded_spans.recorded(lambda trace_id: False) as recorder:
        async with _scheduling(tmp_path) as cluster:
            cluster.deliver_nodes([frontend_with_phases.node("n", 10)])
            cluster.create("a", "1000")
            await polling.until(lambda: bool(recorder.named("Attempt")))
    (attempt,) = recorder.named("Attempt")[:1]
    assert attempt.error.startswith("0/1 nodes are available: 1 Insufficient cpu")
    assert [len(recorder.named(name)) for name in ("Filter", "PostFilter", "Pod")] == [1, 1, 0]


class Tracing:
    """A plugin that makes a span of its own with OpenTelemetry."""

    info = sdk.Info("Tracing", depends_on=sdk.Dependency.CLUSTER)

    def __init__(self) -> None:
        self.parents: list[trace.SpanContext | None] = []
        self._tracer = trace_sdk.TracerProvider().get_tracer("plugin")

    def pre_filter(self, call: sdk.Call) -> None:
        with self._tracer.start_as_current_span("own work") as span:
            self.parents.append(getattr(span, "parent", None))


async def test_the_spans_of_a_plugin_join_the_trace_of_the_pod(tmp_path: pathlib.Path) -> None:
    plugin = Tracing()
    server = grpc_server.ReplicaServer(
        listen_flags.make_listener(f"unix:{tmp_path}/plugin.sock"), plugin_server.services(plugin)
    )
    address = await server.start()
    caller = TraceContext(0xA, 0xB, True)
    config = snapshot_pb2.RemotePlugin(name="Tracing", endpoints=[address.text], deadline_ms=20_000)
    try:
        with recorded_spans.recorded() as recorder:
            client = plugin_connections.PluginConnections(cycle_pb2.Cycle).make_client(config)
            method = remote_connection.Method("/trireme.v1.FilterPlugin/PreFilter", filter_pb2.PreFilterResponse)
            with trace_context.use(caller):
                await client.connection.call(method, b"", lambda response: response)
            await client.connection.call(method, b"", lambda response: response)
            await client.connection.close()
            (span,) = recorder.spans
    finally:
        await server.stop(0)
    assert (span.name, span.parent_id, span.context.trace_id) == ("Tracing PreFilter", 0xB, 0xA)
    joined, alone = plugin.parents
    assert joined is not None
    assert (joined.trace_id, joined.span_id, alone) == (0xA, span.context.span_id, None)


class Caller:
    """A plugin that notes which span it is called from."""

    info = sdk.Info("Caller", depends_on=sdk.Dependency.CLUSTER)

    def __init__(self) -> None:
        self.spans: list[TraceContext | None] = []

    def pre_filter(self, call: sdk.Call) -> None:
        self.spans.append(trace_context.current.get())


async def test_plugins_know_that_a_trace_is_not_sampled(tmp_path: pathlib.Path) -> None:
    """If not, their own samplers would decide, and keep traces that consist of a plugin alone."""
    plugin, caller = Caller(), TraceContext(0xA, 0xB, False)
    listener = listen_flags.make_listener(f"unix:{tmp_path}/plugin.sock")
    with recorded_spans.recorded() as recorder:
        server = grpc_server.ReplicaServer(listener, plugin_server.services(plugin))
        connection = dialing.Dialer().open((await server.start()).text, ())
        stub = filter_pb2_grpc.FilterPluginStub(connection.channel)
        try:
            with trace_context.use(caller):
                await stub.PreFilter(filter_pb2.PreFilterRequest())
            await stub.PreFilter(filter_pb2.PreFilterRequest())
        finally:
            await connection.close()
            await server.stop(0)
    assert (plugin.spans, recorder.spans) == ([caller, None], [])


async def test_calls_pass_nothing_on_while_tracing_is_off(tmp_path: pathlib.Path) -> None:
    plugin = Tracing()
    server = grpc_server.ReplicaServer(
        listen_flags.make_listener(f"unix:{tmp_path}/plugin.sock"), plugin_server.services(plugin)
    )
    address = await server.start()
    connection = dialing.Dialer().open(address.text, ())
    try:
        with trace_context.use(TraceContext(0xA, 0xB, True)):
            await filter_pb2_grpc.FilterPluginStub(connection.channel).PreFilter(filter_pb2.PreFilterRequest())
    finally:
        await connection.close()
        await server.stop(0)
    assert plugin.parents == [None]
