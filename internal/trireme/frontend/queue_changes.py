"""The remote plugins of the queue: those that take part at the start, and how the queue follows their changes.

Tests: tests/unit/frontend/test_rejected_plugins.py, tests/unit/frontend/test_reconfiguration.py.
"""

import functools
from collections.abc import Hashable

from trireme.cache import cluster_cache
from trireme.config import commandline
from trireme.framework import cluster_event
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.frontend import prepared_plugins, queue_plugin_calls
from trireme.frontend.frontend_parts import FrontendContext
from trireme.scheduling import queue_executor, queue_ports
from trireme.v1 import snapshot_pb2

#: The configuration was reloaded: what plugins refused before may pass now.
CONFIGURATION_RELOADED = cluster_event.ClusterEvent("trireme.dev/Configuration", cluster_event.ActionType.UPDATE)


def queue_plugins(
    context: FrontendContext, cache: cluster_cache.ClusterCache
) -> queue_ports.QueuePlugins[queue_plugin_calls.QueuePluginCaller]:
    """The remote plugins that take part in queueing."""

    def make_caller(reports: queue_ports.QueueReports) -> queue_plugin_calls.QueuePluginCaller:
        return queue_plugin_calls.QueuePluginCaller(
            context.settings.configuration,
            context.settings.config_hash,
            context.completed.profiles,
            reports,
            pod_of=functools.partial(queue_plugin_calls.pod_for_plugins, cache),
            now=context.clocks.now,
            node_at=cache.node_at,
        )

    return queue_ports.QueuePlugins(make_caller, context.membership.registrations, context.membership.missing_plugin)


class QueueChanges:
    """Changes which remote plugins the queue calls, wakes the pods that this may help, and keeps its order right."""

    def __init__(
        self, context: FrontendContext, executor: queue_executor.QueueExecutor[queue_plugin_calls.QueuePluginCaller]
    ) -> None:
        self._completed = context.completed
        self._settings = context.settings
        self._membership = context.membership
        self._metrics = context.metrics
        self._now = context.clocks.now
        self._wake = context.wakeup.set
        self._executor = executor
        self._queue = executor.queue
        self._remote = executor.remote
        self._configure_sort_keys(self._settings.configuration, anew=True)

    def plugin_changed(self, name: str) -> None:
        """Follow a change of this remote plugin: whether it can be called, or its version or instance.

        Pods that waited for it or that it refused are tried again; profiles that need a rejected plugin hold their pods
        back. `on_event` wakes by the old registrations, and those of a new description apply from then on.
        """
        if name in self._completed.profiles[0].names(ExtensionPoint.QUEUE_SORT):
            self._configure_sort_keys(self._settings.configuration, anew=True)
        absent = self._membership.is_rejected(name) or self._membership.is_unsynced(name)
        event = cluster_event.PLUGIN_REJECTED if absent else cluster_event.PLUGIN_JOINED
        started = self._metrics.clock()
        instructions = self._queue.on_event(event, None, name, self._now())
        self._metrics.on_event_handled(event.label, started)
        self._executor.execute(instructions)
        self._executor.register_events()
        for profile in self._membership.missing():
            rechecks = self._queue.recheck_pre_enqueue(profile, cluster_event.PLUGIN_REJECTED, self._now())
            self._executor.execute(rechecks)
        self._wake()

    def configure(self, completed: commandline.CompletedConfig, configuration: snapshot_pb2.Configuration) -> None:
        """Call the remote plugins of another configuration, in the order that it names."""
        self._completed = completed
        self._remote.configure(configuration, completed.profiles)
        self._configure_sort_keys(configuration, anew=False)

    def reconnect(self, configuration: snapshot_pb2.Configuration) -> None:
        """Call the remote plugins as this configuration has them; the profiles are the same."""
        self._remote.configure(configuration)

    def retry_all(self) -> None:
        """Try refused pods again, after their back-off; those in the queue pass PreEnqueue again."""
        now = self._now()
        for profile in self._completed.profiles:
            self._executor.execute(self._queue.recheck_pre_enqueue(profile.scheduler_name, CONFIGURATION_RELOADED, now))
        self._executor.execute(self._queue.retry_all(CONFIGURATION_RELOADED, now))

    def _configure_sort_keys(self, configuration: snapshot_pb2.Configuration, *, anew: bool) -> None:
        """Have the queue in the order of the remote QueueSort plugin, or without one in that of priorities.

        Without `anew` pods keep their keys if the plugin, its description and its arguments are unchanged.
        """
        plugin = self._remote.queue_sort_plugin()
        basis = None if plugin is None else self._basis_of_sort_keys(configuration, plugin.name)
        self._remote.sort_keys.configure(plugin, self._queue.contents.pods(), basis, anew=anew)

    def _basis_of_sort_keys(self, configuration: snapshot_pb2.Configuration, name: str) -> Hashable:
        """What the keys of this plugin depend on beside the pods: address, description, arguments and feature gates."""
        completed = self._completed
        own = completed.trireme.remote_plugin(name)
        (entry,) = (each for each in configuration.remote_plugins if each.name == name)
        return (
            None if own is None else prepared_plugins.connection_key(own),
            entry.info.SerializeToString(deterministic=True),
            frozenset(each.args_json for each in entry.configurations),
            frozenset(completed.gates.all().items()),
        )
