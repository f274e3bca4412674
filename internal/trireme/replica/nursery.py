"""The nursery: a process that has loaded what all phases load, and forks into one whenever it is asked to.

Half of what a phase needs to start is loading NumPy, gRPC and the messages, over and over the same for each of them. So
the frontend starts one nursery, which loads them once while the frontend still loads its own; its phases are forks of
it, which are there in a tenth of a second, at first as after a crash. The nursery has nothing that a fork must not
inherit: no thread, no channel, no credentials, and none of a phase's own code.

One line of JSON on stdin asks for something: `{"start": NAME, "module": MODULE, "arguments": [...]}`, or `{"signal":
NUMBER, "name": NAME}`. Lines on stdout say what happened: `{"started": NAME, "pid": PID}`, `{"ended": NAME, "code":
CODE}`, and what the phases themselves print. Invariants: of one name there is one process at a time; when the frontend
ends, however, stdin ends and with it the nursery, and the kernel then tells its phases to end.
"""

import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import traceback
from typing import Any, NoReturn

from trireme.replica import parent_death

# What every phase loads. Nothing of this starts a thread or opens anything by being loaded.
SHARED = ("uvloop", "trireme.replica.phase_metrics", "trireme.replica.phase_process", "trireme.replica.remote_client")


class Nursery:
    """The processes that were started, by name."""

    def __init__(self) -> None:
        self._pids: dict[str, int] = {}
        self._unread = b""

    def run(self) -> int:
        """Serve until stdin ends. Returns the exit code."""
        ended, wakeup = socket.socketpair()
        for end in (ended, wakeup):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGTERM):
            # A terminal, or `timeout`, tells the whole group; the frontend has to end first.
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
        with selectors.DefaultSelector() as selector:
            selector.register(sys.stdin.fileno(), selectors.EVENT_READ)
            selector.register(ended, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is ended:
                        with contextlib.suppress(BlockingIOError):
                            ended.recv(4096)
                    elif not self._read():
                        return 0
                self._reap()

    def _read(self) -> bool:
        """Do what stdin asks for; False once it has ended."""
        data = os.read(sys.stdin.fileno(), 1 << 16)
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            asked = json.loads(line)
            if "start" in asked:
                self._start(asked["start"], asked["module"], asked["arguments"])
            elif asked["name"] in self._pids:
                os.kill(self._pids[asked["name"]], asked["signal"])
        return bool(data)

    def _start(self, name: str, module: str, arguments: list[str]) -> None:
        nursery = os.getpid()
        pid = os.fork()
        if not pid:
            _become(nursery, name, module, arguments)
        self._pids[name] = pid
        _say({"started": name, "pid": pid})

    def _reap(self) -> None:
        for name, pid in list(self._pids.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del self._pids[name]
                _say({"ended": name, "code": os.waitstatus_to_exitcode(status)})


def _become(nursery: int, name: str, module: str, arguments: list[str]) -> NoReturn:
    """In the fork: be that phase, and never come back."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        # Neither what the nursery is asked nor its signals are the phase's to read.
        with open(os.devnull) as nothing:  # noqa: PTH123  # a descriptor is wanted, not a file
            os.dup2(nothing.fileno(), 0)
        os.closerange(3, 1 << 20)
        parent_death.exit_with_parent(nursery)
        parent_death.name_process(name)
        code = importlib.import_module(module).main(arguments)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _say(what: dict[str, Any]) -> None:
    os.write(sys.stdout.fileno(), json.dumps(what).encode() + b"\n")


def main() -> int:
    """Load what is shared and serve until stdin ends. Returns the exit code."""
    gc.disable()
    for module in SHARED:
        importlib.import_module(module)
    gc.freeze()
    gc.enable()
    return Nursery().run()


if __name__ == "__main__":
    sys.exit(main())
