"""BindPhase: the gRPC edge of the phase.

Each call passes three gates before anything is done: it is well formed (INVALID_ARGUMENT), the caller leads
(`leadership`), and it means the configuration that this replica has. The configuration comes with Fence, together with
the epoch that it belongs to, because bind follows no stream.

Also change: docs/protocol.md.
Also change: protos/trireme/v1/bind_phase.proto (the messages).
Also change: protos/trireme/v1/plugin.proto (the service).

Tests: tests/unit/bind/test_service.py, tests/contract/test_bind_service.py,
tests/contract/test_bind_large_calls.py.
"""

import logging
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, NoReturn

import grpc
from google.protobuf.message import DecodeError
from grpc import aio

from trireme.bind import binding_retries, profile_plugins
from trireme.bind.action_executor import ActionExecutor
from trireme.bind.binding_writer import BindingWriter, BindingWriterStatistics
from trireme.bind.call_results import BusyError
from trireme.bind.heartbeats import with_heartbeats
from trireme.bind.leadership import Leadership, LeadershipStatistics
from trireme.bind.pre_binder import PodsOfClass, PreBinder
from trireme.bind.work_in_flight import WorkInFlight
from trireme.phases import release_skew
from trireme.plugin_kit import bind_phase_plugin
from trireme.remote import plugin_statistics, remote_connection
from trireme.rpc import grpc_server
from trireme.rpc.fencing import Refusal, RefusalReason, Tenure
from trireme.v1 import (
    bind_pb2,
    bind_phase_pb2,
    bind_phase_pb2_grpc,
    cycle_pb2,
    plugin_pb2,
    plugin_pb2_grpc,
    snapshot_pb2,
)
from trireme.wire.status import to_message
from trireme_kube.client.leaderelection.lease import EpochClaim

log = logging.getLogger(__name__)

Context = aio.ServicerContext[Any, Any]
PluginsOf = Callable[[snapshot_pb2.Configuration], Mapping[str, bind_phase_plugin.BindPhasePlugin]]

DRAIN_SECONDS = 10.0
"""How long Fence waits for older work, if its caller has set no deadline."""

REPLY_SECONDS = 0.1
"""What is left of a caller's deadline for the answer to reach it."""

PLUGIN_CALL_SECONDS = 60.0
"""How long a call to plugins may have effects, if its caller has set no deadline."""

# What the API server accepts as a name; anything else could lead a path elsewhere.
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class BindStatistics:
    """The counters of this replica."""

    binder: BindingWriterStatistics  # bindings
    leadership: LeadershipStatistics  # leaders
    actions: Mapping[tuple[str, str], int]  # by kind and result (`success`, `error`)
    configured: bool  # a configuration has come


class BindPhase(bind_phase_pb2_grpc.BindPhaseServicer):
    """The gRPC service of bind: admits the caller by its fence, then has plugins and writers do the work."""

    def __init__(
        self,
        leadership: Leadership,
        binder: BindingWriter,
        pre_binder: PreBinder,
        actor: ActionExecutor,
        in_flight: WorkInFlight,
        plugins_of: PluginsOf,
        *,
        clock: Callable[[], float],
    ) -> None:
        """`plugins_of` answers the plugins that there are under a configuration, by name."""
        self._leadership = leadership
        self._binder = binder
        self._pre_binder = pre_binder
        self._actor = actor
        self._in_flight = in_flight
        self._plugins_of = plugins_of
        self._clock = clock
        self._config_hash = 0
        self._profiles: Mapping[str, profile_plugins.ProfilePlugins] = {}
        self.plugins: Mapping[str, bind_phase_plugin.BindPhasePlugin] = {}

    def statistics(self) -> BindStatistics:
        """A snapshot of the counters."""
        return BindStatistics(
            self._binder.statistics(),
            self._leadership.statistics(),
            self._actor.statistics(),
            bool(self._profiles),
        )

    @property
    def config_hash(self) -> int:
        """The hash of the configuration in force; 0 before the first."""
        return self._config_hash

    async def Fence(self, request: bind_phase_pb2.FenceRequest, context: Context) -> bind_phase_pb2.FenceResponse:
        """Takes the epoch and the configuration, and waits for older work."""
        tenure = await self._admit(request.fence, context)
        if request.HasField("configuration"):
            await self._configure(request.config_hash, request.configuration, context)
        elif request.config_hash != self._config_hash or not self._profiles:
            await _refuse_configuration(context)
        remaining = context.time_remaining()
        patience = DRAIN_SECONDS if remaining is None else remaining - REPLY_SECONDS
        left = await self._in_flight.until_drained(tenure.leader, patience)
        return bind_phase_pb2.FenceResponse(epoch=request.fence.epoch, drain_ms=round(left * 1000))

    async def Permit(self, request: bind_pb2.PermitRequest, context: Context) -> bind_pb2.PermitResponse:
        """Whether these pods may be bound now."""
        tenure, plugins = await self._admit_and_find_plugins(request.cycle, context)
        await _check_items(request.items, context)
        return await self._track_plugin_call(tenure, context, profile_plugins.permit(plugins, request))

    async def PreBindPreFlight(
        self, request: bind_phase_pb2.BindPhasePreBindPreFlightRequest, context: Context
    ) -> AsyncIterator[bind_phase_pb2.BindPhasePreBindPreFlightResponse]:
        """Find out whether PreBind has work for these pods; results are sent as they are known, with heartbeats."""
        classes = await self._pods_by_class(request, context)
        seconds = request.timeout_ms / 1000
        try:
            async with aclosing(with_heartbeats(self._pre_binder.run_pre_flight(classes, seconds))) as batches:
                async for results in batches:
                    yield bind_phase_pb2.BindPhasePreBindPreFlightResponse(
                        results=[
                            bind_phase_pb2.IndexedPreBindPreFlightResult(index=index, status=status)
                            for index, status in results
                        ]
                    )
        except BusyError as busy:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(busy))

    async def PreBind(
        self, request: bind_phase_pb2.BindPhasePreBindRequest, context: Context
    ) -> AsyncIterator[bind_phase_pb2.BindPhasePreBindResponse]:
        """Run PreBind for these pods; each result is sent as it is known, with heartbeats between."""
        classes = await self._pods_by_class(request, context)
        try:
            async with aclosing(with_heartbeats(self._pre_binder.run(classes, request.timeout_ms / 1000))) as batches:
                async for results in batches:
                    yield bind_phase_pb2.BindPhasePreBindResponse(
                        results=[
                            bind_phase_pb2.IndexedPreBindResult(index=index, result=result) for index, result in results
                        ]
                    )
        except BusyError as busy:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(busy))

    async def Bind(self, request: bind_pb2.BindRequest, context: Context) -> AsyncIterator[bind_pb2.BindResponse]:
        """Bind these pods."""
        tenure, plugins = await self._admit_and_find_plugins(request.cycle, context)
        await _check_items(request.items, context)
        try:
            async with aclosing(with_heartbeats(profile_plugins.bind(plugins, request, tenure))) as batches:
                async for results in batches:
                    yield bind_pb2.BindResponse(results=results)
        except bind_phase_plugin.BindResultUnknown as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        except BusyError as busy:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(busy))

    async def PostBind(self, request: bind_pb2.PostBindRequest, context: Context) -> bind_pb2.PostBindResponse:
        """These pods were bound."""
        tenure, plugins = await self._admit_and_find_plugins(request.cycle, context)
        await _check_items(request.items, context)
        await self._track_plugin_call(tenure, context, profile_plugins.post_bind(plugins, request))
        return bind_pb2.PostBindResponse()

    async def Apply(
        self, request: bind_phase_pb2.ApplyRequest, context: Context
    ) -> AsyncIterator[bind_phase_pb2.ApplyResponse]:
        """Execute these actions; each outcome is sent as it is known, with heartbeats between.

        An action that is invalid, or a caller that leads no longer, ends the call before anything is written.
        """
        tenure = await self._admit(request.fence, context)
        for index, action in enumerate(request.actions):
            await _check_action(index, action, context)
        try:
            async with aclosing(with_heartbeats(self._actor.apply(request.actions, tenure))) as batches:
                async for outcomes in batches:
                    yield bind_phase_pb2.ApplyResponse(
                        results=[
                            bind_pb2.BindResult(index=index, status=to_message(outcome)) for index, outcome in outcomes
                        ]
                    )
        except BusyError as busy:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(busy))

    async def _admit(self, fence: cycle_pb2.Fence, context: Context) -> Tenure:
        """Return the caller's tenure; ends the call if the fence has no epoch, or the caller does not lead."""
        if not fence.epoch:
            await _abort_invalid_argument(context, "fence.epoch: not set")
        try:
            return await self._leadership.admit(
                EpochClaim(fence.epoch, fence.holder_identity, fence.scheduler_id), fence.lease_valid_ms / 1000
            )
        except Refusal as refusal:
            await grpc_server.refuse(context, refusal)

    async def _admit_and_find_plugins(
        self, cycle: cycle_pb2.Cycle, context: Context
    ) -> tuple[Tenure, profile_plugins.ProfilePlugins]:
        """Return the caller's tenure and the plugins of the cycle's profile.

        Ends the call if the caller does not lead, means another configuration, or names a profile that is not there.
        """
        tenure = await self._admit(cycle.fence, context)
        if cycle.config_hash != self._config_hash or not self._profiles:
            await _refuse_configuration(context)
        plugins = self._profiles.get(cycle.profile)
        if plugins is None:
            await _abort_invalid_argument(context, f"cycle.profile: no profile {cycle.profile!r}")
        return tenure, plugins

    async def _pods_by_class(
        self,
        request: bind_phase_pb2.BindPhasePreBindRequest | bind_phase_pb2.BindPhasePreBindPreFlightRequest,
        context: Context,
    ) -> list[PodsOfClass]:
        """Admit and check the parts of a PreBind or pre-flight request, one for each class of pods."""
        if not request.timeout_ms:
            await _abort_invalid_argument(context, "timeout_ms: not set")
        classes = []
        for part in request.requests:
            tenure, plugins = await self._admit_and_find_plugins(part.cycle, context)
            await _check_items(part.items, context)
            classes.append(PodsOfClass(plugins, part.cycle, part.items, tenure))
        return classes

    async def _configure(self, config_hash: int, configuration: snapshot_pb2.Configuration, context: Context) -> None:
        """Put a configuration in force, if it is another one; ends the call if it is invalid."""
        if config_hash == self._config_hash and self._profiles:
            return
        try:
            release_skew.check(configuration)
            plugins = self._plugins_of(configuration)
            profiles = profile_plugins.by_profile(configuration, plugins)
        except ValueError as error:
            await _abort_invalid_argument(context, f"configuration: {error}")
        if not profiles:
            await _abort_invalid_argument(context, "configuration.profiles: there is none")
        self.plugins, self._profiles, self._config_hash = plugins, profiles, config_hash
        log.info("configured with profiles %s", ", ".join(profiles))

    async def _track_plugin_call(self, tenure: Tenure, context: Context, work: Awaitable[Any]) -> Any:
        """Await a call of plugins, listed as work that a new leader waits for."""
        remaining = context.time_remaining()
        until = self._clock() + (PLUGIN_CALL_SECONDS if remaining is None else remaining)
        with self._in_flight.track(tenure.leader, until, binding_retries.SETTLE_SECONDS):
            return await work


class BindPluginService(plugin_pb2_grpc.PluginServiceServicer):
    """The handshake: which plugins this phase runs, and at which points."""

    def __init__(
        self,
        service: BindPhase,
        remotes: Callable[[], Mapping[str, remote_connection.ConnectionStatistics]] = dict,
    ) -> None:
        """`remotes` answers how the calls to remote plugins went, by name."""
        self._service = service
        self._remotes = remotes
        self._instance = uuid.uuid4().hex

    async def GetPluginInfo(
        self, request: plugin_pb2.GetPluginInfoRequest, context: Context
    ) -> plugin_pb2.GetPluginInfoResponse:
        """All of them; none before the first configuration came."""
        return plugin_pb2.GetPluginInfoResponse(
            plugins=[
                plugin_pb2.PluginInfo(name=plugin.name, extension_points=_served_points(plugin))
                for _, plugin in sorted(self._service.plugins.items())
            ],
            instance=self._instance,
        )

    async def Configure(self, request: plugin_pb2.ConfigureRequest, context: Context) -> plugin_pb2.ConfigureResponse:
        """Not served: a phase gets its configuration by Fence."""
        await grpc_server.abort(context, grpc.StatusCode.UNIMPLEMENTED, "a phase gets its configuration by Fence")

    async def GetPluginStatistics(
        self, request: plugin_pb2.GetPluginStatisticsRequest, context: Context
    ) -> plugin_pb2.GetPluginStatisticsResponse:
        """The statistics of the calls to remote plugins."""
        return plugin_statistics.to_response(self._remotes())


def _served_points(plugin: bind_phase_plugin.BindPhasePlugin) -> list[plugin_pb2.ExtensionPoint.ValueType]:
    """The extension points at which the plugin has a function."""
    calls = (
        (plugin_pb2.EXTENSION_POINT_PERMIT, plugin.permit),
        (plugin_pb2.EXTENSION_POINT_PRE_BIND, plugin.pre_bind),
        (plugin_pb2.EXTENSION_POINT_BIND, plugin.bind),
        (plugin_pb2.EXTENSION_POINT_POST_BIND, plugin.post_bind),
    )
    return [point for point, call in calls if call is not None]


async def _check_items(items: Iterable[bind_pb2.BindItem], context: Context) -> None:
    """End the call if an item's state or pod identity is invalid."""
    for index, item in enumerate(items):
        await _check_state(item.state, f"items[{index}].state", context)
        problem = _identity_problem(item.pod)
        if problem:
            await _abort_invalid_argument(context, f"items[{index}].pod.{problem}")
        if not _NAME.fullmatch(item.node_name):
            await _abort_invalid_argument(context, f"items[{index}].node_name: {item.node_name!r} is no name")


async def _check_state(state: bytes, field: str, context: Context) -> None:
    """End the call with INVALID_ARGUMENT if the state, which may be empty, is not one of plugins."""
    try:
        bind_phase_pb2.PluginStates.FromString(state)
    except DecodeError:
        await _abort_invalid_argument(context, f"{field}: not the state of plugins")


async def _check_action(index: int, action: bind_pb2.Action, context: Context) -> None:
    """End the call if the action is unset, or names its pod or claim invalidly."""
    problem = _identity_problem(action.pod)
    if problem:
        await _abort_invalid_argument(context, f"actions[{index}].pod.{problem}")
    kind = action.WhichOneof("action")
    if kind is None:
        await _abort_invalid_argument(context, f"actions[{index}].action: not set")
    if kind in ("deallocate", "remove_claim_user"):
        claim: bind_pb2.Deallocate | bind_pb2.RemoveClaimUser = getattr(action, kind)
        if not (_NAME.fullmatch(claim.namespace) and _NAME.fullmatch(claim.name) and claim.uid):
            await _abort_invalid_argument(
                context, f"actions[{index}].{kind}: namespace, name and uid must name a claim"
            )
    await _check_state(action.undo_pre_bind.state, f"actions[{index}].undo_pre_bind.state", context)


def _identity_problem(pod: cycle_pb2.PodIdentity) -> str:
    """Which field of a pod's identity is unusable, and why; empty: none."""
    if not _NAME.fullmatch(pod.namespace):
        return f"namespace: {pod.namespace!r} is no name"
    if not _NAME.fullmatch(pod.name):
        return f"name: {pod.name!r} is no name"
    return "" if pod.uid else "uid: not set"


async def _abort_invalid_argument(context: Context, message: str) -> NoReturn:
    await grpc_server.abort(context, grpc.StatusCode.INVALID_ARGUMENT, message)


async def _refuse_configuration(context: Context) -> NoReturn:
    """End the call because its configuration is not the one in force here; the caller sends it by Fence."""
    message = "config_hash: not the configuration of this replica; call Fence with it"
    await grpc_server.refuse(context, Refusal(RefusalReason.CONFIG_MISMATCH, message))
