"""The endpoints of plugins' Services, when what they depend on goes while the frontend runs."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.contract import certificates
from tests.helpers import virtual_time
from trireme.config import addresses, commandline, remote_plugin_settings, trireme_configuration
from trireme.frontend import monitored_plugin, plugin_discovery, plugin_handshake
from trireme.frontend.phase_clients import endpoints
from trireme_kube.componentbase import supervision

SERVICE = "endpointslice:///plugins/maintenance:9000"


def _completed(folder: Path) -> commandline.CompletedConfig:
    """A configuration with a plugin that is found by its Service, with TLS."""
    (folder / "ca.crt").write_bytes(certificates.Authority().certificate)
    plugin = {
        "name": "Maintenance",
        "address": SERVICE,
        "extensionPoints": ["filter"],
        "tls": {"caFile": str(folder / "ca.crt"), "allowedIdentities": ["maintenance"]},
    }
    own = {"apiVersion": "trireme.dev/v1alpha1", "kind": "TriremeConfiguration", "remotePlugins": [plugin]}
    (folder / "own.yaml").write_text(yaml.safe_dump(own))
    flags = [f"--trireme-config={folder}/own.yaml", "--master=http://127.0.0.1:1", "--secure-port=0"]
    outcome = commandline.Start(flags, {"HOME": str(folder)}, StringIO(), StringIO(), lambda line: None).run()
    assert outcome.completed is not None, outcome
    return outcome.completed


async def test_a_certificate_that_goes_does_not_keep_endpoints_from_being_followed(tmp_path: Path) -> None:
    """If this fails, the first change of endpoints after a Secret is deleted ends the scheduler."""
    completed = _completed(tmp_path)
    (config,) = completed.trireme.remote_plugins
    completed.discovered.watch(SERVICE, str)
    handshake = plugin_handshake.Handshake(completed)
    plugin = monitored_plugin.MonitoredPlugin(config, handshake.open_channel(config))
    assert plugin.connection.targets == ()
    (tmp_path / "ca.crt").unlink()
    completed.discovered.replace(SERVICE, ["10.0.0.1:9000"])
    await handshake.follow_addresses(plugin)
    assert plugin.connection.targets == ("10.0.0.1:9000",)
    await plugin.connection.close()


async def test_a_watch_that_ends_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, plugins are called forever at outdated endpoints, without a warning."""

    async def follow(*_: Any) -> None:
        raise KeyError("unforeseen")

    async def apply() -> None:
        raise AssertionError("no endpoint changed")

    monkeypatch.setattr(endpoints, "follow_endpoints", follow)
    monkeypatch.setattr(plugin_discovery, "LIST_SECONDS", 0.0)
    unused: Any = None
    discovery = plugin_discovery.PluginDiscovery(unused, addresses.DiscoveredEndpoints())
    plugin = remote_plugin_settings.RemotePlugin("Maintenance", SERVICE, ())
    await discovery.follow(dataclasses.replace(trireme_configuration.TriremeConfiguration(), remote_plugins=(plugin,)))
    with pytest.raises(supervision.TaskEnded, match="KeyError"):
        async with asyncio.timeout(30):
            await discovery.run(apply)
    await discovery.close()


class Moves:
    """Endpoints that change as a test has them, and when they were passed on."""

    def __init__(self, clock: Callable[[], float], monkeypatch: pytest.MonkeyPatch) -> None:
        self._clock = clock
        self.passed_on: list[tuple[float, tuple[str, ...]]] = []
        self._discovered = addresses.DiscoveredEndpoints()
        self._discovery = plugin_discovery.PluginDiscovery(None, self._discovered)  # type: ignore[arg-type]
        monkeypatch.setattr(endpoints, "follow_endpoints", self._follow)

    async def _follow(self, _services: Any, _local: Any, take: endpoints.Take, *_: Any) -> None:
        self.take = take
        await asyncio.Event().wait()

    async def _apply(self) -> None:
        self.passed_on.append((self._clock(), self._discovered.targets([SERVICE])))

    @contextlib.asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Follow the endpoints within the block."""
        plugin = remote_plugin_settings.RemotePlugin("Maintenance", SERVICE, ())
        config = dataclasses.replace(trireme_configuration.TriremeConfiguration(), remote_plugins=(plugin,))
        await self._discovery.follow(config)
        running = asyncio.create_task(self._discovery.run(self._apply))
        try:
            yield
        finally:
            running.cancel()
            await asyncio.wait({running})
            await self._discovery.close()


def test_endpoints_that_come_and_go_all_the_time_are_passed_on_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, one plugin with a readiness probe that flaps has all phases begin anew each second, forever."""

    async def main(clock: Callable[[], float]) -> None:
        moves = Moves(clock, monkeypatch)
        async with moves.following():
            for _ in range(150):
                moves.take(["10.0.0.1:9000"])
                await asyncio.sleep(2)
                moves.take(["10.0.0.1:9000", "10.0.0.2:9000"])
                await asyncio.sleep(2)
            assert 600 / plugin_discovery.MAX_SETTLE_SECONDS <= len(moves.passed_on) <= 30
            await asyncio.sleep(plugin_discovery.MAX_SETTLE_SECONDS + 1)
            assert moves.passed_on[-1][1] == ("10.0.0.1:9000", "10.0.0.2:9000")

    virtual_time.run(main)


def test_a_plugin_that_has_moved_is_called_at_its_new_endpoints_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, after a rollout each call fails for half a minute, because no earlier endpoint is left."""

    async def main(clock: Callable[[], float]) -> None:
        moves = Moves(clock, monkeypatch)
        async with moves.following():
            for number in range(6):
                address = f"10.0.0.{number}:9000"
                moves.take([address])
                await asyncio.sleep(2.5)
                assert moves.passed_on[-1][1] == (address,)

    virtual_time.run(main)
