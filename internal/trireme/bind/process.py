"""The bind process: flags, the connection to the API server, and the services it serves.

It puts the pieces together and decides nothing. Clock, wall clock and randomness enter the program here.

Also change: internal/trireme/filter/process.py, internal/trireme/score/process.py,
internal/trireme/insight/process.py (filter and score are alike here).

Tests: tests/unit/bind/test_process.py, tests/contract/test_bind_service.py.
"""

import asyncio
import dataclasses
import gc
import os
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from trireme.bind import flags, metrics
from trireme.bind.action_executor import ActionExecutor
from trireme.bind.binding_writer import BindingWriter
from trireme.bind.leadership import Leadership, LeaseReader
from trireme.bind.pre_binder import PreBinder
from trireme.bind.remote_bind_plugins import RemoteBindPlugins
from trireme.bind.service import BindPhase, BindPluginService
from trireme.bind.work_in_flight import WorkInFlight
from trireme.bind.write_turns import RateLimit, WriteTurns
from trireme.phases import phase_metrics
from trireme.plugin_kit.bind_phase_plugin import BindPhasePlugin
from trireme.registry import bind_plugins
from trireme.remote import plugin_connections
from trireme.rpc import grpc_server, listen_flags, parent_death
from trireme.rpc.fencing import EpochGuard
from trireme.tracing import exporting
from trireme.v1 import bind_phase_pb2, bind_phase_pb2_grpc, cycle_pb2, plugin_pb2, plugin_pb2_grpc, snapshot_pb2
from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.client.leaderelection import lease
from trireme_kube.client.leaderelection.election import LeaseRecord
from trireme_kube.client.rest import client
from trireme_kube.client.writes import Writer
from trireme_kube.componentbase import clocks, supervision
from trireme_kube.componentbase.tls import certificate_expiry

LEASE_DEADLINE_SECONDS = 5.0
"""For reading the Lease, with repetitions."""

CLOSE_SECONDS = 10.0
"""For writes under way that nobody waits for any more when the process is told to end."""

CLOSE_IN_PROCESS_SECONDS = 5.0
"""For such writes in the process of a frontend, which has to release its Lease before it is killed.

Also change: internal/trireme/frontend/phase_clients/local_phases.py (how long all of it may take)."""


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM, and return the exit code. An error at the start is one line on stderr."""
    try:
        options = flags.parse(argv)
        if options.parent:
            parent_death.exit_with_parent(options.parent)
        # What is loaded now lives as long as the process: the collector need not look at it again.
        gc.freeze()
        with exporting.exporting("trireme-bind"):
            return grpc_server.serve(options.listener, lambda supervisor: lifespan(options, supervisor))
    except (flags.FlagError, listen_flags.ListenError, ConfigurationError) as error:
        return grpc_server.fail(str(error))


def open_services(
    arguments: Sequence[str], supervisor: supervision.Supervisor
) -> AbstractAsyncContextManager[Sequence[grpc_server.Service]]:
    """The services, for a frontend that serves them in its own process, by the flags that a process would get.

    Raises:
        FlagError, ConfigurationError, ListenError: naming the file, field or flag at fault.
    """
    options = flags.parse(arguments, set_up_log=False)
    options = dataclasses.replace(options, parent=os.getpid())
    return lifespan(options, supervisor, close_seconds=CLOSE_IN_PROCESS_SECONDS)


@asynccontextmanager
async def lifespan(
    options: flags.Options, supervisor: supervision.Supervisor, *, close_seconds: float = CLOSE_SECONDS
) -> AsyncIterator[Sequence[grpc_server.Service]]:
    """The services, from the connection to the API server up. At the end writes under way have `close_seconds`.

    Raises:
        ConfigurationError, ListenError: naming the file, field or flag at fault.
    """
    clock = time.monotonic
    # The Lease is read beside the writes, not after those that wait for the rate limit or a connection.
    beside = dataclasses.replace(options.connection, max_connections=2)
    async with await client.connect(options.connection) as api, await client.connect(beside) as lease_api:
        in_flight = WorkInFlight(clock)
        writer = Writer(api)
        limit = RateLimit(options.connection.qps, api.rate_limit_delay)
        binder = BindingWriter(writer, in_flight, clock=clock, jitter=random.random, limit=limit)
        pre_binder = PreBinder(WriteTurns(limit), in_flight, clock)
        actor = ActionExecutor(
            writer,
            in_flight,
            WriteTurns(limit),
            cancel_pre_bind=pre_binder.cancel,
            clock=clock,
            wall=clocks.wall_ns,
        )
        leadership = Leadership(EpochGuard(), _lease_reader(lease_api, options.lease), clock)

        connections = plugin_connections.PluginConnections(lambda: cycle_pb2.Cycle(config_hash=service.config_hash))
        remotes = RemoteBindPlugins(connections, writer, in_flight, clock)

        def plugins_of(configuration: snapshot_pb2.Configuration) -> Mapping[str, BindPhasePlugin]:
            return {
                **bind_plugins.bind_phase_plugins(configuration, writer, binder, clocks.wall_ns),
                **remotes.plugins_of(configuration.remote_plugins),
            }

        service = BindPhase(leadership, binder, pre_binder, actor, in_flight, plugins_of, clock=clock)
        instruments = metrics.instruments(service, api, connections)
        expiries = certificate_expiry.Expiries(_certificates_to_watch(options, api))
        measured = phase_metrics.serve(
            options.metrics_listen, instruments, lambda: metrics.why_not_ready(service), expiries, supervisor
        )
        async with measured:
            try:
                yield _services(service, connections)
            finally:
                await asyncio.gather(actor.close(close_seconds), binder.close(close_seconds))
                await leadership.close()
                await connections.close()


def _services(service: BindPhase, connections: plugin_connections.PluginConnections) -> Sequence[grpc_server.Service]:
    """The gRPC services of bind: BindPhase and PluginService."""
    hosted = BindPluginService(service, connections.statistics)
    return (
        grpc_server.Service(
            bind_phase_pb2.DESCRIPTOR.services_by_name["BindPhase"],
            lambda server: bind_phase_pb2_grpc.add_BindPhaseServicer_to_server(service, server),
        ),
        grpc_server.Service(
            plugin_pb2.DESCRIPTOR.services_by_name["PluginService"],
            lambda server: plugin_pb2_grpc.add_PluginServiceServicer_to_server(hosted, server),
        ),
    )


def _certificates_to_watch(options: flags.Options, api: client.ApiClient) -> Sequence[certificate_expiry.Certificate]:
    """The certificates that this process shows, and the authorities by which it knows frontends, for their expiry.

    None for a bind that a frontend started itself: it uses the frontend's, which the frontend watches.
    """
    if options.parent:
        return ()
    found: list[certificate_expiry.Certificate] = []
    if (tls := options.listener.tls) is not None:
        found += certificate_expiry.of_file(certificate_expiry.SERVING, str(tls.certificate))
        found += certificate_expiry.of_file(certificate_expiry.AUTHORITY, str(tls.client_ca or ""))
    if (shown := api.client_certificate) is not None:
        found.append(certificate_expiry.Certificate(certificate_expiry.CLIENT, *shown))
    return found


def _lease_reader(api: client.ApiClient, named: tuple[str, str] | None) -> LeaseReader | None:
    """Make the reader of the Lease of this namespace and name; None without leader election."""
    if named is None:
        return None
    namespace, name = named

    async def read_lease() -> LeaseRecord | None:
        return await lease.read_lease(api, namespace, name, LEASE_DEADLINE_SECONDS)

    return LeaseReader(f"{namespace}/{name}", read_lease)
