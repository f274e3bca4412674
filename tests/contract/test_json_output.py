"""With --logging-format=json everything that a process prints is JSON, a line each: a collector parses all of it."""

import asyncio
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

import grpc
import pytest
from grpc import aio

from tests.contract import certificates
from trireme_kube.componentbase.logs import process_output

REPOSITORY = pathlib.Path(__file__).parents[2]
START_SECONDS = 60.0


def _messages(output: bytes) -> list[str]:
    return [json.loads(line)["msg"] for line in output.splitlines()]


def _run(phase: str, arguments: Sequence[str], log: pathlib.Path, until: bytes) -> tuple[int, list[str]]:
    """Run a phase until it has printed something, then end it; its exit code and the messages of all its lines."""
    command = [sys.executable, str(REPOSITORY / "cmd" / phase), "--logging-format=json", *arguments]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT) as process:
        deadline = time.monotonic() + START_SECONDS
        while until not in log.read_bytes() and process.poll() is None:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        code = process.wait(30)
    return code, _messages(log.read_bytes())


@pytest.mark.parametrize("phase", ["filter", "score"])
def test_a_phase_that_works(phase: str, tmp_path: pathlib.Path) -> None:
    """The line that says where it listens was plain text."""
    address = f"unix:{tmp_path}/s"
    code, messages = _run(phase, ["--listen", address], tmp_path / "log", b"listening on ")
    assert code == 0
    assert f"listening on {address}" in messages


@pytest.mark.parametrize("phase", ["filter", "score", "bind"])
def test_a_phase_that_cannot_start(phase: str, tmp_path: pathlib.Path) -> None:
    """The one line that says why would be dropped by the collector, or end up in another index."""
    arguments = ["--listen", "nowhere:1", *(["--kubeconfig", str(tmp_path / "none")] if phase == "bind" else [])]
    code, messages = _run(phase, arguments, tmp_path / "log", b"\0")
    assert code == 1
    assert len(messages) == 1


async def test_a_caller_who_expects_another_certificate(tmp_path: pathlib.Path) -> None:
    """GRPC's core wrote a line of plain text about every attempt of a caller that is wrongly configured."""
    authority, log = certificates.Authority(), tmp_path / "log"
    certificate, key = authority.issue("filter", "filter.right").write(tmp_path, "filter")
    address = f"unix:{tmp_path}/s"
    flags = ["--logging-format=json", f"--listen={address}", f"--tls-cert-file={certificate}"]
    command = [str(REPOSITORY / "cmd" / "filter"), *flags, f"--tls-private-key-file={key}"]
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"}
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdout=output, stderr=output, env=environment
        )
    try:
        async with asyncio.timeout(START_SECONDS):
            while b"listening on " not in log.read_bytes():
                assert process.returncode is None, log.read_text()
                await asyncio.sleep(0.05)
        wrong = [("grpc.ssl_target_name_override", "filter.wrong")]
        async with aio.secure_channel(address, grpc.ssl_channel_credentials(authority.certificate), wrong) as channel:
            call = channel.unary_unary("/trireme.v1.PluginService/GetPluginInfo")
            with pytest.raises(aio.AioRpcError):
                await call(b"", timeout=START_SECONDS)
        process.terminate()
        assert await asyncio.wait_for(process.wait(), 30) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert f"listening on {address}" in _messages(log.read_bytes())


@pytest.mark.parametrize(
    ("arguments", "silent"),
    [
        pytest.param(["--logging-format=json"], True, id="json"),
        pytest.param(["--logging-format", "json"], True, id="json-in-two-words"),
        pytest.param(["--logging-format=json", "--logging-format=text"], False, id="the-last-one-counts"),
        pytest.param(["-v=3"], False, id="text"),
    ],
)
def test_text_of_grpc_stays_where_logs_are_text(
    arguments: list[str], silent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where logs are text, messages of gRPC's core about a connection are worth reading."""
    environment: dict[str, str] = {}
    monkeypatch.setattr(os, "environ", environment)
    process_output.silence_grpc_core(arguments)
    assert environment == ({"GRPC_VERBOSITY": "NONE"} if silent else {})


def test_an_uncaught_error_is_a_line() -> None:
    """A traceback is a dozen lines that no collector can put together again."""
    program = (
        "import warnings; from trireme_kube.componentbase.logs import klog; klog.setup(klog.LogOptions('json')); "
        "warnings.warn('old', DeprecationWarning, stacklevel=1); 1 / 0"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, timeout=60)
    assert done.returncode == 1
    assert _messages(done.stderr)[-1] == "uncaught ZeroDivisionError; report this defect"


def test_text_stays_text() -> None:
    """`trireme up` and scripts wait for this line."""
    program = (
        "from trireme_kube.componentbase.logs import klog; "
        "klog.announce('listening on here'); klog.fail('no  such\\nfile')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("listening on here\n", "Error: no such file\n")
