"""Has the forker (`rpc.forker`) start the frontend's local phases, and reads what it reports about them.

Also change: internal/trireme/rpc/forker.py (what the forker is told and answers).

Tests: tests/unit/frontend/test_forker_client.py, tests/contract/test_local_phases.py.
"""

import asyncio
import contextlib
import io
import os
import pathlib
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from trireme.framework import programs
from trireme.frontend import phase_modules
from trireme.rpc import forker

START_SECONDS = 30.0


class LocalPhaseError(Exception):
    """A local phase could not be started; the text says why."""


@dataclass(frozen=True, slots=True)
class StartingProcess:
    """A process that the forker was requested to start. `started` gets its id, `listening` any value."""

    name: str
    started: asyncio.Future[int]
    listening: asyncio.Future[int]


class ForkerClient:
    """Starts, signals and awaits processes by name. It spawns the forker when it is first needed, and after a crash.

    `connection` is to a forker that runs already.
    """

    def __init__(self, connection: forker.ForkerConnection | None = None) -> None:
        self._connection = connection
        self._requests: io.FileIO | None = None  # while the forker runs
        self._reading: asyncio.Task[None] | None = None
        self._connecting = asyncio.Lock()
        self._expected: dict[str, asyncio.Future[int]] = {}  # reports and log messages, by their text
        self._exit_codes: dict[str, asyncio.Future[int]] = {}  # by process

    async def request_start(self, name: str, module: str, address: str, arguments: Sequence[str]) -> StartingProcess:
        """Request a process; `until_listening` waits for it."""
        requests = await self._connect()
        loop = asyncio.get_running_loop()
        self._exit_codes[name] = loop.create_future()
        process = StartingProcess(name, loop.create_future(), loop.create_future())
        self._expected[f"started {name}"] = process.started
        self._expected[f"{programs.LISTENING}{address}"] = process.listening
        flags = ["--listen", address, *arguments]
        folder = str(pathlib.Path(address.removeprefix("unix:")).parent)
        _write_request(requests, start=name, module=module, arguments=flags, folder=folder)
        return process

    async def until_listening(self, process: StartingProcess) -> int:
        """Return the id of the process once it listens. Raises: LocalPhaseError."""
        exit_code = self._exit_codes[process.name]
        try:
            async with asyncio.timeout(START_SECONDS):
                for report in (process.started, process.listening):
                    await asyncio.wait({report, exit_code}, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError as error:
            self.signal(process.name, signal.SIGKILL)
            raise LocalPhaseError(
                f"{process.name} does not listen after {START_SECONDS:.0f} s: see its lines in the log"
            ) from error
        if exit_code.done():
            raise LocalPhaseError(
                f"{process.name} ended with exit code {exit_code.result()} at its start: see its lines in the log"
            )
        return process.started.result()

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send the process a signal, if it runs."""
        if self.runs(name):
            assert self._requests is not None
            _write_request(self._requests, signal=int(number), name=name)

    async def until_ended(self, name: str) -> int:
        """Return the exit code of a process once it has ended."""
        return await asyncio.shield(self._exit_codes[name])

    def runs(self, name: str) -> bool:
        """Whether the process runs."""
        return name in self._exit_codes and not self._exit_codes[name].done()

    async def stop(self) -> None:
        """End the forker, which ends its processes."""
        if self._connection is not None:
            await self._connect()
        if self._requests is not None:
            self._requests.close()
        if self._reading is not None:
            await self._reading

    async def _connect(self) -> io.FileIO:
        """Return the pipe for requests; spawns a forker if there is none."""
        async with self._connecting:
            if self._requests is None:
                connection, self._connection = self._connection or forker.spawn_forker(phase_modules.SHARED), None
                reports = asyncio.StreamReader()
                pipe = os.fdopen(connection.reports, "rb", 0)
                await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reports), pipe)
                self._requests = os.fdopen(connection.requests, "wb", 0)
                reading = self._read_reports(connection.pid, self._requests, reports)
                self._reading = asyncio.create_task(reading, name="forker")
            return self._requests

    async def _read_reports(self, pid: int, requests: io.FileIO, reports: asyncio.StreamReader) -> None:
        """Read reports until the forker ends; then all of its processes have ended."""
        try:
            while line := await reports.readline():
                self._read_line(line)
        finally:
            # Also on failure: the forker ends then, with its processes, and what waits for them goes on.
            requests.close()
            _, status = await asyncio.to_thread(os.waitpid, pid, 0)
            self._requests = None
            for name in self._exit_codes:
                self._set_exit_code(name, os.waitstatus_to_exitcode(status))

    def _read_line(self, line: bytes) -> None:
        """Take a line of the pipe: a report of the forker (JSON), or a phase's own, which may say that it listens."""
        if not line.startswith(b"{"):
            self._resolve_expected(line.decode(errors="replace").strip(), 0)
            return
        message = orjson.loads(line)
        if "msg" in message:  # a phase that logs as JSON
            self._resolve_expected(message["msg"], 0)
        elif "started" in message:
            self._resolve_expected(f"started {message['started']}", message["pid"])
        else:
            self._set_exit_code(message["ended"], message["code"])

    def _resolve_expected(self, text: str, value: int) -> None:
        """Resolve the future that waits for this text, if one does."""
        expected = self._expected.pop(text, None)
        if expected is not None:
            expected.set_result(value)

    def _set_exit_code(self, name: str, code: int) -> None:
        """Have `until_ended` return: the process has ended with this code."""
        if not self._exit_codes[name].done():
            self._exit_codes[name].set_result(code)


def _write_request(requests: io.FileIO, **message: Any) -> None:
    """Write a request; where the forker has ended, the end of its reports shows it."""
    if not requests.closed:
        with contextlib.suppress(BrokenPipeError):
            # Synchronously, for the loop may be busy; the pipe's buffer exceeds all requests together.
            requests.write(orjson.dumps(message) + b"\n")
