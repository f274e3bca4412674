"""A guest of kube-scheduler-wasm-extension as a plugin: examples/wasm-host-go runs it, and it keeps to the contract."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.contract_services import ROOT, WITH_GO_PACKAGE, go_plugin, require_toolchain

# The host and a guest are built.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(name="guest")
def _guest(tmp_path: Path) -> Path:
    """The test's guest, as WebAssembly."""
    require_toolchain("go", "examples/wasm-host-go")
    guest = tmp_path / "guest.wasm"
    build = [WITH_GO_PACKAGE, "examples/wasm-host-go", "build", "-buildmode=c-shared", "-o", guest, "./testguest"]
    environment = {**os.environ, "GOOS": "wasip1", "GOARCH": "wasm", "CGO_ENABLED": "0"}
    subprocess.run(build, cwd=ROOT, env=environment, check=True, timeout=500, stdout=subprocess.DEVNULL)
    return guest


def test_a_guest_conforms_and_decides(guest: Path, tmp_path: Path) -> None:
    """If this fails, a moved guest loses its decisions, or becomes a plugin that violates the contract."""
    address = f"unix:{tmp_path}/plugin.sock"
    command = [go_plugin("wasm-host-go"), guest, "Guest", "--listen", address]
    with (tmp_path / "log").open("w") as log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log) as host:
        try:
            assert host.stdout is not None
            assert b"listening on" in host.stdout.readline()
            # It refuses one of the sample nodes, and prefers this one.
            objects = tmp_path / "node.yaml"
            objects.write_text("{apiVersion: v1, kind: Node, metadata: {name: a-node-with-a-longer-name}}")
            args = json.dumps({"guestConfig": "verify-1"})
            verify = [Path(sys.executable).with_name("trireme"), "plugin", "verify", address, "--latency-calls", "0"]
            ran = subprocess.run(
                [*verify, "-o", "json", "--args", args, "--objects", objects],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=200,
                check=False,
            )
            assert ran.returncode == 0, ran.stdout + ran.stderr
            report = json.loads(ran.stdout)
            outcomes = {each["number"]: each["outcome"] for each in report["specifications"]}
            assert report["conformant"] is True
            # Its answers differ from node to node, so that their order was checked.
            assert (outcomes["P070"], outcomes["P095"], outcomes["P022"]) == ("met", "met", "met")
        finally:
            host.terminate()


def test_what_is_no_guest_is_refused_at_the_start(tmp_path: Path) -> None:
    """If this fails, a wrong file shows as pods that wait."""
    require_toolchain("go", "examples/wasm-host-go")
    empty = tmp_path / "empty.wasm"
    empty.write_bytes(b"\0asm\1\0\0\0")
    ran = subprocess.run(
        [go_plugin("wasm-host-go"), empty, "Guest"], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 1
    assert ran.stderr == f"Error: {empty}: the guest exports neither filter nor score\n"
