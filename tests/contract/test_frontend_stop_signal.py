"""A signal stops the frontend at any time."""

import subprocess
import sys

import pytest

_EARLY = "os.kill(os.getpid(), number); stop.call_on_stop(lambda: print('stops', flush=True))"
_LATE = "stop.call_on_stop(lambda: print('stops', flush=True)); os.kill(os.getpid(), number)"


@pytest.mark.parametrize("when", [pytest.param(_EARLY, id="while it loads"), pytest.param(_LATE, id="at work")])
@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
@pytest.mark.parametrize(
    ("then", "code"),
    [pytest.param("sys.exit(0)", 0, id="once"), pytest.param("os.kill(os.getpid(), number)", 1, id="twice")],
)
def test_a_signal_at_any_time_ends_the_frontend(when: str, number: str, then: str, code: int) -> None:
    """A frontend that still starts would be killed by the signal, and its end be taken for a crash.

    Or a second signal would not end one that hangs.
    """
    script = (
        "import os, signal, sys; from trireme.frontend import stop_signal; stop = stop_signal.StopSignal(); "
        f"number = signal.{number}; {when}; {then}; sys.exit(9)"
    )
    ended = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (code, "stops\n"), ended.stderr


def test_signal_handlers_need_no_heavy_imports() -> None:
    """The longer the frontend loads before it hears signals, the likelier one kills it."""
    script = (
        "import sys; import trireme.frontend.process; "
        "print([name for name in sys.modules if name in ('asyncio', 'grpc', 'orjson', 'aiohttp')])"
    )
    loaded = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=60)
    assert loaded.stdout == "[]\n", loaded.stderr
