"""Monitors the remote plugins: which take part in scheduling, and their health.

A plugin takes part once it has a description that fits the profiles and has accepted its configuration. Until then its
failure policy decides: with Ignore its profiles are scheduled without it, with Fail they wait. A plugin that took part
once stays: the caller handles failures of single calls. But if it restarts or describes itself otherwise, and then does
not fit the profiles or refuses its configuration, it is rejected, and the failure policy decides again.

Each plugin is polled every few seconds, so that one that starts late, or starts again as another version, is noticed.
Another instance gets its configuration, and the pods that it refused before are tried again; the phases begin anew only
if calls to the plugin have to change, or if it is another version: answers of the version before may be cached.
"""

import asyncio
import functools
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from google.protobuf import message
from grpc import aio

from trireme.config import commandline, trireme_configuration
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.frontend import phase_configuration, plugin_changes, plugin_checks
from trireme.plugin_api import plugin_info_validation
from trireme.remote import plugin_control, remote_client, remote_endpoint
from trireme.rpc import dialing
from trireme.v1 import plugin_pb2
from trireme_kube.componentbase import supervision
from trireme_kube.componentbase.logs import klog

log = logging.getLogger(__name__)

# How long the start waits for plugins that start at the same time.
START_SECONDS = 3.0
# How often plugins are polled: missing ones, and the others.
MISSING_SECONDS = 1.0
CHECK_SECONDS = 5.0
CHECK_TIMEOUT_SECONDS = 2.0
# How long a plugin under Ignore that follows the cluster may lack it; as long as a full sync may take.
UNSYNCED_SECONDS = 60.0


Changed = Callable[[Mapping[str, plugin_pb2.PluginInfo], str], Awaitable[None]]
"""Gets `PluginMonitor.infos` and the plugin whose part in scheduling, description or instance changed."""


@dataclass(frozen=True, slots=True)
class PluginStatus:
    """One remote plugin."""

    name: str
    address: str
    version: str  # of the instance; empty if it was never reached, or reports none
    failure_policy: str
    takes_part: bool
    reachable: bool  # at the last check
    problem: str  # why it does not take part, is unreachable or runs with an older description; else empty
    changing: bool  # its description changes again and again, and a new one has no effect for a while


class _MonitoredPlugin:
    """One configured plugin: its connection, the description in force, and whether it is called."""

    def __init__(self, config: trireme_configuration.RemotePlugin, connection: dialing.RenewableChannel) -> None:
        self.config = config
        self.connection = connection
        self.info: plugin_pb2.PluginInfo | None = None  # in its normal form
        self.version = ""
        self.changes = plugin_changes.DescriptionChanges(time.monotonic)
        #: The answer that is in force, as the plugin gave it.
        self.admitted = plugin_pb2.GetPluginInfoResponse()
        self.restarts = plugin_changes.Restarts(time.monotonic)
        self.reachable = False
        #: It took part, and by its newest description it may not.
        self.rejected = False
        self.problem = ""

    @property
    def takes_part(self) -> bool:
        """Whether it is called: it has a description, and fits its profiles."""
        return self.info is not None and not self.rejected

    @property
    def in_configuration(self) -> bool:
        """Whether the phases have it in their configuration. While pods wait for it, those under way still need it."""
        return self.info is not None and not (self.rejected and self.config.failure_policy == "Ignore")

    @property
    def where(self) -> str:
        """Its name and address, for messages."""
        return f"plugin {self.config.name} at {self.config.address}"

    def status(self) -> PluginStatus:
        """Its state as status shows it."""
        config = self.config
        changing = self.reachable and not self.problem and self.changes.is_repeating
        return PluginStatus(
            config.name,
            config.address,
            self.version,
            config.failure_policy,
            self.takes_part,
            self.reachable,
            self.changes.problem() if changing else self.problem,
            changing,
        )


class PluginMonitor:
    """Connects to all remote plugins of the configuration, and watches whether they can take part.

    It is made on the running loop.
    """

    def __init__(self, completed: commandline.CompletedConfig) -> None:
        """Raises: HandshakeError naming what is wrong with the configuration."""
        self._completed = completed
        for profile in completed.profiles:
            for name in profile.names(ExtensionPoint.QUEUE_SORT):
                if completed.trireme.remote_plugin(name) is not None:
                    raise remote_client.HandshakeError(
                        f"profile {profile.scheduler_name}: plugin {name}: a QueueSort plugin must be in-tree"
                    )
        self._unsynced_seconds: Callable[[str], float] = lambda plugin: 0.0
        self._plugins = [
            _MonitoredPlugin(config, self._open_channel(config)) for config in completed.trireme.remote_plugins
        ]

    def infos(self) -> dict[str, plugin_pb2.PluginInfo]:
        """The descriptions of the plugins that take part, or are rejected under Fail, in the normal form."""
        return {
            plugin.config.name: plugin.info
            for plugin in self._plugins
            if plugin.info is not None and plugin.in_configuration
        }

    def rejected(self) -> frozenset[str]:
        """The plugins that took part and, by their newest description, do not fit their profiles or configuration."""
        return frozenset(plugin.config.name for plugin in self._plugins if plugin.rejected)

    def statuses(self) -> list[PluginStatus]:
        """The status of each plugin, in the order of the configuration."""
        return [plugin.status() for plugin in self._plugins]

    async def start(self, seconds: float = START_SECONDS) -> None:
        """Connect to the plugins that answer within so many seconds; `run` lets the others take part later.

        Raises:
            HandshakeError: a plugin that answers has a wrong description, or refuses its configuration.
        """
        await asyncio.gather(*(self._admit_first_description(plugin, seconds) for plugin in self._plugins))
        configuration = phase_configuration.make_configuration(self._completed, self.infos())
        config_hash = phase_configuration.config_hash(configuration)
        for plugin in self._plugins:
            if plugin.info is not None:
                try:
                    await self._check_serves_snapshot_stream(plugin, plugin.info)
                    await self._configure(plugin, config_hash)
                except _Unreachable as error:
                    plugin.info, plugin.reachable, plugin.problem = None, False, str(error)
            if plugin.info is None:
                self._log_missing(plugin)

    async def run(self, changed: Changed, unsynced_seconds: Callable[[str], float] = lambda plugin: 0.0) -> None:
        """Check all plugins until cancelled; call `changed` when one joins, is replaced, restarts or is rejected.

        `unsynced_seconds` returns for how long a plugin has not acknowledged the full sync of its snapshot stream; 0 if
        it has, or has no stream.
        """
        self._unsynced_seconds = unsynced_seconds
        async with asyncio.TaskGroup() as group:
            lock = asyncio.Lock()
            for plugin in self._plugins:
                work = functools.partial(self._watch_plugin, plugin, lock, changed)
                group.create_task(supervision.supervise(plugin.where, work), name=plugin.where)

    async def close(self) -> None:
        """Disconnect."""
        for plugin in self._plugins:
            await plugin.connection.close()

    def _open_channel(self, config: trireme_configuration.RemotePlugin) -> dialing.RenewableChannel:
        """Open the channel to a plugin; nothing is called yet.

        Raises: HandshakeError if its address or TLS settings cannot be used.
        """
        message = phase_configuration.remote_plugin(config, self._completed.trireme.tls)
        try:
            remote_endpoint.check_target(config.address, "address")
            dialer = dialing.Dialer(dialing.remote_settings(message))
        except ValueError as error:
            raise remote_client.HandshakeError(f"plugin {config.name} at {config.address}: {error}") from error
        return dialer.open(config.address, remote_endpoint.OPTIONS)

    async def _admit_first_description(self, plugin: _MonitoredPlugin, seconds: float) -> None:
        """Get a plugin's description, trying until it answers; if it does not in time, its `problem` says why.

        Raises: HandshakeError if it answers with a description that is wrong.
        """
        try:
            async with asyncio.timeout(seconds):
                while True:
                    try:
                        response = await self._request_info(plugin, seconds)
                        break
                    except _Unreachable as error:
                        plugin.problem = str(error)
                        await asyncio.sleep(0.2)
        except TimeoutError:
            plugin.problem = plugin.problem or f"no answer within {seconds:g} s"
            return
        plugin.info, plugin.version = self._check_description(plugin, response)
        plugin.admitted = response
        plugin.restarts.observe(response.instance)
        plugin.restarts.report()
        plugin.reachable, plugin.problem = True, ""

    async def _watch_plugin(
        self,
        plugin: _MonitoredPlugin,
        lock: asyncio.Lock,
        changed: Changed,
    ) -> None:
        """Ask a plugin for its description again and again, until cancelled; follow what changed.

        A new description or instance is admitted or rejected, one plugin at a time (`lock`). A plugin that cannot be
        reached keeps its description: only its calls fail. One without an `instance` is configured anew at each check,
        since its restart could not be seen. Restarts are reported by `changed`, twice a minute at most; a plugin that
        lacks the cluster's state for too long is checked as a new one is.
        """
        while True:
            await asyncio.sleep(CHECK_SECONDS if plugin.reachable and plugin.takes_part else MISSING_SECONDS)
            try:
                response = await self._request_info(plugin, CHECK_TIMEOUT_SECONDS)
                # Without an instance a restart, after which it lacks its configuration, would go unnoticed.
                known = response == plugin.admitted and response.instance and plugin.takes_part
                if not known or self._unsynced_too_long(plugin):
                    async with lock:
                        await self._admit_or_reject(plugin, response, changed)
                if plugin.restarts.due:
                    async with lock:
                        plugin.restarts.report()
                        await changed(self.infos(), plugin.config.name)
            except (_Unreachable, remote_client.HandshakeError) as error:
                self._record_failure(plugin, error)
            else:
                if not plugin.reachable:
                    log.info("%s answers", plugin.where)
                plugin.reachable, plugin.problem = True, ""

    async def _admit_or_reject(
        self,
        plugin: _MonitoredPlugin,
        response: plugin_pb2.GetPluginInfoResponse,
        changed: Changed,
    ) -> None:
        """Let the plugin take part by `_admit`; one that took part and no longer can is rejected.

        Its failure policy then decides: pods wait for it (Fail), or are scheduled without it (Ignore).
        """
        try:
            if self._unsynced_too_long(plugin):
                raise remote_client.HandshakeError(
                    f"{plugin.where}: node_data: SNAPSHOT, but it has not acknowledged the full sync of its snapshot "
                    "stream; pods are scheduled without it until it has"
                )
            await self._admit(plugin, response, changed)
        except remote_client.HandshakeError:
            if plugin.takes_part:
                plugin.rejected = True
                await changed(self.infos(), plugin.config.name)
            raise

    async def _admit(
        self,
        plugin: _MonitoredPlugin,
        response: plugin_pb2.GetPluginInfoResponse,
        changed: Changed,
    ) -> None:
        """Check and configure a plugin, or another instance or description of it, and let it take part.

        Raises: HandshakeError, _Unreachable: it cannot take part.
        """
        info, plugin.version = self._check_description(plugin, response)
        before, admitted = plugin.info, response
        if before is not None and info != before and not self._change_takes_effect(plugin):
            info, admitted = before, plugin.admitted
        if not plugin.in_configuration and before is not None and not plugin.changes.may_take_effect():
            raise remote_client.HandshakeError(f"{plugin.where}: was rejected again and again; takes part again later")
        infos = {**self.infos(), plugin.config.name: info}
        configuration = phase_configuration.make_configuration(self._completed, infos)
        # A plugin without `instance` comes here at each check.
        if info != before or response.instance != plugin.admitted.instance or not plugin.takes_part:
            await self._check_serves_snapshot_stream(plugin, info)
        await self._configure(plugin, phase_configuration.config_hash(configuration))
        plugin.info, plugin.admitted = info, admitted
        plugin.restarts.observe(response.instance)
        was_rejected, plugin.rejected = plugin.rejected, False
        if info == before and not was_rejected:
            return
        if before is not None:
            plugin.changes.begin_back_off()
        plugin.restarts.report()
        await changed(infos, plugin.config.name)
        log.info("%s takes part%s", plugin.where, "" if before is None else " as it describes itself now")

    def _unsynced_too_long(self, plugin: _MonitoredPlugin) -> bool:
        """Whether the phases have to go on without the plugin, which does not know the nodes; under Fail pods wait."""
        if plugin.config.failure_policy != "Ignore" or plugin.info is None:
            return False
        return self._unsynced_seconds(plugin.config.name) > (UNSYNCED_SECONDS if plugin.takes_part else 0.0)

    def _change_takes_effect(self, plugin: _MonitoredPlugin) -> bool:
        """Whether the plugin's new description may take effect now; logs the first refusal of changes that repeat."""
        known = plugin.changes.is_repeating
        if plugin.changes.may_take_effect():
            return True
        if not known:
            log.warning("%s %s", plugin.where, plugin.changes.problem())
        return False

    def _record_failure(self, plugin: _MonitoredPlugin, error: Exception) -> None:
        """Record why the plugin cannot be reached, or does not fit; it is logged if it is news."""
        was = plugin.reachable, plugin.problem
        plugin.reachable = not isinstance(error, _Unreachable)
        plugin.problem = str(error)
        if was != (plugin.reachable, plugin.problem):
            log.warning("%s: %s", plugin.where, plugin.problem.removeprefix(f"{plugin.where}: "))

    async def _request_info(self, plugin: _MonitoredPlugin, seconds: float) -> plugin_pb2.GetPluginInfoResponse:
        """Ask the plugin for its description. Raises: HandshakeError, _Unreachable."""
        try:
            return await plugin_control.get_plugin_info(plugin.connection.channel, seconds)
        except message.DecodeError as error:
            raise remote_client.HandshakeError(f"{plugin.where}: {error}") from error
        except aio.AioRpcError as error:
            failure = self._rpc_error(plugin, error)
            plugin.connection.renew()
            raise failure from error

    async def _check_serves_snapshot_stream(self, plugin: _MonitoredPlugin, info: plugin_pb2.PluginInfo) -> None:
        """Check that a plugin which gets nodes by slot serves the snapshot stream; any other plugin passes.

        Raises: HandshakeError, _Unreachable.
        """
        if info.node_data != plugin_pb2.NODE_DATA_SNAPSHOT:
            return
        try:
            serves = await plugin_control.serves_snapshot_follower(plugin.connection.channel, CHECK_TIMEOUT_SECONDS)
        except aio.AioRpcError as error:
            raise self._rpc_error(plugin, error, "Sync: ") from error
        if not serves:
            raise remote_client.HandshakeError(
                f"{self._profiles_prefix(plugin)}{plugin.where}: node_data: SNAPSHOT, but the plugin does not serve "
                "SnapshotFollower, by which it would get the nodes"
            )

    async def _configure(self, plugin: _MonitoredPlugin, config_hash: int) -> None:
        """Send the plugin its configuration of each profile. Raises: HandshakeError if it refuses, _Unreachable."""
        configurations = phase_configuration.plugin_configurations(self._completed, plugin.config.name)
        seconds = plugin.config.deadline.seconds + CHECK_TIMEOUT_SECONDS
        try:
            await plugin_control.configure(plugin.connection.channel, configurations, config_hash, seconds)
        except (plugin_control.ConfigurationRefused, message.DecodeError) as error:
            raise remote_client.HandshakeError(f"{plugin.where}: {error}") from error
        except aio.AioRpcError as error:
            raise self._rpc_error(plugin, error, "Configure: ") from error

    def _rpc_error(self, plugin: _MonitoredPlugin, error: aio.AioRpcError, step: str = "") -> Exception:
        """The exception for a failed call: _Unreachable if a later one may succeed, else HandshakeError."""
        text = f"{step}{remote_endpoint.describe(error, plugin.connection)}"
        if error.code() in remote_client.UNREACHABLE:
            return _Unreachable(text)
        return remote_client.HandshakeError(f"{self._profiles_prefix(plugin)}{plugin.where}: {text}")

    def _check_description(
        self, plugin: _MonitoredPlugin, response: plugin_pb2.GetPluginInfoResponse
    ) -> tuple[plugin_pb2.PluginInfo, str]:
        """The plugin's description in the normal form, and its version. Raises: HandshakeError."""
        try:
            info = remote_client.select_info(plugin.config.name, response)
            plugin_checks.check_profiles(info, self._completed.profiles)
        except ValueError as error:
            raise remote_client.HandshakeError(f"{self._profiles_prefix(plugin)}{plugin.where}: {error}") from error
        return plugin_info_validation.normal_form(info), remote_endpoint.one_line(info.version)

    def _profiles_prefix(self, plugin: _MonitoredPlugin) -> str:
        """The beginning of a message about the plugin: `profile NAME: ` for each profile that names it."""
        profiles = self._completed.profiles
        names = [entry.scheduler_name for entry in profiles if plugin.config.name in entry.all_names()]
        return "".join(f"profile {name}: " for name in names)

    def _log_missing(self, plugin: _MonitoredPlugin) -> None:
        """Log that a plugin does not take part yet, and what follows from that."""
        config = plugin.config
        names = [each.scheduler_name for each in self._completed.profiles if config.name in each.all_names()]
        klog.error(
            log,
            "Remote plugin does not take part yet",
            plugin=config.name,
            address=config.address,
            failurePolicy=config.failure_policy,
            consequence="profiles are scheduled without it" if config.failure_policy == "Ignore" else "profiles wait",
            profiles=names,
            err=plugin.problem,
        )


class _Unreachable(Exception):
    """The plugin cannot be called now."""
