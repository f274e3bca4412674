"""The forker: a process that has imported the modules all phases need, and forks a phase on request.

A process spends half of its start importing NumPy, gRPC and the messages, the same for each phase. So a frontend forks
its forker before it imports anything itself, and the two import in parallel on two processors. Phases are forked from
the forker within a tenth of a second, initially and after a crash. A forker needed later (after a crash, or to start a
stand-in) is spawned as a program. The forker has nothing that a fork must not inherit: no thread, no channel, no
credentials, and no phase's own code; so a frontend forks it before it reads its configuration.

Which modules it imports is its caller's to say, in its arguments where it is a program.

A request is one line of JSON on stdin: `{"start": NAME, "module": MODULE, "arguments": [...], "folder": PATH}`, or
`{"signal": NUMBER, "name": NAME}`. Reports are lines on stdout, among the phases' own output: `{"started": NAME, "pid":
PID}`, `{"ended": NAME, "code": CODE}`. Invariants: at most one process has a name at a time; when the frontend dies,
stdin ends, the forker exits, and the kernel signals its phases; the last of these to end removes the folder (optional)
of their sockets.

Also change: internal/trireme/frontend/phase_clients/forker_client.py (what the forker is told and answers).

Tests: tests/contract/test_local_phases.py.
"""

import contextlib
import gc
import importlib
import json
import os
import pathlib
import select
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from trireme.rpc import parent_death
from trireme_kube.componentbase.logs import process_output

# Higher than any open descriptor.
_NO_DESCRIPTOR = 1 << 20


@dataclass(frozen=True, slots=True)
class ForkerConnection:
    """The frontend's end of the pipes to a forker: descriptors to write requests to and to read reports from."""

    pid: int  # of the forker
    requests: int
    reports: int


class Forker:
    """Starts, signals and reaps phases, by name."""

    def __init__(self) -> None:
        self._frontend = os.getppid()
        self._pids: dict[str, int] = {}
        self._unread = b""

    def run(self) -> int:
        """Serve until stdin ends. Returns the exit code."""
        sigchld, wakeup = socket.socketpair()
        for end in (sigchld, wakeup):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
        with selectors.DefaultSelector() as selector:
            selector.register(0, selectors.EVENT_READ)
            selector.register(sigchld, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is sigchld:
                        with contextlib.suppress(BlockingIOError):
                            sigchld.recv(4096)
                    elif not self._execute_requests():
                        return 0
                self._reap_and_report_ended()

    def _execute_requests(self) -> bool:
        """Execute the requests on stdin; False once it has ended."""
        data = os.read(0, 1 << 16)
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            request = json.loads(line)
            if "start" in request:
                self._fork_phase(request["start"], request["module"], request["arguments"], request.get("folder", ""))
            elif request["name"] in self._pids:
                os.kill(self._pids[request["name"]], request["signal"])
        return bool(data)

    def _fork_phase(self, name: str, module: str, arguments: list[str], folder: str) -> None:
        """Fork a phase, and report its process id."""
        forker = os.getpid()
        pid = os.fork()
        if not pid:
            _run_phase((self._frontend, forker), name, module, arguments, folder)
        self._pids[name] = pid
        _write_report({"started": name, "pid": pid})

    def _reap_and_report_ended(self) -> None:
        """Reap the phases that have ended, and report them to the frontend with their exit codes."""
        for name, pid in list(self._pids.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del self._pids[name]
                _write_report({"ended": name, "code": os.waitstatus_to_exitcode(status)})


def _run_phase(ancestors: tuple[int, int], name: str, module: str, arguments: list[str], folder: str) -> NoReturn:
    """Run the phase in the forked process; never returns. `ancestors` are the processes of frontend and forker."""
    frontend, forker = ancestors

    def run_forked_phase() -> int:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        # The phase must not read the forker's requests or signals.
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.closerange(3, _NO_DESCRIPTOR)
        parent_death.exit_with_parent(forker)
        parent_death.name_process(name)
        try:
            code: int = importlib.import_module(module).main(arguments)
        finally:
            if folder and _has_ended(frontend):
                # The frontend cannot do it any more. It is not empty while other phases listen there.
                with contextlib.suppress(OSError):
                    pathlib.Path(folder).rmdir()
        return code

    _run_and_exit(run_forked_phase)


def _has_ended(pid: int) -> bool:
    """Whether the process has ended, reaped or not; False where the kernel cannot say."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    try:
        return bool(select.select([process], [], [], 0)[0])
    finally:
        os.close(process)


def _run_and_exit(run: Callable[[], int]) -> NoReturn:
    """Run the function and exit the process with its code, also if it raises."""
    code = 1
    try:
        code = run()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            _flush_output()
        os._exit(code)


def _write_report(message: dict[str, Any]) -> None:
    """Write a report for the frontend, as a line of JSON."""
    os.write(1, json.dumps(message).encode() + b"\n")


def fork_forker(modules: Sequence[str]) -> ForkerConnection:
    """Fork a forker from this process, which must not have threads, channels or credentials yet.

    It imports `modules`, which must start no thread and open nothing.
    """
    # A fork would lack NumPy's threads, and no array here is large enough for them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    frontend = os.getpid()
    with _open_pipes() as (requests_read, requests_write, reports_read, reports_write):
        _flush_output()
        pid = os.fork()
        if not pid:
            _run_and_exit(lambda: _run_forked(frontend, requests_read, reports_write, modules))
        return ForkerConnection(pid, os.dup(requests_write), os.dup(reports_read))


def spawn_forker(modules: Sequence[str]) -> ForkerConnection:
    """Start a forker that imports `modules` as a separate program."""
    with _open_pipes() as (requests_read, requests_write, reports_read, reports_write):
        pid = os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "trireme.rpc.forker", *modules],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, requests_read, 0), (os.POSIX_SPAWN_DUP2, reports_write, 1)],
        )
        return ForkerConnection(pid, os.dup(requests_write), os.dup(reports_read))


@contextlib.contextmanager
def _open_pipes() -> Iterator[tuple[int, int, int, int]]:
    """Open pipes for requests and reports; closes its own copies at the end."""
    requests_read, requests_write = os.pipe()
    reports_read, reports_write = os.pipe()
    try:
        yield requests_read, requests_write, reports_read, reports_write
    finally:
        for descriptor in (requests_read, requests_write, reports_read, reports_write):
            os.close(descriptor)


def _run_forked(frontend: int, requests_read: int, reports_write: int, modules: Sequence[str]) -> int:
    """Run the forker in the forked process."""
    # A reader of the frontend's output must see its end at once, not after the forker's imports.
    parent_death.exit_with_parent(frontend, signal.SIGKILL)
    os.dup2(requests_read, 0)
    os.dup2(reports_write, 1)
    os.closerange(3, _NO_DESCRIPTOR)
    sys.stdout = os.fdopen(1, "w", closefd=False)  # whatever it was before
    return main(modules)


def _flush_output() -> None:
    """Write what is buffered, so that a fork does not write it a second time."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


@contextlib.contextmanager
def without_system_authorities() -> Iterator[None]:
    """Do not load the system's certificate authorities while aiohttp is imported.

    It would read them for sessions that name none, which takes a twentieth of a start; all our sessions name theirs.
    """
    before = {name: os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")}
    os.environ.update(dict.fromkeys(before, os.devnull))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def main(modules: Sequence[str]) -> int:
    """Import the modules and serve until stdin ends. Returns the exit code."""
    parent_death.name_process("forker")
    process_output.ignore_failed_writes()
    for number in (signal.SIGINT, signal.SIGTERM):
        # A terminal, or `timeout`, signals the whole process group; the frontend has to end first.
        signal.signal(number, signal.SIG_IGN)
    gc.disable()
    with without_system_authorities():
        for module in modules:
            importlib.import_module(module)
    gc.freeze()
    gc.enable()
    return Forker().run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
