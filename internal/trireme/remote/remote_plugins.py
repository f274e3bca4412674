"""The remote plugins of a filter or score replica, by their configuration.

Also change: internal/trireme/remote/recorded_makers.py (in-tree answers, recorded ones and remote ones).

Tests: tests/contract/test_plugin_shadow.py.
"""

from trireme.remote import (
    plugin_connections,
    remote_client,
    remote_filter,
    remote_post_filter,
    remote_reserve,
    remote_score,
)
from trireme.snapshot import snapshot
from trireme.v1 import cycle_pb2, plugin_pb2, snapshot_pb2


class RemotePlugins:
    """Makes the remote plugins of one replica."""

    def __init__(
        self,
        snap: snapshot.Snapshot,
        caller_identity: remote_client.CallerIdentity = cycle_pb2.Cycle,
    ) -> None:
        self._snap = snap
        self.connections = plugin_connections.PluginConnections(caller_identity)

    def make_filter_plugin(self, config: snapshot_pb2.RemotePlugin, profile: str) -> remote_filter.RemoteFilterPlugin:
        """Make the plugin for Filter in a profile. Raises: ValueError naming the plugin and the field that is wrong."""
        return remote_filter.RemoteFilterPlugin(self._make_client(config), profile)

    def make_score_plugin(self, config: snapshot_pb2.RemotePlugin, profile: str) -> remote_score.RemoteScorePlugin:
        """Make the plugin for Score in a profile. Raises: ValueError naming the plugin and the field that is wrong."""
        return remote_score.RemoteScorePlugin(self._make_client(config), profile)

    def make_reserve_plugin(self, config: snapshot_pb2.RemotePlugin) -> remote_reserve.RemoteReservePlugin:
        """Make the plugin for Reserve. Raises: ValueError naming the plugin and the field that is wrong."""
        return remote_reserve.RemoteReservePlugin(self._make_client(config))

    def make_post_filter_plugin(self, config: snapshot_pb2.RemotePlugin) -> remote_post_filter.RemotePostFilterPlugin:
        """Make the plugin for PostFilter. Raises: ValueError naming the plugin and the field that is wrong."""
        return remote_post_filter.RemotePostFilterPlugin(self._make_client(config))

    def _make_client(self, config: snapshot_pb2.RemotePlugin) -> remote_client.PluginClient:
        """Make a client of the plugin, and have the snapshot keep of nodes what the plugin gets."""
        self._snap.store_node_objects(
            messages=config.info.node_data == plugin_pb2.NODE_DATA_MESSAGES,
            json=config.info.node_data == plugin_pb2.NODE_DATA_JSON,
        )
        return self.connections.make_client(config)
