"""With --logging-format=json everything that a process prints is JSON, a line each: a collector parses all of it."""

import json
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

import pytest

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


def test_an_uncaught_error_is_a_line() -> None:
    """A traceback is a dozen lines that no collector can put together again."""
    program = (
        "import warnings; from trireme_kube.componentbase.logs import klog; klog.setup(klog.LogOptions('json')); "
        "warnings.warn('old', DeprecationWarning, stacklevel=1); 1 / 0"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, timeout=60)
    assert done.returncode == 1
    assert _messages(done.stderr)[-1] == "uncaught ZeroDivisionError"


def test_text_stays_text() -> None:
    """`trireme up` and scripts wait for this line."""
    program = (
        "from trireme_kube.componentbase.logs import klog; "
        "klog.announce('listening on here'); klog.fail('no  such\\nfile')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("listening on here\n", "Error: no such file\n")
