"""Starts phases for the end-to-end tests as the frontend starts its local ones.

Forked from a process that has imported what all of them need, which takes half of a start. One such process, the
forker, serves all tests of a run of pytest.
"""

import functools
import itertools
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tools.controlplane import launcher


class ForkedPhase:
    """One process, with the methods of subprocess.Popen that an installation uses."""

    def __init__(self, forker: "_Forker", name: str, pid: int) -> None:
        self._forker = forker
        self._name = name
        self.pid = pid

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        return self._forker.exit_code(self._name, 0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once it has ended. Raises: subprocess.TimeoutExpired."""
        code = self._forker.exit_code(self._name, timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self._name, timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Signal it, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


class _Forker:
    """The other end of `trireme.rpc.forker`."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": str(launcher.REPOSITORY)}
        command = [sys.executable, "-u", "-m", "trireme.rpc.forker"]
        self._process = subprocess.Popen(
            launcher.ending_with_parent(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        self._numbers = itertools.count()
        self._pids: dict[str, int] = {}
        self._codes: dict[str, int] = {}
        self._unread = b""

    def start(
        self, module: str, flags: Sequence[str], log: pathlib.Path, environment: Mapping[str, str]
    ) -> ForkedPhase:
        """Fork a process that runs the module's main function, its output appended to `log`."""
        assert self._process.stdin is not None
        name = f"{module.split('.')[1]}-{next(self._numbers)}"
        arguments = [str(log), json.dumps(dict(environment)), module, *flags]
        request = {"start": name, "module": "tests.e2e.phase_with_log", "arguments": arguments}
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        while name not in self._pids:
            self._read(None)
        return ForkedPhase(self, name, self._pids.pop(name))

    def exit_code(self, name: str, timeout: float | None) -> int | None:
        """The exit code of a process, waiting for it so long; None if it runs."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while name not in self._codes:
            remaining = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            if not self._read(remaining):
                return None
        return self._codes[name]

    def _read(self, timeout: float | None) -> bool:
        """Take in reports; False if none came in time."""
        assert self._process.stdout is not None
        reports = self._process.stdout.fileno()
        if not select.select([reports], [], [], timeout)[0]:
            return False
        data = os.read(reports, 1 << 16)
        assert data, "the forker has ended"
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            report: dict[str, Any] = json.loads(line)
            if "started" in report:
                self._pids[report["started"]] = report["pid"]
            else:
                self._codes[report["ended"]] = report["code"]
        return True


@functools.cache
def _forker() -> _Forker:
    return _Forker()


def start(module: str, flags: Sequence[str], log: pathlib.Path, environment: Mapping[str, str]) -> ForkedPhase:
    """Start the phase whose program is `module`; it does not outlive this process."""
    return _forker().start(module, flags, log, environment)
