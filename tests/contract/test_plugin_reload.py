"""Remote plugins when the configuration is reloaded: what they refuse is not in force, and what goes is left alone."""

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from tests.contract.plugin_servers import CONFIGURE, GET_PLUGIN_INFO, ScriptedPlugin, scripted
from tests.contract.test_plugin_monitor import accept, completed, configured, described, running
from tests.helpers import polling
from trireme.config import commandline
from trireme.frontend import plugin_monitor
from trireme.remote import remote_client
from trireme.v1 import plugin_pb2


def _refuse_seven(request: Any) -> plugin_pb2.ConfigureResponse:
    """Seven is too much."""
    errors = [plugin_pb2.FieldError(field="args.limit", message="must be less than 7")]
    return plugin_pb2.ConfigureResponse(errors=errors if b"7" in request.args_json else [])


def _without_plugins(config: commandline.CompletedConfig) -> commandline.CompletedConfig:
    """No profile names a remote plugin, and none is configured."""
    profiles = tuple(dataclasses.replace(each, plugins={}) for each in config.profiles)
    return dataclasses.replace(
        config, profiles=profiles, trireme=dataclasses.replace(config.trireme, remote_plugins=())
    )


async def test_arguments_that_a_plugin_refuses_are_not_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, pods are scheduled with arguments unknown to the plugin, or wait until it is restarted."""
    good = await asyncio.to_thread(completed, tmp_path, "Fail", {"limit": 1})
    bad = await asyncio.to_thread(completed, tmp_path, "Fail", {"limit": 7})
    served = ScriptedPlugin({GET_PLUGIN_INFO: described(), CONFIGURE: _refuse_seven})
    async with scripted(f"unix:{tmp_path}/plugin.sock", served):
        monitor = plugin_monitor.PluginMonitor(good)
        await monitor.start()
        async with running(monitor, monkeypatch):
            with pytest.raises(
                remote_client.HandshakeError, match=r"profile first: .*args\.limit: must be less than 7"
            ):
                await monitor.prepare(bad)
            (status,) = monitor.statuses()
            assert status.takes_part


async def test_a_new_address_has_to_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a mistake in an address has the pods of a profile wait."""
    config = await asyncio.to_thread(completed, tmp_path)
    (plugin,) = config.trireme.remote_plugins
    elsewhere = dataclasses.replace(plugin, address=f"unix:{tmp_path}/nobody.sock", addresses=())
    moved = dataclasses.replace(config, trireme=dataclasses.replace(config.trireme, remote_plugins=(elsewhere,)))
    served = ScriptedPlugin({GET_PLUGIN_INFO: described(), CONFIGURE: accept})
    async with scripted(f"unix:{tmp_path}/plugin.sock", served):
        monitor = plugin_monitor.PluginMonitor(config)
        await monitor.start()
        async with running(monitor, monkeypatch):
            with pytest.raises(remote_client.HandshakeError, match=r"nobody\.sock cannot be reached .*start it"):
                await monitor.prepare(moved, 0.1)
            (status,) = monitor.statuses()
            assert status.address == plugin.endpoints[0]
            other = ScriptedPlugin({GET_PLUGIN_INFO: described(instance="two"), CONFIGURE: accept})
            async with scripted(elsewhere.address, other):
                monitor.commit(await monitor.prepare(moved), moved)
                (status,) = monitor.statuses()
                assert (status.address, status.takes_part) == (elsewhere.address, True)
                assert configured(other)
                asked = len(served.requests)
                before = len(other.requests)
                await polling.until(lambda: len(other.requests) > before + 2)
                assert len(served.requests) <= asked + 1


async def test_settings_of_a_plugin_that_hangs_may_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a plugin that does not answer cannot be given another policy, just when that matters."""
    config = await asyncio.to_thread(completed, tmp_path)
    ignored = await asyncio.to_thread(completed, tmp_path, "Ignore")
    served = ScriptedPlugin({GET_PLUGIN_INFO: described(), CONFIGURE: accept})
    async with scripted(f"unix:{tmp_path}/plugin.sock", served):
        monitor = plugin_monitor.PluginMonitor(config)
        await monitor.start()
    async with running(monitor, monkeypatch):
        monitor.commit(await monitor.prepare(ignored), ignored)
        (status,) = monitor.statuses()
        assert status.failure_policy == "Ignore"
        assert "P" in monitor.infos()


async def test_a_plugin_that_is_removed_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the frontend asks a plugin forever that nobody configures."""
    config = await asyncio.to_thread(completed, tmp_path)
    served = ScriptedPlugin({GET_PLUGIN_INFO: described(), CONFIGURE: accept})
    async with scripted(f"unix:{tmp_path}/plugin.sock", served):
        monitor = plugin_monitor.PluginMonitor(config)
        await monitor.start()
        async with running(monitor, monkeypatch):
            bare = _without_plugins(config)
            monitor.commit(await monitor.prepare(bare), bare)
            assert (monitor.statuses(), monitor.infos()) == ([], {})
            await polling.until(lambda: not monitor._watches)
            asked = len(served.requests)
            monitor.commit(await monitor.prepare(config), config)
            await polling.until(lambda: len(served.requests) > asked)
            assert "P" in monitor.infos()
