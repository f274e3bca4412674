"""A canary of a plugin beside the whole scheduler: it decides for its share of the pods, which a reload changes."""

import contextlib
import pathlib
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import pytest
import yaml

from tests.e2e import admin_socket, installation, witness
from tests.e2e.installation import pod
from tests.e2e.test_e2e_plugins import plugin, profile, remote
from trireme.framework import canaries
from trireme.v1.scheduler_status_pb2 import PluginCanary

pytestmark = pytest.mark.timeout(180)

SCRIPT = pathlib.Path(__file__).parent / "prefers.py"


@contextlib.asynccontextmanager
async def _prefers(folder: pathlib.Path, node: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """The plugin that prefers the node; answers its address."""
    (folder / node).mkdir()
    monkeypatch.setenv("PREFERRED_NODE", node)
    async with plugin(folder / node, SCRIPT) as address:
        yield address


def _profile() -> dict[str, Any]:
    """A profile in which nothing else scores."""
    configuration = profile("Prefers", "score")
    configuration["profiles"][0]["plugins"]["score"]["disabled"] = [{"name": "*"}]
    return configuration


def _set_percent(here: installation.Installation, percent: int) -> None:
    """Change the share in the frontend's file."""
    path = here.folder / "own-0.yaml"
    document = yaml.safe_load(path.read_text())
    document["remotePlugins"][0]["canary"]["percent"] = percent
    new = path.with_suffix(".new")
    new.write_text(yaml.safe_dump(document))
    new.replace(path)


def _wrong(pods: Iterable[Mapping[str, Any]], nodes: tuple[str, str], percent: int) -> list[str]:
    """The pods that are not where the version prefers it that answers for them."""
    return [
        each["metadata"]["name"]
        for each in pods
        if each["spec"]["nodeName"] != nodes[canaries.is_chosen("Prefers", each["metadata"]["uid"], percent)]
    ]


async def test_each_pod_is_decided_by_the_version_that_its_uid_chooses(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a new version decides about too many pods, or none, or changing its share takes a restart."""
    async with (
        installation.embedded(tmp_path, "--nodes", "2", "--cpu", "64") as here,
        witness.watching(here.session, here.url, here.headers, here.tls) as here.witness,
    ):
        nodes = tuple(node["metadata"]["name"] for node in await here.nodes())
        async with (
            _prefers(tmp_path, nodes[0], monkeypatch) as stable,
            _prefers(tmp_path, nodes[1], monkeypatch) as next_version,
        ):
            socket = here.folder / "admin.sock"
            own = remote("Prefers", stable, "score", canary={"address": next_version, "percent": 30})
            await here.start(configuration=_profile(), own={**own, "admin": {"socket": str(socket)}})
            await here.create_pods(pod(f"a-{number}", cpu="10m") for number in range(40))
            first = await here.bound(40)
            assert _wrong(first, (nodes[0], nodes[1]), 30) == []
            assert {each["spec"]["nodeName"] for each in first} == set(nodes)

            async def has_both_sides() -> bool:
                plugins = {each.name: each for each in (await admin_socket.scheduler_status(socket)).plugins}
                assert plugins["Prefers/canary"].canary == PluginCanary(of="Prefers", percent=30)
                assert not plugins["Prefers"].HasField("canary")
                versions = {name: plugin.version for name, plugin in plugins.items()}
                assert versions == {"Prefers": nodes[0], "Prefers/canary": nodes[1]}
                return all(plugin.calls and not plugin.failed_calls for plugin in plugins.values())

            await installation.until(has_both_sides, 30, here.story)

            _set_percent(here, 100)
            await here.logged(here.frontends[0], "Configuration reloaded")
            await here.create_pods(pod(f"b-{number}", cpu="10m") for number in range(20))
            later = [each for each in await here.bound(60) if each["metadata"]["name"].startswith("b-")]
            assert {each["spec"]["nodeName"] for each in later} == {nodes[1]}
