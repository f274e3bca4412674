"""The plugins without work that the benchmark calls: each is built, and describes itself as it is configured."""

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import grpc
import pytest

from tests.contract import contract_services
from tools.bench.noop_plugins import noop_builds
from trireme.v1 import plugin_pb2, plugin_pb2_grpc

# Rust's dependencies are compiled by whichever test comes first.
pytestmark = pytest.mark.timeout(600)


def _command(language: str) -> Sequence[str | Path]:
    """What starts it. Rust's is built without optimising, as the examples are, which share its dependencies."""
    if language == "rust":
        return (contract_services.run_cargo_in(noop_builds.FOLDER / "rust", "build") / "debug" / "noop",)
    return noop_builds.COMMANDS[language]()


@pytest.mark.parametrize("depends_on", ["NODE", "NODE_PODS"])
@pytest.mark.parametrize("language", noop_builds.COMMANDS)
def test_a_plugin_declares_what_the_benchmark_compares(tmp_path: Path, language: str, depends_on: str) -> None:
    """Two rows of the benchmark would be of the same plugin."""
    address = f"unix:{tmp_path}/plugin.sock"
    environment = {**os.environ, "DEPENDS_ON": depends_on}
    with subprocess.Popen([*_command(language), "--listen", address], env=environment) as process:
        try:
            info = _describe(address)
        finally:
            process.terminate()
    assert info.name == "Noop"
    assert plugin_pb2.Dependency.Name(info.depends_on) == f"DEPENDENCY_{depends_on}"
    assert set(info.extension_points) == {plugin_pb2.EXTENSION_POINT_FILTER, plugin_pb2.EXTENSION_POINT_SCORE}
    assert process.returncode == 0


def _describe(address: str) -> plugin_pb2.PluginInfo:
    """The plugin's description, once it listens."""
    deadline = time.monotonic() + 60
    while True:
        with grpc.insecure_channel(address, contract_services.CHANNEL_OPTIONS) as channel:
            try:
                (info,) = (
                    plugin_pb2_grpc.PluginServiceStub(channel)
                    .GetPluginInfo(plugin_pb2.GetPluginInfoRequest(), timeout=10)
                    .plugins
                )
            except grpc.RpcError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return info
