"""The handshake with remote plugins for one configuration: their descriptions, the checks of these, and Configure.

Tests: tests/unit/frontend/test_plugin_discovery.py, tests/contract/test_plugin_monitor.py.
"""

import asyncio

from google.protobuf import message
from grpc import aio

from trireme.config import commandline, remote_plugin_settings
from trireme.frontend import monitored_plugin, phase_configuration, plugin_checks, replica_channels
from trireme.plugin_api import plugin_info_validation
from trireme.remote import plugin_control, remote_client, remote_endpoint
from trireme.rpc import dialing
from trireme.v1 import plugin_pb2

# How long a call of the handshake may take.
CHECK_TIMEOUT_SECONDS = 2.0


class Unreachable(Exception):
    """The plugin cannot be called now."""


class Handshake:
    """The calls to plugins before they take part, and what they are checked against: a configuration's profiles."""

    def __init__(self, completed: commandline.CompletedConfig) -> None:
        self._completed = completed

    def open_channel(self, config: remote_plugin_settings.RemotePlugin) -> replica_channels.ReplicaChannels:
        """Open the channel to a plugin; nothing is called yet.

        Raises: HandshakeError if its address or TLS settings cannot be used.
        """
        message = phase_configuration.remote_plugin(config, self._completed.trireme.tls)
        targets = self._completed.discovered.targets(config.endpoints)
        try:
            for target in targets:
                remote_endpoint.check_target(target, "address")
            dialer = dialing.Dialer(dialing.remote_settings(message))
        except ValueError as error:
            raise remote_client.HandshakeError(f"plugin {config.name} at {config.where}: {error}") from error
        return replica_channels.ReplicaChannels(
            {target: dialer.open(target, remote_endpoint.OPTIONS) for target in targets}, dialer
        )

    async def follow_addresses(self, plugin: monitored_plugin.MonitoredPlugin) -> None:
        """Have the channels of a plugin that is found by a Service lead to its endpoints of now.

        Raises: HandshakeError, as `open_channel`.
        """
        if self._completed.discovered.targets(plugin.config.endpoints) != plugin.connection.targets:
            await plugin.connection.replace(self.open_channel(plugin.config))

    def _channel(self, plugin: monitored_plugin.MonitoredPlugin) -> aio.Channel:
        """The channel to call the plugin by. Raises: Unreachable: none of its endpoints is ready."""
        if not plugin.connection.targets:
            raise Unreachable(self._completed.discovered.explain_none(plugin.config.endpoints))
        return plugin.connection.channel

    async def request_info(
        self, plugin: monitored_plugin.MonitoredPlugin, seconds: float
    ) -> plugin_pb2.GetPluginInfoResponse:
        """Ask the plugin for its description. Raises: HandshakeError, Unreachable."""
        try:
            return await plugin_control.get_plugin_info(self._channel(plugin), seconds)
        except message.DecodeError as error:
            raise remote_client.HandshakeError(f"{plugin.where}: {error}") from error
        except aio.AioRpcError as error:
            failure = self._rpc_error(plugin, error)
            plugin.connection.renew()
            raise failure from error

    async def check_serves_snapshot_stream(
        self, plugin: monitored_plugin.MonitoredPlugin, info: plugin_pb2.PluginInfo
    ) -> None:
        """Check that a plugin which gets nodes by slot serves the snapshot stream; any other plugin passes.

        Raises: HandshakeError, Unreachable.
        """
        if info.node_data != plugin_pb2.NODE_DATA_SNAPSHOT:
            return
        try:
            serves = await plugin_control.serves_snapshot_follower(self._channel(plugin), CHECK_TIMEOUT_SECONDS)
        except aio.AioRpcError as error:
            raise self._rpc_error(plugin, error, "Sync: ") from error
        if not serves:
            raise remote_client.HandshakeError(
                f"{self._profiles_prefix(plugin)}{plugin.where}: node_data: SNAPSHOT, but the plugin does not serve "
                "SnapshotFollower, by which it would get the nodes: serve that, or name other node_data"
            )

    async def configure(self, plugin: monitored_plugin.MonitoredPlugin, config_hash: int) -> None:
        """Send the plugin its configuration of each profile. Raises: HandshakeError if it refuses, Unreachable."""
        configurations = phase_configuration.plugin_configurations(self._completed, plugin.config.name)
        seconds = plugin.config.deadline.seconds + CHECK_TIMEOUT_SECONDS
        try:
            await plugin_control.configure(self._channel(plugin), configurations, config_hash, seconds)
        except (plugin_control.ConfigurationRefused, message.DecodeError) as error:
            raise remote_client.HandshakeError(f"{plugin.where}: {error}") from error
        except aio.AioRpcError as error:
            raise self._rpc_error(plugin, error, "Configure: ") from error

    def _rpc_error(self, plugin: monitored_plugin.MonitoredPlugin, error: aio.AioRpcError, step: str = "") -> Exception:
        """The exception for a failed call: Unreachable if a later one may succeed, else HandshakeError."""
        text = f"{step}{remote_endpoint.error_line(error, plugin.connection.connection)}"
        if error.code() in remote_client.UNREACHABLE:
            return Unreachable(text)
        return remote_client.HandshakeError(f"{self._profiles_prefix(plugin)}{plugin.where}: {text}")

    def check_description(
        self, plugin: monitored_plugin.MonitoredPlugin, response: plugin_pb2.GetPluginInfoResponse
    ) -> tuple[plugin_pb2.PluginInfo, str]:
        """The plugin's description in the normal form, and its version. Raises: HandshakeError."""
        try:
            info = remote_client.select_info(plugin.config.served_name, response)
        except ValueError as error:
            raise remote_client.HandshakeError(f"{self._profiles_prefix(plugin)}{plugin.where}: {error}") from error
        self.check_fits_profiles(plugin, info)
        return plugin_info_validation.normal_form(info), remote_endpoint.one_line(info.version)

    def check_fits_profiles(self, plugin: monitored_plugin.MonitoredPlugin, info: plugin_pb2.PluginInfo) -> None:
        """Check that the plugin has every extension point at which a profile enables it. Raises: HandshakeError."""
        try:
            plugin_checks.check_profiles(info, self._completed.profiles)
        except ValueError as error:
            raise remote_client.HandshakeError(f"{self._profiles_prefix(plugin)}{plugin.where}: {error}") from error

    def _profiles_prefix(self, plugin: monitored_plugin.MonitoredPlugin) -> str:
        """The beginning of a message about the plugin: `profile NAME: ` for each profile that names it."""
        profiles = self._completed.profiles
        names = [entry.scheduler_name for entry in profiles if plugin.config.name in entry.all_names()]
        return "".join(f"profile {name}: " for name in names)


async def admit_first_description(
    handshake: Handshake, plugin: monitored_plugin.MonitoredPlugin, seconds: float
) -> None:
    """Get a plugin's description, trying until it answers; if it does not in time, its `problem` says why.

    Raises: HandshakeError if it answers with a description that is wrong.
    """
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    response = await handshake.request_info(plugin, seconds)
                    break
                except Unreachable as error:
                    plugin.problem = str(error)
                    await asyncio.sleep(0.2)
    except TimeoutError:
        plugin.problem = plugin.problem or f"no answer within {seconds:g} s"
        return
    plugin.info, plugin.version = handshake.check_description(plugin, response)
    plugin.admitted = response
    plugin.restarts.observe(response.instance)
    plugin.restarts.report()
    plugin.reachable, plugin.problem = True, ""
