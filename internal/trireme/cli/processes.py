"""Child processes whose output is shown with a name in front, and which end together.

Tests: tests/unit/cli/test_up.py.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from trireme.rpc import parent_death

STOP_SECONDS = 30.0

ANY_ADDRESS = "127.0.0.1:0"
"""The argument of a process that serves HTTP on any free port, and announces the URL."""

# Colours that are legible on light and dark terminals.
_COLOURS = (36, 33, 32, 35, 34, 31)


_SIGNAL_NAMES = {number.value: number.name for number in signal.Signals}


def end_text(code: int) -> str:
    """How a process ended; `code` is its exit code, or the negative number of the signal that ended it."""
    if code >= 0:
        return f"ended with exit code {code}"
    return f"was ended by {_SIGNAL_NAMES.get(-code, f'signal {-code}')}"


class SharedOutput:
    """Standard output for several writers: whole lines, and a status line that stays last on a terminal."""

    def __init__(self, on_closed: Callable[[], None]) -> None:
        """`on_closed` is called once, when the reader has closed the output."""
        self._terminal = sys.stdout.isatty()
        self._colours: dict[str, int] = {}
        self._status = ""
        #: The reader has closed the output; nothing is shown any more.
        self.closed = False
        self._on_closed = on_closed

    def print_line(self, name: str, text: str) -> None:
        """One line of a process."""
        if self._terminal:
            colour = self._colours.setdefault(name, _COLOURS[len(self._colours) % len(_COLOURS)])
            self._write_above_status(f"\033[{colour}m{name:>9}\033[0m | {text}\n")
        else:
            self._write_above_status(f"{name:>9} | {text}\n")

    def print_message(self, text: str) -> None:
        """Print a line of our own."""
        self._write_above_status(f"{text}\n")

    def set_status(self, text: str) -> None:
        """Set the status line: in place on a terminal, elsewhere a new line for each change."""
        if text == self._status:
            return
        self._status = text
        self._write_above_status("" if self._terminal else f"{text}\n")

    def _write_above_status(self, text: str) -> None:
        """Write the text, and the status line again below it; once the pipe is closed, nothing is written any more."""
        if self.closed:
            return
        try:
            sys.stdout.write(f"\r\033[K{text}{self._status}" if self._terminal else text)
            sys.stdout.flush()
        except BrokenPipeError:
            self.closed = True
            self._on_closed()


class LineWriter(Protocol):
    """What takes the lines of a process."""

    def print_line(self, name: str, text: str) -> None:
        """One line of the process of this name."""


class Process:
    """One process. `ready` is the beginning of the line that it prints once it serves; empty: at once."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        output: LineWriter,
        ready: str = "",
        hidden: tuple[str, ...] = (),
        *,
        announcement: str = "",
    ) -> None:
        """Lines that end with one of `hidden` are not shown; `announced` is what follows `announcement` in a line.

        A process that has announced a URL gets its address in place of `ANY_ADDRESS` when it is started again: a caller
        that was given the URL finds it there.
        """
        self.name = name
        self.announced = ""
        self._announcement = announcement
        self._hidden = hidden
        self._command = command
        self._output = output
        self._ready = ready
        self._process: asyncio.subprocess.Process | None = None
        self._readers: list[asyncio.Task[None]] = []

    async def start(self, environment: Mapping[str, str] | None = None, folder: Path | None = None) -> str:
        """Start it, in `folder` if there is one; return the rest of the line that begins with `ready`.

        Raises: RuntimeError: it ends before; OSError: there is no such program.
        """
        parent = os.getpid()
        self._process = await asyncio.create_subprocess_exec(
            *(self._address() if each == ANY_ADDRESS else each for each in self._command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=dict(os.environ, **(environment or {})),
            cwd=folder,
            # Ctrl-C is for us: we stop the processes in order.
            start_new_session=True,
            preexec_fn=lambda: parent_death.exit_with_parent(parent),
        )
        ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        reader = asyncio.create_task(self._copy_output(ready))
        self._readers.append(reader)
        if not self._ready:
            return ""
        waited: set[asyncio.Future[Any]] = {ready, reader}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            raise RuntimeError(f"{self.name} {end_text(await self.wait_until_ended())} at its start")
        return ready.result()

    def _address(self) -> str:
        """Where it serves HTTP: anywhere, or where it did before it was started again."""
        return self.announced.partition("://")[2] or ANY_ADDRESS

    async def wait_until_ended(self) -> int:
        """Wait for its end; return its exit code."""
        assert self._process is not None
        return await self._process.wait()

    async def stop(self) -> None:
        """Stop it by SIGTERM, after a while by SIGKILL, and show the rest of its output."""
        process = self._process
        if process is None:
            return
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        await asyncio.gather(*self._readers)

    async def _copy_output(self, ready: asyncio.Future[str]) -> None:
        """Print the process's lines until it ends, and notice the one that says that it serves."""
        assert self._process is not None
        assert self._process.stdout is not None
        async for raw in self._process.stdout:
            text = raw.decode(errors="replace").rstrip("\n")
            if not ready.done() and self._ready and text.startswith(self._ready):
                ready.set_result(text.removeprefix(self._ready).strip())
            if self._announcement and text.startswith(self._announcement):
                self.announced = text.removeprefix(self._announcement)
            if not (self._hidden and text.endswith(self._hidden)):
                self._output.print_line(self.name, text)
