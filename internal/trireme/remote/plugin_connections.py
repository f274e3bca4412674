"""Connections to remote plugins, shared by equal configurations.

Tests: tests/contract/test_bind_remote.py.
"""

import weakref
from collections.abc import Mapping

from trireme.remote import remote_client, remote_connection, traced_connection
from trireme.tracing import spans
from trireme.v1 import snapshot_pb2


class PluginConnections:
    """A connection for each configuration in use, whatever profiles use it: they share its concurrency limit.

    A connection lives while a plugin uses it; a new configuration makes new plugins.
    """

    def __init__(self, caller_identity: remote_client.CallerIdentity) -> None:
        self._caller_identity = caller_identity
        self._connections: weakref.WeakValueDictionary[bytes, remote_connection.PluginConnection] = (
            weakref.WeakValueDictionary()
        )

    def make_client(self, config: snapshot_pb2.RemotePlugin) -> remote_client.PluginClient:
        """Make a client of the plugin. Raises: ValueError naming the plugin and the field that is wrong."""
        key = config.SerializeToString(deterministic=True)
        connection = self._connections.get(key)
        if connection is None:
            traced = spans.recorder is not None
            make = traced_connection.TracedPluginConnection if traced else remote_connection.PluginConnection
            connection = self._connections[key] = make(config, config_hash=lambda: self._caller_identity().config_hash)
        return remote_client.PluginClient(config, self._caller_identity, connection)

    def statistics(self) -> Mapping[str, remote_connection.ConnectionStatistics]:
        """The call counters of each plugin in use, by name."""
        return {connection.name: connection.statistics() for connection in list(self._connections.values())}

    async def close(self) -> None:
        """Abort all calls and disconnect."""
        for connection in list(self._connections.values()):
            await connection.close()
