"""The endpoints of plugins' Services, when what they depend on goes while the frontend runs."""

import asyncio
import dataclasses
from io import StringIO
from pathlib import Path
from typing import Any

import certificates
import pytest
import yaml

from trireme.config import commandline, discovered_endpoints, trireme_configuration
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
    """Broken, the first change of endpoints after a Secret is deleted ends the scheduler."""
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
    """Broken, plugins are called for ever at the endpoints of then, and nothing says so."""

    async def follow(*_: Any) -> None:
        raise KeyError("unforeseen")

    async def apply() -> None:
        raise AssertionError("no endpoint changed")

    monkeypatch.setattr(endpoints, "follow_endpoints", follow)
    monkeypatch.setattr(plugin_discovery, "LIST_SECONDS", 0.0)
    unused: Any = None
    discovery = plugin_discovery.PluginDiscovery(unused, discovered_endpoints.DiscoveredEndpoints())
    plugin = trireme_configuration.RemotePlugin("Maintenance", SERVICE, ())
    await discovery.follow(dataclasses.replace(trireme_configuration.TriremeConfiguration(), remote_plugins=(plugin,)))
    with pytest.raises(supervision.TaskEnded, match="KeyError"):
        async with asyncio.timeout(30):
            await discovery.run(apply)
    await discovery.close()
