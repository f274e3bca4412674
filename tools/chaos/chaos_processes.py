"""The processes of a side: started, watched and started again when they have ended, as a kubelet does it."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Mapping, Sequence

from tools.chaos import chaos_clock
from tools.controlplane import launcher

RESTART_SECONDS = 0.5
"""From the end of a process to its next start."""

_LONGEST_LOG = 4 << 20
_POLL_SECONDS = 0.05

# A host name of its own tells whose identity a Lease has.
_NAMED = 'printf %s "$0" > /proc/sys/kernel/hostname && exec "$@"'


@dataclasses.dataclass(frozen=True, slots=True)
class Exit:
    """A process ended. Units: seconds of the monotonic clock for `at`."""

    name: str
    at: float
    code: int
    killed: bool
    """Whether it was killed as a fault, and did not end by itself."""
    last_line: str


class Program:
    """One process with its host name, log and clock."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: pathlib.Path,
        port: int,
        clock: chaos_clock.Clock,
        https: bool,
    ) -> None:
        """`port` is where it listens; `https`: it says there whether it is ready."""
        self.name = name
        self._command = ["unshare", "--uts", "--", "sh", "-c", _NAMED, name, *command]
        self._log = log
        self._port = port
        self._https = https
        self.clock = clock
        self.exits: list[Exit] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._killed = False
        self._start_at = 0.0

    def start(self) -> None:
        """Start it."""
        self._killed = False
        # What it leaves in its temporary folder when it is killed goes with the run's.
        environment = {**os.environ, "TMPDIR": str(self._log.parent.parent), **self.clock.environment}
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                launcher.ending_with_parent(self._command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    def signal(self, number: int) -> None:
        """Signal it, if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._killed = True
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def supervise(self, now: float) -> None:
        """Start it again when it has ended, after a moment; shorten its log."""
        if self._process is None:
            if now >= self._start_at:
                self.start()
            return
        code = self._process.poll()
        if code is not None:
            self.exits.append(Exit(self.name, now, code, self._killed, self._last_line()))
            self._process = None
            self._start_at = now + RESTART_SECONDS
        elif self._log.stat().st_size > _LONGEST_LOG:
            self._shorten_log()

    def ready(self) -> bool:
        """Whether it runs, and answers that it is ready; blocks for a moment."""
        if self._process is None or self._process.poll() is not None:
            return False
        try:
            if not self._https:
                socket.create_connection(("127.0.0.1", self._port), timeout=0.5).close()
                return True
            context = ssl._create_unverified_context()
            with urllib.request.urlopen(
                f"https://127.0.0.1:{self._port}/readyz", timeout=1.0, context=context
            ) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _last_line(self) -> str:
        lines = self._log.read_bytes()[-2000:].decode(errors="replace").splitlines()
        return lines[-1] if lines else ""

    def _shorten_log(self) -> None:
        """Move what it has to a larger disk. It is appended to, so it goes on at the beginning."""
        with (self._log.parent.parent / self._log.name).open("ab") as earlier:
            earlier.write(self._log.read_bytes())
        os.truncate(self._log, 0)


async def supervise(programs: Mapping[str, Program]) -> None:
    """Start again what ends, until cancelled."""
    while True:
        for program in programs.values():
            program.supervise(time.monotonic())
        await asyncio.sleep(_POLL_SECONDS)
