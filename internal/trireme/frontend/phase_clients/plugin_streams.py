"""The snapshot stream to remote plugins that follow the cluster (NODE_DATA_SNAPSHOT): the one that phases get.

The frontend opens it, and not the phases that call the plugin: they are several, and a plugin follows one. It is sent
what filter and score are sent, at the same moment, so a call of theirs is at most a moment ahead of it; the plugin lets
such a call wait or refuses it, and then the phase calls again.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from trireme.frontend.phase_clients import publishing, replica_link, replicas
from trireme.rpc import dialing
from trireme.v1 import plugin_pb2, snapshot_pb2
from trireme_kube.componentbase import supervision


@dataclass(frozen=True, slots=True)
class _Stream:
    """The stream to one plugin, and the task that fails where the stream's work does."""

    replicas: replicas.Replicas
    watch: asyncio.Task[None]


class PluginStreams:
    """The streams to all such plugins. Nothing is opened before the first `configure`."""

    def __init__(self, publisher: publishing.Publisher, clock: Callable[[], float]) -> None:
        self._publisher = publisher
        self._clock = clock
        self._phases = tuple(publisher.phases)
        self._streams: dict[bytes, _Stream] = {}
        #: Fails where the work of a stream does.
        self.supervisor = supervision.Supervisor()

    def statistics(self) -> Sequence[replica_link.LinkStatistics]:
        """How each stream stands."""
        return [link for stream in self._streams.values() for link in stream.replicas.statistics()]

    def configure(self, configuration: snapshot_pb2.Configuration) -> None:
        """These plugins take part from now on. Streams that exist begin anew, as the configuration has changed."""
        before, self._streams = self._streams, {}
        for config in configuration.remote_plugins:
            if config.info.node_data != plugin_pb2.NODE_DATA_SNAPSHOT:
                continue
            key = config.SerializeToString(deterministic=True)
            stream = before.pop(key, None)
            if stream is None:
                stream = self._opened(config)
            else:
                stream.replicas.restart()
            self._streams[key] = stream
        self._publisher.phases = (*self._phases, *(stream.replicas for stream in self._streams.values()))
        for stream in before.values():
            self.supervisor.start(self._end(stream))

    async def close(self) -> None:
        """End all streams."""
        await self.supervisor.close()
        for stream in self._streams.values():
            await stream.replicas.close()

    def hello(self) -> snapshot_pb2.Hello:
        """The first message to a plugin: a phase's, but for how to reach the other plugins, which is none of its
        business.
        """
        hello = self._publisher.hello()
        hello.configuration.ClearField("remote_plugins")
        return hello

    def full_sync(self) -> Sequence[bytes]:
        """As a phase gets it."""
        return self._publisher.full_sync()

    def _opened(self, config: snapshot_pb2.RemotePlugin) -> _Stream:
        dialer = dialing.Dialer(dialing.remote_settings(config))
        seconds = config.deadline_ms / 1000
        stream = replicas.Replicas(f"plugin {config.name}", self, dialer, seconds, self._clock, lambda: None)
        stream.set_endpoints(list(config.endpoints))
        return _Stream(stream, self.supervisor.keep(stream.phase, stream.supervisor.failure))

    async def _end(self, stream: _Stream) -> None:
        """Close a stream to a plugin that left, or describes itself otherwise."""
        await self.supervisor.stop(stream.watch)
        await stream.replicas.close()
