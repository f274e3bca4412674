"""SIGHUP: it asks for a reload, but a process whose terminal is gone ends."""

import os
import pty
import signal
import subprocess
import sys

_PROGRAM = """
import signal, sys, time
from trireme.frontend import reload_signal, stop_signal
stop = stop_signal.StopSignal()
stop.call_on_stop(lambda: sys.exit(7))
reload = reload_signal.ReloadSignal(stop.stop)
reload.call_on_reload(lambda: print("reload", file=sys.stderr, flush=True))
print("ready", file=sys.stderr, flush=True)
while True:
    signal.pause()
"""


def _start(stdin: int) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM], stdin=stdin, stderr=subprocess.PIPE, start_new_session=True
    )
    assert process.stderr is not None
    assert process.stderr.readline() == b"ready\n"
    return process


def test_a_signal_asks_for_a_reload_each_time() -> None:
    """If this fails, the signal ends the scheduler, as it ends other programs."""
    with _start(subprocess.DEVNULL) as process:
        assert process.stderr is not None
        for _ in range(2):
            process.send_signal(signal.SIGHUP)
            assert process.stderr.readline() == b"reload\n"
        process.kill()


def test_a_process_whose_terminal_is_closed_ends() -> None:
    """If this fails, a scheduler that was started by hand goes on unseen when its window is closed."""
    controller, terminal = pty.openpty()
    with _start(terminal) as process:
        assert process.stderr is not None
        process.send_signal(signal.SIGHUP)
        assert process.stderr.readline() == b"reload\n"
        os.close(terminal)
        os.close(controller)
        process.send_signal(signal.SIGHUP)
        assert process.wait(30) == 7
