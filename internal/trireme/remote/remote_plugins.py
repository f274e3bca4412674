"""The remote plugins of a filter or score replica, by their configuration."""

import weakref
from collections.abc import Mapping

from trireme.remote import (
    remote_client,
    remote_connection,
    remote_filter,
    remote_post_filter,
    remote_reserve,
    remote_score,
)
from trireme.snapshot import snapshot
from trireme.v1 import cycle_pb2, plugin_pb2, snapshot_pb2


class RemotePlugins:
    """The remote plugins of one replica; profiles with the same plugin share its connection and concurrency limit."""

    def __init__(
        self,
        snap: snapshot.Snapshot,
        caller_identity: remote_client.CallerIdentity = cycle_pb2.Cycle,
    ) -> None:
        self._snap = snap
        self._caller_identity = caller_identity
        # A connection lives while a plugin chain uses it; a new configuration makes new chains.
        self._connections: weakref.WeakValueDictionary[bytes, remote_connection.PluginConnection] = (
            weakref.WeakValueDictionary()
        )

    def statistics(self) -> Mapping[str, remote_connection.ConnectionStatistics]:
        """The call counters of each plugin in use, by name."""
        return {connection.name: connection.statistics() for connection in list(self._connections.values())}

    def filter_plugin(self, config: snapshot_pb2.RemotePlugin, profile: str) -> remote_filter.RemoteFilterPlugin:
        """The plugin for Filter in a profile. Raises: ValueError naming the plugin and the field that is wrong."""
        return remote_filter.RemoteFilterPlugin(self._make_client(config), profile)

    def score_plugin(self, config: snapshot_pb2.RemotePlugin, profile: str) -> remote_score.RemoteScorePlugin:
        """The plugin for Score in a profile. Raises: ValueError naming the plugin and the field that is wrong."""
        return remote_score.RemoteScorePlugin(self._make_client(config), profile)

    def reserve_plugin(self, config: snapshot_pb2.RemotePlugin) -> remote_reserve.RemoteReservePlugin:
        """The plugin for Reserve. Raises: ValueError naming the plugin and the field that is wrong."""
        return remote_reserve.RemoteReservePlugin(self._make_client(config))

    def post_filter_plugin(self, config: snapshot_pb2.RemotePlugin) -> remote_post_filter.RemotePostFilterPlugin:
        """The plugin for PostFilter. Raises: ValueError naming the plugin and the field that is wrong."""
        return remote_post_filter.RemotePostFilterPlugin(self._make_client(config))

    async def close(self) -> None:
        """Abort all calls and disconnect."""
        for connection in list(self._connections.values()):
            await connection.close()

    def _make_client(self, config: snapshot_pb2.RemotePlugin) -> remote_client.PluginClient:
        """Make a client of the plugin, over one connection for equal configurations, whatever profiles use it."""
        key = config.SerializeToString(deterministic=True)
        connection = self._connections.get(key)
        if connection is None:
            connection = remote_connection.PluginConnection(
                config, config_hash=lambda: self._caller_identity().config_hash
            )
            self._connections[key] = connection
        self._snap.store_node_objects(
            messages=config.info.node_data == plugin_pb2.NODE_DATA_MESSAGES,
            json=config.info.node_data == plugin_pb2.NODE_DATA_JSON,
        )
        return remote_client.PluginClient(config, self._caller_identity, connection)
