"""Plugins that were built against a released contract, kept as they were, and what the present code does with them.

The wheel of the SDK, with the generated contract, stands first on the plugin's path: none of the present code is in it.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from tests.contract.contract_services import DEADLINE, ROOT
from tests.contract.plugin_servers import fill, on_the_sdk
from tests.helpers import config_starts
from trireme import sdk
from trireme.config import commandline
from trireme.evaluation.filtering import filter_chain, filter_evaluator
from trireme.frontend import phase_configuration, plugin_checks
from trireme.remote import remote_client, remote_plugins
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, plugin_pb2, plugin_pb2_grpc, snapshot_pb2

_RELEASED = Path(__file__).parent / "released"
_PLUGINS = sorted(path.relative_to(_RELEASED) for path in _RELEASED.glob("*/*.py"))
_WHEELS = sorted(path.relative_to(_RELEASED) for path in _RELEASED.glob("*/*.whl"))

# What phases of a release do with the configuration that a frontend sends.
_CONFIGURED = """
import sys
from trireme.plugin_api import plugin_info_validation
from trireme.v1 import snapshot_pb2
for remote in snapshot_pb2.Configuration.FromString(sys.stdin.buffer.read()).remote_plugins:
    plugin_info_validation.check_plugin_info(remote.info)
    print(list(remote.info.extension_points))
"""
# The handshake of a scheduler of a release.
_HANDSHAKE = """
import sys
import grpc
from trireme.plugin_api import plugin_info_validation
from trireme.v1 import plugin_pb2, plugin_pb2_grpc
with grpc.insecure_channel(sys.argv[1]) as channel:
    stub = plugin_pb2_grpc.PluginServiceStub(channel)
    (info,) = stub.GetPluginInfo(plugin_pb2.GetPluginInfoRequest(), timeout=20).plugins
plugin_info_validation.check_plugin_info(info)
print(list(info.extension_points))
"""


@pytest.fixture(scope="module", params=_PLUGINS, ids=str)
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running plugin of a release."""
    script = _RELEASED / request.param
    (wheel,) = script.parent.glob("*.whl")
    socket = f"unix:{tmp_path_factory.mktemp('released')}/plugin.sock"
    # From a folder of its own, or the present package would be found first.
    command = [sys.executable, script, "--listen", socket]
    environment = {**os.environ, "PYTHONPATH": str(wheel)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, cwd=tmp_path_factory.mktemp("empty")
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == f"listening on {socket}"
        yield socket
        process.terminate()


def test_a_released_sdk_runs_from_its_own_wheel(tmp_path: Path) -> None:
    """If this fails, these tests would try the present SDK and prove nothing."""
    for wheel in _RELEASED.glob("*/*.whl"):
        code = "import trireme.sdk, trireme.v1.filter_pb2 as f; print(trireme.sdk.__file__, f.__file__)"
        command = [sys.executable, "-c", code]
        environment = {**os.environ, "PYTHONPATH": str(wheel)}
        ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        assert all(path.startswith(str(wheel)) for path in ran.stdout.split()), ran.stdout


def test_a_released_plugin_still_conforms(address: str) -> None:
    """If this fails, the contract did more than grow: a plugin of an earlier release violates a new specification."""
    flags = ["--latency-calls", "0", "-o", "json"]
    command = [Path(sys.executable).with_name("trireme"), "plugin", "verify", address, *flags]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert json.loads(ran.stdout)["conformant"]


async def test_the_present_scheduler_filters_by_a_released_plugin(address: str) -> None:
    """If this fails, a request or an answer means something else to a plugin of an earlier release."""
    info = await remote_client.handshake(_configure(address), address, deadline_seconds=DEADLINE)
    if plugin_pb2.EXTENSION_POINT_SCORE not in info.extension_points:
        pytest.skip("follows the cluster: what it answers, `verify` has compared")
    config = snapshot_pb2.RemotePlugin(name=info.name, endpoints=[address], deadline_ms=5000, info=info)
    snap = snapshot.Snapshot()
    remotes = remote_plugins.RemotePlugins(snap)
    evaluator = filter_evaluator.FilterEvaluator(
        snap, {"p": filter_chain.FilterChain((remotes.make_filter_plugin(config, "p"),))}
    )
    pod_class = fill(snap, 3)
    labels = {"example.com/maintenance": ""}
    node = snapshot_pb2.NodeEntry(slot=2, node=core_pb2.Node(metadata={"name": "node-2", "labels": labels}))
    snap.apply(snapshot_pb2.Delta(from_generation=7, to_generation=8, nodes=[node]))
    try:
        verdicts = await evaluator.evaluate("p", pod_class)
    finally:
        await remotes.connections.close()
    assert verdicts.index[:3].tolist() == [0, 0, 1]
    (refusal,) = verdicts.table.statuses
    assert (refusal.plugin, refusal.messages) == ("Maintenance", ("node(s) were under maintenance",))


def _configure(address: str) -> str:
    """Configure the plugin without arguments, as the frontend does; return its name, as it describes itself."""
    with grpc.insecure_channel(address) as channel:
        stub = plugin_pb2_grpc.PluginServiceStub(channel)
        (info,) = stub.GetPluginInfo(plugin_pb2.GetPluginInfoRequest(), timeout=DEADLINE).plugins
        if plugin_pb2.EXTENSION_POINT_SCORE in info.extension_points:
            request = plugin_pb2.ConfigureRequest(plugin=info.name, profile="p", args_json=b"{}")
            assert not stub.Configure(request, timeout=DEADLINE).errors
    return str(info.name)


def _completed(folder: Path, plugin: str, point: str) -> commandline.CompletedConfig:
    """The start of a frontend with this plugin at this point."""
    desk = config_starts.Desk(folder)
    entry = f"{{name: {plugin}, addresses: ['127.0.0.1:1'], extensionPoints: [{point}]}}"
    own = desk.write(
        "own.yaml", f"apiVersion: trireme.dev/v1alpha1\nkind: TriremeConfiguration\nremotePlugins: [{entry}]\n"
    )
    profile = f"profiles: [{{plugins: {{{point}: {{enabled: [{{name: {plugin}}}]}}}}}}]"
    return desk.configure(profile, f"--trireme-config={own}").completed


async def _with_the_wheel(wheel: Path, folder: Path, code: str, *arguments: str, said: bytes = b"") -> tuple[str, str]:
    """What code with a released contract prints, and what it ends with."""
    environment = {**os.environ, "PYTHONPATH": str(_RELEASED / wheel)}
    pipe = subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, *arguments, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, cwd=folder
    )
    output, error = await process.communicate(said)
    return output.decode().strip(), error.decode().strip().rpartition("\n")[2]


class _Groups:
    """Judges groups alone."""

    info = sdk.Info("P")

    def placement_feasible(self, call: sdk.Call, trial: sdk.PlacementTrial) -> sdk.Status | None:
        return None


class _GroupsAndPods(_Groups):
    """Filters as well."""

    def filter(self, call: sdk.Call, node: sdk.Node) -> sdk.Verdict:
        return None


@pytest.mark.parametrize("wheel", _WHEELS, ids=str)
async def test_phases_of_a_release_take_the_description_of_a_plugin_for_groups(wheel: Path, tmp_path: Path) -> None:
    """If this fails, no phase of the release before works for a frontend of this one, because of one plugin."""
    points = [plugin_pb2.EXTENSION_POINT_FILTER, plugin_pb2.EXTENSION_POINT_PLACEMENT_FEASIBLE]
    info = plugin_pb2.PluginInfo(name="P", extension_points=points)
    sent = phase_configuration.make_configuration(_completed(tmp_path, "P", "filter"), {"P": info})
    assert await _with_the_wheel(wheel, tmp_path, _CONFIGURED, said=sent.SerializeToString()) == ("[4]", "")
    sent.remote_plugins[0].info.CopyFrom(info)
    _, error = await _with_the_wheel(wheel, tmp_path, _CONFIGURED, said=sent.SerializeToString())
    assert error.startswith("ValueError: extension_points[1]: 14 is not known here")


@pytest.mark.parametrize("wheel", _WHEELS, ids=str)
async def test_a_scheduler_of_a_release_takes_a_plugin_without_the_point_that_it_does_not_know(
    wheel: Path, tmp_path: Path
) -> None:
    """If this fails, a plugin cannot be updated before its scheduler is. One for groups alone has nothing left."""
    async with on_the_sdk(_GroupsAndPods(), tmp_path, "both.sock") as address:
        assert await _with_the_wheel(wheel, tmp_path, _HANDSHAKE, address) == ("[4]", "")
    async with on_the_sdk(_Groups(), tmp_path, "groups.sock") as address:
        _, error = await _with_the_wheel(wheel, tmp_path, _HANDSHAKE, address)
    assert error.startswith("ValueError: extension_points: there is none; allowed: ")


async def test_a_released_plugin_is_not_taken_where_a_profile_has_it_judge_groups(address: str, tmp_path: Path) -> None:
    """If this fails, the scheduler calls what is not there, or passes over a plugin that has to be asked."""
    name = _configure(address)
    info = await remote_client.handshake(name, address, deadline_seconds=DEADLINE)
    with pytest.raises(ValueError, match="enables the plugin at placementFeasible, which is not among those"):
        plugin_checks.check_profiles(info, _completed(tmp_path, name, "placementFeasible").profiles)
