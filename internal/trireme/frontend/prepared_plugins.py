"""The plugins of a configuration that is to replace the one in force: all that is checked before it does.

Tests: tests/contract/test_plugin_reload.py, tests/unit/frontend/test_reconfiguration.py.
"""

from collections.abc import Awaitable

from trireme.config import commandline, remote_plugin_settings
from trireme.frontend import monitored_plugin, phase_configuration, plugin_handshake
from trireme.remote import remote_client
from trireme.v1 import plugin_pb2


class PreparedPlugins:
    """The plugins of a configuration that is checked and not in force yet."""

    def __init__(self, completed: commandline.CompletedConfig, handshake: plugin_handshake.Handshake) -> None:
        self.completed = completed
        self.handshake = handshake
        #: Each plugin with its settings in this configuration.
        self.plugins: list[tuple[monitored_plugin.MonitoredPlugin, remote_plugin_settings.RemotePlugin]] = []
        #: Those of them to which nothing was connected before.
        self.added: list[monitored_plugin.MonitoredPlugin] = []

    def infos(self) -> dict[str, plugin_pb2.PluginInfo]:
        """The descriptions of the plugins that take part."""
        return {
            config.name: plugin.info
            for plugin, config in self.plugins
            if plugin.info is not None and plugin.in_configuration
        }

    async def admit(self, plugin: monitored_plugin.MonitoredPlugin, seconds: float) -> None:
        """Get the description of a new plugin.

        Raises: HandshakeError: it does not answer, or describes itself wrongly.
        """
        await plugin_handshake.admit_first_description(self.handshake, plugin, seconds)
        if plugin.info is None:
            raise remote_client.HandshakeError(
                f"remotePlugins: {plugin.where} cannot be reached ({plugin.problem}): start it, or correct its address"
            )
        await self._reached(plugin, self.handshake.check_serves_snapshot_stream(plugin, plugin.info))

    async def configure(self) -> None:
        """Check the descriptions against the profiles, and send each plugin its configuration.

        Raises: HandshakeError: a plugin does not fit its profiles, or refuses its configuration.
        """
        config_hash = phase_configuration.config_hash(
            phase_configuration.make_configuration(self.completed, self.infos())
        )
        for plugin, _ in self.plugins:
            if plugin.info is None or plugin.rejected:
                continue
            self.handshake.check_fits_profiles(plugin, plugin.info)
            try:
                await self.handshake.configure(plugin, config_hash)
            except plugin_handshake.Unreachable as error:
                # The next caller sends it the configuration.
                if plugin in self.added:
                    raise remote_client.HandshakeError(f"remotePlugins: {plugin.where}: {error}") from error

    async def _reached(self, plugin: monitored_plugin.MonitoredPlugin, call: Awaitable[None]) -> None:
        """Await a call to a plugin that has to answer. Raises: HandshakeError."""
        try:
            await call
        except plugin_handshake.Unreachable as error:
            raise remote_client.HandshakeError(f"remotePlugins: {plugin.where}: {error}") from error


def connection_key(config: remote_plugin_settings.RemotePlugin) -> tuple[object, ...]:
    """What a connection to a plugin depends on."""
    return config.name, config.endpoints, config.tls
