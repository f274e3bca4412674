"""The snapshot stream to remote plugins that follow the cluster (NODE_DATA_SNAPSHOT): the same that the phases get.

The frontend opens it, not the phases that call the plugin: there are several of them, and a plugin follows one stream.
The plugin gets what filter and score get, at the same time, so their calls are at most slightly ahead of it; the plugin
lets such a call wait or refuses it, and then the phase calls again. A plugin that has not acknowledged the full sync
does not know the nodes that calls name; which plugins that are is reported whenever it changes.

Tests: tests/unit/frontend/test_plugin_streams.py, tests/contract/test_plugin_streams.py.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from trireme.frontend.phase_clients import follower_replicas, replica_link, snapshot_publisher
from trireme.rpc import dialing
from trireme.v1 import plugin_pb2, snapshot_pb2
from trireme_kube.componentbase import supervision


@dataclass(frozen=True, slots=True)
class _Stream:
    """The stream to one plugin, and the task that fails if the stream's work fails."""

    plugin: str
    replicas: follower_replicas.FollowerReplicas
    watch: asyncio.Task[None]


class PluginStreams:
    """The streams to all such plugins. Nothing is opened before the first `configure`."""

    def __init__(self, publisher: snapshot_publisher.SnapshotPublisher, clock: Callable[[], float]) -> None:
        self._publisher = publisher
        self._clock = clock
        self._streams: dict[bytes, _Stream] = {}
        #: Fails if the work of a stream fails.
        self.supervisor = supervision.Supervisor()
        #: Gets the plugins that have not acknowledged their full sync, when they change.
        self.unsynced_changed: Callable[[frozenset[str]], None] = lambda unsynced: None
        self._unsynced: frozenset[str] = frozenset()
        self._unsynced_since: dict[str, float] = {}

    def unsynced_seconds(self, plugin: str) -> float:
        """For how long the plugin has not acknowledged a full sync; 0: it has, or has no stream."""
        since = self._unsynced_since.get(plugin)
        return 0.0 if since is None else self._clock() - since

    def statistics(self) -> Mapping[str, replica_link.LinkStatistics]:
        """The state of each stream, by plugin; of several endpoints the one that is furthest behind."""
        return {
            stream.plugin: min(stream.replicas.statistics(), key=lambda link: (link.in_step, link.acknowledged))
            for stream in self._streams.values()
            if stream.replicas.statistics()
        }

    def configure(
        self, configuration: snapshot_pb2.Configuration, is_rejected: Callable[[str], bool] = lambda plugin: False
    ) -> None:
        """Follow a new configuration: open streams to its plugins, begin existing ones anew, and end the others.

        The stream to a plugin that is rejected, and so missing there, goes on: the plugin may take part again.
        """
        before, streams = dict(self._streams), {}
        for config in configuration.remote_plugins:
            if config.info.node_data != plugin_pb2.NODE_DATA_SNAPSHOT:
                continue
            key = config.SerializeToString(deterministic=True)
            stream = before.pop(key, None)
            if stream is None:
                stream = self._open_stream(config)
            else:
                stream.replicas.restart()
            streams[key] = stream
        configured = {stream.plugin for stream in streams.values()}
        for key, stream in list(before.items()):
            if stream.plugin not in configured and is_rejected(stream.plugin):
                before[key].replicas.restart()
                streams[key] = before.pop(key)
        self._streams = streams
        for stream in before.values():
            self._publisher.remove_followers(stream.replicas)
            self.supervisor.start(self._end_stream(stream))
        self._report_unsynced()

    async def close(self) -> None:
        """End all streams. That they are unsynced then is not reported."""
        self.unsynced_changed = lambda unsynced: None
        await self.supervisor.close()
        for stream in self._streams.values():
            await stream.replicas.close()

    def hello(self) -> snapshot_pb2.Hello:
        """The first message to a plugin: that to a phase, without the addresses of other plugins."""
        hello = self._publisher.hello()
        hello.configuration.ClearField("remote_plugins")
        return hello

    def full_sync(self) -> Sequence[bytes]:
        """The full sync that phases get."""
        return self._publisher.full_sync()

    def _open_stream(self, config: snapshot_pb2.RemotePlugin) -> _Stream:
        """Open the stream to a plugin, and subscribe it to deltas."""
        dialer = dialing.Dialer(dialing.remote_settings(config))
        seconds = config.deadline_ms / 1000
        stream = follower_replicas.FollowerReplicas(
            f"plugin {config.name}", self, dialer, seconds, self._clock, self._report_unsynced
        )
        stream.set_endpoints(list(config.endpoints))
        self._publisher.add_followers(stream)
        return _Stream(config.name, stream, self.supervisor.keep(stream.phase, stream.supervisor.failure))

    def _report_unsynced(self) -> None:
        """Report which plugins have not acknowledged their full sync, if these are others than before."""
        unsynced = frozenset(stream.plugin for stream in self._streams.values() if not stream.replicas.synced)
        if unsynced == self._unsynced:
            return
        now = self._clock()
        self._unsynced_since = {plugin: self._unsynced_since.get(plugin, now) for plugin in unsynced}
        self._unsynced = unsynced
        self.unsynced_changed(unsynced)

    async def _end_stream(self, stream: _Stream) -> None:
        """Close a stream to a plugin that was removed, or has another description."""
        await self.supervisor.stop(stream.watch)
        await stream.replicas.close()
