"""The frontend's own phases: child processes on Unix sockets, started again when they end.

They are ordinary phase processes; that they are children is known only here. The sockets are in a folder that only this
user can enter, and the children end with the frontend, however it ends.
"""

import asyncio
import contextlib
import logging
import os
import pathlib
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

log = logging.getLogger(__name__)

START_SECONDS = 30.0
RESTART_SECONDS = 0.2
MAX_RESTART_SECONDS = 10.0
STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ChildStatistics:
    """One child."""

    name: str
    pid: int  # 0: not running
    starts: int


class ChildError(Exception):
    """A child could not be started; the text is what it said."""


class Child:
    """One phase process. `arguments` are those beside its address."""

    def __init__(self, phase: str, number: int, socket: pathlib.Path, arguments: Sequence[str]) -> None:
        self.name = f"{phase}-{number}"
        self.address = f"unix:{socket}"
        self._phase = phase
        self._arguments = arguments
        self._process: asyncio.subprocess.Process | None = None
        self._starts = 0

    def statistics(self) -> ChildStatistics:
        """How it is."""
        running = self._process is not None and self._process.returncode is None
        return ChildStatistics(self.name, self._process.pid if running and self._process else 0, self._starts)

    async def start(self) -> None:
        """Start it and return once it listens. Raises: ChildError."""
        program = f"import sys; from trireme.{self._phase}.process import main; sys.exit(main())"
        self._starts += 1
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            program,
            "--listen",
            self.address,
            "--exit-with-parent",
            str(os.getpid()),
            *self._arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(START_SECONDS):
                line = await self._process.stdout.readline()
        except TimeoutError as error:
            await self.stop()
            raise ChildError(f"{self.name} does not listen after {START_SECONDS:.0f} s") from error
        if not line.startswith(b"listening on "):
            code = await self._process.wait()
            raise ChildError(f"{self.name} ended with exit code {code} at its start")

    async def ended(self) -> int:
        """Return its exit code once it has ended."""
        assert self._process is not None
        return await self._process.wait()

    async def stop(self) -> None:
        """End it."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


class Children:
    """All children. `ended` is told when one has ended before its time."""

    def __init__(self, arguments: Mapping[str, Sequence[str]], counts: Mapping[str, int]) -> None:
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-"))
        self._children = {
            phase: [
                Child(phase, number, self._folder / f"{phase}-{number}.sock", arguments.get(phase, ()))
                for number in range(count)
            ]
            for phase, count in counts.items()
        }

    def statistics(self) -> list[ChildStatistics]:
        """How each is."""
        return [child.statistics() for children in self._children.values() for child in children]

    def addresses(self, phase: str) -> list[str]:
        """Where the children of a phase listen."""
        return [child.address for child in self._children.get(phase, ())]

    async def start(self) -> None:
        """Start all and return once they listen. Raises: ChildError."""
        await asyncio.gather(*(child.start() for children in self._children.values() for child in children))

    async def keep(self, restarted: Callable[[], None]) -> None:
        """Start again what ends, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.Event().wait())
            for children in self._children.values():
                for child in children:
                    group.create_task(self._keep_one(child, restarted))

    async def stop(self) -> None:
        """End all, and remove their folder."""
        await asyncio.gather(*(child.stop() for children in self._children.values() for child in children))
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _keep_one(self, child: Child, restarted: Callable[[], None]) -> None:
        delay = RESTART_SECONDS
        while True:
            began = asyncio.get_running_loop().time()
            code = await child.ended()
            log.error("%s ended with exit code %d; it is started again", child.name, code)
            if asyncio.get_running_loop().time() - began > MAX_RESTART_SECONDS:
                delay = RESTART_SECONDS
            await asyncio.sleep(delay)
            delay = min(delay * 2, MAX_RESTART_SECONDS)
            try:
                await child.start()
                restarted()
            except ChildError as error:
                log.error("%s", error)
