"""Monitors the remote plugins: which take part in scheduling, and their health.

A plugin takes part once it has a description that fits the profiles and has accepted its configuration. Until then its
failure policy decides: with Ignore its profiles are scheduled without it, with Fail they wait. A plugin that took part
once stays: the caller handles failures of single calls. But if it restarts or describes itself otherwise, and then does
not fit the profiles or refuses its configuration, it is rejected, and the failure policy decides again.

Each plugin is polled every few seconds, so that one that starts late, or starts again as another version, is noticed.
Another instance gets its configuration, and the pods that it refused before are tried again; the phases begin anew only
if calls to the plugin have to change, or if it is another version: answers of the version before may be cached.

Tests: tests/contract/test_plugin_monitor.py, tests/contract/test_plugin_reload.py.
"""

import asyncio
import functools
import logging
import time
from collections.abc import Awaitable, Callable, Mapping

from trireme.config import commandline
from trireme.frontend import (
    monitored_plugin,
    phase_configuration,
    plugin_handshake,
    prepared_plugins,
    replica_comparison,
)
from trireme.frontend.phase_clients import replica_link
from trireme.remote import remote_client
from trireme.v1 import plugin_pb2
from trireme_kube.componentbase import supervision
from trireme_kube.componentbase.logs import klog

log = logging.getLogger(__name__)

# How long the start waits for plugins that start at the same time.
START_SECONDS = 3.0
# How often plugins are polled: missing ones, and the others.
MISSING_SECONDS = 1.0
CHECK_SECONDS = 5.0
# How often the replicas of a plugin are compared.
COMPARE_SECONDS = 15.0
# How long a plugin under Ignore that follows the cluster may lack it; as long as a full sync may take.
UNSYNCED_SECONDS = replica_link.FULL_SYNC_SECONDS


Changed = Callable[[Mapping[str, plugin_pb2.PluginInfo], str], Awaitable[None]]
"""Gets `PluginMonitor.infos` and the plugin whose part in scheduling, description or instance changed."""


class PluginMonitor:
    """Connects to all remote plugins of the configuration, and watches whether they can take part.

    It is made on the running loop.
    """

    def __init__(self, completed: commandline.CompletedConfig) -> None:
        """Raises: HandshakeError naming what is wrong with the configuration."""
        self._completed = completed
        self._handshake = plugin_handshake.Handshake(completed)
        self._unsynced_seconds: Callable[[str], float] = lambda plugin: 0.0
        #: Disconnects from plugins that are no longer configured, and lists pods again; `run` raises its failures.
        self.background = supervision.Supervisor()
        #: Held while a plugin's part in scheduling changes, or the configuration.
        self.lock = asyncio.Lock()
        self._watch: Callable[[monitored_plugin.MonitoredPlugin], asyncio.Task[None]] | None = None
        self._watches: dict[monitored_plugin.MonitoredPlugin, asyncio.Task[None]] = {}
        self._plugins = [
            monitored_plugin.MonitoredPlugin(config, self._handshake.open_channel(config))
            for config in completed.trireme.remote_plugins
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

    def statuses(self) -> list[monitored_plugin.PluginStatus]:
        """The status of each plugin, in the order of the configuration."""
        return [plugin.status() for plugin in self._plugins]

    async def start(self, seconds: float = START_SECONDS) -> None:
        """Connect to the plugins that answer within so many seconds; `run` lets the others take part later.

        Raises:
            HandshakeError: a plugin that answers has a wrong description, or refuses its configuration.
        """
        await asyncio.gather(
            *(plugin_handshake.admit_first_description(self._handshake, plugin, seconds) for plugin in self._plugins)
        )
        configuration = phase_configuration.make_configuration(self._completed, self.infos())
        config_hash = phase_configuration.config_hash(configuration)
        for plugin in self._plugins:
            if plugin.info is not None:
                try:
                    await self._handshake.check_serves_snapshot_stream(plugin, plugin.info)
                    await self._handshake.configure(plugin, config_hash)
                except plugin_handshake.Unreachable as error:
                    plugin.info, plugin.reachable, plugin.problem = None, False, str(error)
            if plugin.info is None:
                self._log_missing(plugin)

    async def run(self, changed: Changed, unsynced_seconds: Callable[[str], float] = lambda plugin: 0.0) -> None:
        """Check all plugins until cancelled; call `changed` when one joins, is replaced, restarts or is rejected.

        `unsynced_seconds` returns for how long a plugin has not acknowledged the full sync of its snapshot stream; 0 if
        it has, or has no stream. Raises: TaskEnded, in a group: work in the background failed.
        """
        self._unsynced_seconds = unsynced_seconds
        async with asyncio.TaskGroup() as group:

            def watch(plugin: monitored_plugin.MonitoredPlugin) -> asyncio.Task[None]:
                work = functools.partial(self._watch_plugin, plugin, changed)
                return group.create_task(supervision.supervise(plugin.where, work), name=plugin.where)

            self._watch = watch
            self._watch_all()
            # Until cancelled: a reload may add plugins.
            await self.background.failure()

    async def prepare(
        self, completed: commandline.CompletedConfig, seconds: float = START_SECONDS
    ) -> prepared_plugins.PreparedPlugins:
        """Check everything that another configuration needs of its plugins; nothing of it is in force yet.

        A plugin that is new, or at another address, has to answer within so many seconds. One that cannot be reached,
        and could before, is called on by the old description. `lock` is held from here to `commit` or `discard`.

        Raises: HandshakeError: a plugin does not answer, does not fit the profiles, or refuses its configuration.
        """
        prepared = prepared_plugins.PreparedPlugins(completed, plugin_handshake.Handshake(completed))
        known = {prepared_plugins.connection_key(plugin.config): plugin for plugin in self._plugins}
        try:
            for config in completed.trireme.remote_plugins:
                plugin = known.get(prepared_plugins.connection_key(config))
                if plugin is None:
                    connection = prepared.handshake.open_channel(config)
                    plugin = monitored_plugin.MonitoredPlugin(config, connection)
                    prepared.added.append(plugin)
                prepared.plugins.append((plugin, config))
            await asyncio.gather(*(prepared.admit(plugin, seconds) for plugin in prepared.added))
            await prepared.configure()
        except BaseException:
            await self.discard(prepared)
            raise
        return prepared

    async def discard(self, prepared: prepared_plugins.PreparedPlugins) -> None:
        """Give up a configuration that was prepared: disconnect from its new plugins."""
        for plugin in prepared.added:
            await plugin.connection.close()

    async def follow_addresses(self) -> None:
        """Have plugins that are found by a Service called at its endpoints of now, in the handshake."""
        async with self.lock:
            for plugin in self._plugins:
                await self._handshake.follow_addresses(plugin)

    def commit(self, prepared: prepared_plugins.PreparedPlugins, completed: commandline.CompletedConfig) -> None:
        """Put a prepared configuration in force; plugins that `completed` leaves out are not watched any more.

        `completed` has the plugins that were prepared, or fewer.
        """
        self._completed, self._handshake = completed, plugin_handshake.Handshake(completed)
        for plugin, config in prepared.plugins:
            plugin.config = config
        left = [plugin for plugin, config in prepared.plugins if config in completed.trireme.remote_plugins]
        for plugin in [*self._plugins, *prepared.added]:
            if plugin not in left:
                self.background.start(self._end_watch(plugin))
        self._plugins = left
        self._watch_all()

    def _watch_all(self) -> None:
        """Watch the plugins that are not watched yet, once `run` has begun."""
        for plugin in self._plugins:
            if self._watch is not None and plugin not in self._watches:
                self._watches[plugin] = self._watch(plugin)

    async def _end_watch(self, plugin: monitored_plugin.MonitoredPlugin) -> None:
        """Disconnect from a plugin that is no longer configured."""
        task = self._watches.pop(plugin, None)
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
        await plugin.connection.close()

    async def close(self) -> None:
        """Disconnect."""
        await self.background.close()
        for plugin in self._plugins:
            await plugin.connection.close()

    async def _watch_plugin(
        self,
        plugin: monitored_plugin.MonitoredPlugin,
        changed: Changed,
    ) -> None:
        """Ask a plugin for its description again and again, until cancelled; follow what changed.

        A new description or instance is admitted or rejected, one plugin at a time. A plugin that cannot be
        reached keeps its description: only its calls fail. One without an `instance` is configured anew at each check,
        since its restart could not be seen. Restarts are reported by `changed`, twice a minute at most; a plugin that
        lacks the cluster's state for too long is checked as a new one is.
        """
        while True:
            await asyncio.sleep(CHECK_SECONDS if plugin.reachable and plugin.takes_part else MISSING_SECONDS)
            try:
                response = await self._handshake.request_info(plugin, plugin_handshake.CHECK_TIMEOUT_SECONDS)
                # Without an instance a restart, after which it lacks its configuration, would go unnoticed.
                known = response == plugin.admitted and response.instance and plugin.takes_part
                if not known or self._unsynced_too_long(plugin):
                    async with self.lock:
                        await self._admit_or_reject(plugin, response, changed)
                if plugin.restarts.due:
                    async with self.lock:
                        plugin.restarts.report()
                        await changed(self.infos(), plugin.config.name)
                await self._compare_replicas(plugin)
            except (plugin_handshake.Unreachable, remote_client.HandshakeError) as error:
                self._record_failure(plugin, error)
            else:
                if not plugin.reachable:
                    log.info("%s answers", plugin.where)
                plugin.reachable, plugin.problem = True, ""

    async def _admit_or_reject(
        self,
        plugin: monitored_plugin.MonitoredPlugin,
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
        plugin: monitored_plugin.MonitoredPlugin,
        response: plugin_pb2.GetPluginInfoResponse,
        changed: Changed,
    ) -> None:
        """Check and configure a plugin, or another instance or description of it, and let it take part.

        Raises: HandshakeError, plugin_handshake.Unreachable: it cannot take part.
        """
        info, plugin.version = self._handshake.check_description(plugin, response)
        before, admitted = plugin.info, response
        if before is not None and info != before and not self._change_takes_effect(plugin):
            info, admitted = before, plugin.admitted
        if not plugin.in_configuration and before is not None and not plugin.changes.may_take_effect():
            raise remote_client.HandshakeError(f"{plugin.where}: was rejected again and again; takes part again later")
        infos = {**self.infos(), plugin.config.name: info}
        configuration = phase_configuration.make_configuration(self._completed, infos)
        # A plugin without `instance` comes here at each check.
        if info != before or response.instance != plugin.admitted.instance or not plugin.takes_part:
            await self._handshake.check_serves_snapshot_stream(plugin, info)
        await self._handshake.configure(plugin, phase_configuration.config_hash(configuration))
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

    async def _compare_replicas(self, plugin: monitored_plugin.MonitoredPlugin) -> None:
        """Note whether the plugin's replicas differ, some times a minute; it is logged if it is news."""
        if time.monotonic() - plugin.compared_at < COMPARE_SECONDS:
            return
        before = plugin.difference
        plugin.difference = await replica_comparison.find_difference(plugin.config.served_name, plugin.connection)
        plugin.compared_at = time.monotonic()
        if plugin.difference and not before:
            log.warning("%s: %s", plugin.where, plugin.difference)
        elif before and not plugin.difference:
            log.info("%s: its replicas do not differ any more", plugin.where)

    def _unsynced_too_long(self, plugin: monitored_plugin.MonitoredPlugin) -> bool:
        """Whether the phases have to go on without the plugin, which does not know the nodes; under Fail pods wait."""
        if plugin.config.required or plugin.info is None:
            return False
        return self._unsynced_seconds(plugin.config.name) > (UNSYNCED_SECONDS if plugin.takes_part else 0.0)

    def _change_takes_effect(self, plugin: monitored_plugin.MonitoredPlugin) -> bool:
        """Whether the plugin's new description may take effect now; logs the first refusal of changes that repeat."""
        known = plugin.changes.is_repeating
        if plugin.changes.may_take_effect():
            return True
        if not known:
            log.warning("%s %s", plugin.where, plugin.changes.problem())
        return False

    def _record_failure(self, plugin: monitored_plugin.MonitoredPlugin, error: Exception) -> None:
        """Record why the plugin cannot be reached, or does not fit; it is logged if it is news."""
        was = plugin.reachable, plugin.problem
        plugin.reachable = not isinstance(error, plugin_handshake.Unreachable)
        plugin.problem = str(error)
        if was != (plugin.reachable, plugin.problem):
            log.warning(
                "%s: %s; the plugin is called again", plugin.where, plugin.problem.removeprefix(f"{plugin.where}: ")
            )

    def _log_missing(self, plugin: monitored_plugin.MonitoredPlugin) -> None:
        """Log that a plugin does not take part yet, and what follows from that."""
        config = plugin.config
        names = [each.scheduler_name for each in self._completed.profiles if config.name in each.all_names()]
        klog.error(
            log,
            "Remote plugin does not take part yet",
            plugin=config.name,
            address=config.where,
            failurePolicy=config.failure_policy,
            consequence="profiles wait" if config.required else "profiles are scheduled without it",
            profiles=names,
            err=plugin.problem,
        )
