"""What the processes that follow the cluster (filter, score, insight) share; a `Phase` has what differs.

They share flags, the snapshot, remote plugins, metrics, the services that all have, and serving them.

None has credentials, discovers anything or reads a configuration file: all they know comes by the snapshot stream.
In the frontend's process filter and score follow it together, on one snapshot.

Also change: protos/trireme/v1/plugin.proto (the service).

Tests: tests/contract/test_replica_stream.py, tests/contract/test_local_phases.py.
"""

import argparse
import functools
import gc
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import grpc
from google.protobuf.descriptor import ServiceDescriptor
from grpc import aio

from trireme.phases import configuring, freed_memory, phase_metrics
from trireme.phases.process_flags import ProcessFlags
from trireme.remote import plugin_statistics, remote_connection, remote_plugins
from trireme.rpc import follower, grpc_server, listen_flags, parent_death
from trireme.snapshot import snapshot
from trireme.tracing import exporting
from trireme.v1 import cycle_pb2, plugin_pb2, plugin_pb2_grpc, snapshot_pb2, snapshot_pb2_grpc
from trireme_kube.componentbase import supervision
from trireme_kube.componentbase.cli import arguments, log_flags
from trireme_kube.componentbase.logs import klog
from trireme_kube.componentbase.metrics.instruments import Instrument
from trireme_kube.componentbase.tls import certificate_expiry


class _HasName(Protocol):
    """Whatever has a name: of a plugin the handshake needs no more."""

    @property
    def name(self) -> str: ...


class _Chain(Protocol):
    """The plugins of a profile, whichever phase's they are."""

    @property
    def plugins(self) -> Sequence[_HasName]: ...


class _PhaseService(Protocol):
    """What a phase's service has for this process: its follower, chains and statistics."""

    follow: follower.Follower

    @property
    def chains(self) -> Mapping[str, _Chain]: ...
    def statistics(self) -> Any: ...


ServiceT = TypeVar("ServiceT", bound=_PhaseService)
FlagsT = TypeVar("FlagsT")


@dataclass(frozen=True, slots=True)
class Extension(Generic[ServiceT, FlagsT]):
    """What one of these processes serves beside gRPC: its flags, its certificates' authorities, and serving it.

    `serve` is entered before the process listens, and may raise ListenError; `authorities` are files.
    """

    flags: type[FlagsT]
    authorities: Callable[[FlagsT], Sequence[str]]
    serve: Callable[[ServiceT, ProcessFlags, FlagsT, supervision.Supervisor], AbstractAsyncContextManager[None]]


@dataclass(frozen=True, slots=True)
class Phase(Generic[ServiceT]):
    """What one of these processes has of its own.

    `make` makes its service, of a snapshot, the remote plugins, and the follower that it shares with another phase;
    `add_to` adds it to a server.
    """

    name: str
    point: plugin_pb2.ExtensionPoint.ValueType
    descriptor: ServiceDescriptor
    make: Callable[[snapshot.Snapshot, remote_plugins.RemotePlugins, follower.Follower | None], ServiceT]
    add_to: Callable[[ServiceT, aio.Server], None]
    extension: Extension[ServiceT, Any] | None = None
    #: The metrics of the service that are no numbers of its statistics.
    instruments: Callable[[ServiceT], Iterable[Instrument]] = lambda service: ()


class PhasePluginService(plugin_pb2_grpc.PluginServiceServicer):
    """The handshake of a process: it names all plugins that a phase's profiles run, at the phase's extension point."""

    def __init__(
        self,
        instance: str,
        chains: Mapping[plugin_pb2.ExtensionPoint.ValueType, Callable[[], Mapping[str, _Chain]]],
        remotes: Sequence[Callable[[], Mapping[str, remote_connection.ConnectionStatistics]]] = (),
    ) -> None:
        """`chains` and `remotes` of each phase that the process serves."""
        self._instance = instance
        self._chains = chains
        self._remotes = remotes

    async def GetPluginInfo(
        self, request: plugin_pb2.GetPluginInfoRequest, context: aio.ServicerContext[Any, Any]
    ) -> plugin_pb2.GetPluginInfoResponse:
        """The plugins of all profiles, each once; none before the first configuration came."""
        points: dict[str, set[plugin_pb2.ExtensionPoint.ValueType]] = {}
        for point, chains in self._chains.items():
            for plugin in (plugin for chain in chains().values() for plugin in chain.plugins):
                points.setdefault(plugin.name, set()).add(point)
        return plugin_pb2.GetPluginInfoResponse(
            plugins=[
                plugin_pb2.PluginInfo(name=name, extension_points=sorted(points[name])) for name in sorted(points)
            ],
            instance=self._instance,
        )

    async def Configure(
        self, request: plugin_pb2.ConfigureRequest, context: aio.ServicerContext[Any, Any]
    ) -> plugin_pb2.ConfigureResponse:
        """Not served: a phase gets its configuration by the snapshot stream."""
        await grpc_server.abort(context, grpc.StatusCode.UNIMPLEMENTED, "a phase gets its configuration by Sync")

    async def GetPluginStatistics(
        self, request: plugin_pb2.GetPluginStatisticsRequest, context: aio.ServicerContext[Any, Any]
    ) -> plugin_pb2.GetPluginStatisticsResponse:
        """How the calls to remote plugins went."""
        response = plugin_pb2.GetPluginStatisticsResponse()
        for statistics in self._remotes:
            response.MergeFrom(plugin_statistics.to_response(statistics()))
        return response


def shared_services(follow: follower.Follower, hosted: PhasePluginService) -> tuple[grpc_server.Service, ...]:
    """SnapshotFollower and PluginService."""
    return (
        grpc_server.Service(
            snapshot_pb2.DESCRIPTOR.services_by_name["SnapshotFollower"],
            lambda server: snapshot_pb2_grpc.add_SnapshotFollowerServicer_to_server(follow, server),
            follow.end_streams,
        ),
        grpc_server.Service(
            plugin_pb2.DESCRIPTOR.services_by_name["PluginService"],
            lambda server: plugin_pb2_grpc.add_PluginServiceServicer_to_server(hosted, server),
        ),
    )


def run(phase: Phase[ServiceT], argv: Sequence[str] | None) -> int:
    """Parse the flags and serve until SIGTERM. Returns the exit code; what is wrong is one line on stderr."""
    parser = flag_parser(phase.name)
    if phase.extension is not None:
        arguments.add(parser, phase.extension.flags)
    values = parser.parse_args(argv)
    klog.setup(arguments.read(log_flags.LogFlags, values).options("trireme"))
    flags = arguments.read(ProcessFlags, values)
    own = None if phase.extension is None else arguments.read(phase.extension.flags, values)
    if flags.exit_with_parent:
        parent_death.exit_with_parent(flags.exit_with_parent)
    try:
        listener = flags.listener()
        # What is loaded now lives as long as the process: the collector need not look at it again.
        gc.freeze()
        freed_memory.keep_for_next_call()
        with exporting.exporting(f"trireme-{phase.name}"):
            return grpc_server.serve(listener, lambda supervisor: open_services(phase, flags, own, supervisor))
    except listen_flags.ListenError as error:
        return grpc_server.fail(str(error))


@asynccontextmanager
async def open_in_frontend(phases: Sequence[Phase[Any]]) -> AsyncIterator[Sequence[grpc_server.Service]]:
    """The services of phases that a frontend serves in its own process, on one snapshot with one stream of deltas."""
    services: list[Any] = []
    snap = snapshot.Snapshot()
    follow = follower.Follower(snap, functools.partial(configuring.configure, services))
    remotes = [remote_plugins.RemotePlugins(snap, follow.caller_identity) for _ in phases]
    services += [phase.make(snap, of_phase, follow) for phase, of_phase in zip(phases, remotes, strict=True)]
    try:
        yield _all_services(phases, services, remotes)
    finally:
        for of_phase in remotes:
            await of_phase.connections.close()


def _all_services(
    phases: Sequence[Phase[Any]], services: Sequence[_PhaseService], remotes: Sequence[remote_plugins.RemotePlugins]
) -> tuple[grpc_server.Service, ...]:
    """What a process serves of these phases, which have one follower: their own services, and those that all have."""
    follow = services[0].follow
    of_phases = list(zip(phases, services, strict=True))
    hosted = PhasePluginService(
        follow.instance,
        {phase.point: functools.partial(getattr, service, "chains") for phase, service in of_phases},
        [each.connections.statistics for each in remotes],
    )
    own = (
        grpc_server.Service(phase.descriptor, functools.partial(phase.add_to, service)) for phase, service in of_phases
    )
    return (*shared_services(follow, hosted), *own)


@asynccontextmanager
async def open_services(
    phase: Phase[ServiceT], flags: ProcessFlags, own: Any, supervisor: supervision.Supervisor
) -> AsyncIterator[Sequence[grpc_server.Service]]:
    """The services of one phase, with its snapshot and metrics, for as long as the process serves.

    `own` are the flags of its extension.
    """

    def caller_identity() -> cycle_pb2.Cycle:
        return service.follow.caller_identity()

    snap = snapshot.Snapshot()
    remotes = remote_plugins.RemotePlugins(snap, caller_identity)
    service = phase.make(snap, remotes, None)
    measured = phase_metrics.serve_follower(
        flags.metrics_listen,
        phase.name,
        service.follow,
        remotes.connections.statistics,
        service.statistics,
        phase.instruments(service),
        expiries=certificate_expiry.Expiries(
            [
                *certificate_expiry.of_file(certificate_expiry.SERVING, flags.tls_cert_file),
                *certificate_expiry.of_file(certificate_expiry.AUTHORITY, flags.client_ca_file),
                *(
                    authority
                    for file in (phase.extension.authorities(own) if phase.extension is not None else ())
                    for authority in certificate_expiry.of_file(certificate_expiry.AUTHORITY, file)
                ),
            ]
        ),
        supervisor=supervisor,
    )
    extended = nullcontext() if phase.extension is None else phase.extension.serve(service, flags, own, supervisor)
    try:
        async with measured, extended:
            yield _all_services([phase], [service], [remotes])
    finally:
        await remotes.connections.close()


def flag_parser(phase: str) -> argparse.ArgumentParser:
    """The parser of the flags that the processes that follow the cluster share."""
    description = f"The {phase} process of the Trireme scheduler."
    parser = argparse.ArgumentParser(prog=f"trireme-{phase}", description=description, allow_abbrev=False)
    arguments.add(parser, ProcessFlags)
    arguments.add(parser, log_flags.LogFlags)
    return parser
