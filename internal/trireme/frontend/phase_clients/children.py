"""The frontend's own phases: child processes on Unix sockets, started again when they end.

They are ordinary phase processes, forks of one that has loaded what they share (`rpc.forker`); that they are
children is known only here. The sockets are in a folder that only this user can enter, and the children end with the
frontend, however it ends.
"""

import asyncio
import contextlib
import functools
import io
import logging
import os
import pathlib
import shutil
import signal
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from trireme.config import commandline, leader_election
from trireme.rpc import forker
from trireme_kube.componentbase import supervision

log = logging.getLogger(__name__)

START_SECONDS = 30.0
RESTART_SECONDS = 0.2
MAX_RESTART_SECONDS = 10.0
STOP_SECONDS = 10.0

_PHASES = ("filter", "score", "bind")


@dataclass(frozen=True, slots=True)
class ChildStatistics:
    """One child."""

    name: str
    pid: int  # 0: not running
    starts: int


class ChildError(Exception):
    """A child could not be started; the text is what it said."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A process that the forker was asked for, and what it is going to say of it."""

    name: str
    started: asyncio.Future[int]
    listening: asyncio.Future[int]


class Forker:
    """The process that our phases are forks of (`rpc.forker`); started when it is first needed, and again.

    `forked` is one that is there already.
    """

    def __init__(self, forked: forker.Line | None = None) -> None:
        self._forked = forked
        self._asks: io.FileIO | None = None  # while it runs
        self._reading: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._waiting: dict[str, asyncio.Future[int]] = {}  # for what a line will say, by its key
        self._running: dict[str, asyncio.Future[int]] = {}  # until the exit code of each process

    async def ask(self, name: str, module: str, address: str, arguments: Sequence[str]) -> _Asked:
        """Have a process started."""
        asks = await self._own_process()
        loop = asyncio.get_running_loop()
        self._running[name] = loop.create_future()
        asked = _Asked(name, loop.create_future(), loop.create_future())
        self._waiting[f"started {name}"] = asked.started
        self._waiting[f"listening on {address}"] = asked.listening
        _tell(asks, start=name, module=module, arguments=["--listen", address, *arguments])
        return asked

    async def listens(self, asked: _Asked) -> int:
        """Return the id of the process once it listens. Raises: ChildError."""
        running = self._running[asked.name]
        try:
            async with asyncio.timeout(START_SECONDS):
                for said in (asked.started, asked.listening):
                    await asyncio.wait({said, running}, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError as error:
            self.signal(asked.name, signal.SIGKILL)
            raise ChildError(f"{asked.name} does not listen after {START_SECONDS:.0f} s") from error
        if running.done():
            raise ChildError(f"{asked.name} ended with exit code {running.result()} at its start")
        return asked.started.result()

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send the process a signal, if it runs."""
        if self._asks is not None and name in self._running and not self._running[name].done():
            _tell(self._asks, signal=int(number), name=name)

    async def ended(self, name: str) -> int:
        """Return the exit code of a process that was started, once it has ended."""
        return await asyncio.shield(self._running[name])

    def runs(self, name: str) -> bool:
        """Whether the process runs."""
        return name in self._running and not self._running[name].done()

    async def stop(self) -> None:
        """End it, and with it whatever of it still runs."""
        if self._forked is not None:
            await self._own_process()
        if self._asks is not None:
            self._asks.close()
        if self._reading is not None:
            await self._reading

    async def _own_process(self) -> io.FileIO:
        async with self._starting:
            if self._asks is None:
                line, self._forked = self._forked or forker.spawn(), None
                said = asyncio.StreamReader()
                hears = os.fdopen(line.hears, "rb", 0)
                await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(said), hears)
                self._asks = os.fdopen(line.asks, "wb", 0)
                self._reading = asyncio.create_task(self._read(line.pid, self._asks, said), name="forker")
            return self._asks

    async def _read(self, pid: int, asks: io.FileIO, said: asyncio.StreamReader) -> None:
        """Take what is said, until it ends: then all have ended."""
        try:
            while line := await said.readline():
                self._take(line)
        finally:
            # Also where this fails: it ends then, and its processes with it, and whoever waits for them goes on.
            asks.close()
            _, status = await asyncio.to_thread(os.waitpid, pid, 0)
            self._asks = None
            for name in self._running:
                self._end(name, os.waitstatus_to_exitcode(status))

    def _take(self, line: bytes) -> None:
        if not line.startswith(b"{"):
            self._said(line.decode(errors="replace").strip(), 0)
            return
        what = orjson.loads(line)
        if "msg" in what:  # a phase that logs as JSON
            self._said(what["msg"], 0)
        elif "started" in what:
            self._said(f"started {what['started']}", what["pid"])
        else:
            self._end(what["ended"], what["code"])

    def _said(self, key: str, value: int) -> None:
        waiting = self._waiting.pop(key, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(value)

    def _end(self, name: str, code: int) -> None:
        if not self._running[name].done():
            self._running[name].set_result(code)


def _tell(asks: io.FileIO, **what: Any) -> None:
    """Ask for something; a forker that has ended is about to be found out by what it says."""
    if not asks.closed:
        with contextlib.suppress(BrokenPipeError):
            # At once, for the loop may be kept from turning next; a pipe takes more than was ever asked for.
            asks.write(orjson.dumps(what) + b"\n")


class Child:
    """One phase process. `arguments` are those beside its address."""

    def __init__(self, forker: Forker, phase: str, number: int, socket: pathlib.Path, arguments: Sequence[str]) -> None:
        self.name = f"{phase}-{number}"
        self.address = f"unix:{socket}"
        self._forker = forker
        self._module = f"trireme.{phase}.process"
        self._arguments = arguments
        self._pid = 0
        self._starts = 0
        self._asked: _Asked | None = None

    def statistics(self) -> ChildStatistics:
        """How it is."""
        return ChildStatistics(self.name, self._pid if self._forker.runs(self.name) else 0, self._starts)

    async def ask(self) -> None:
        """Have it started."""
        self._starts += 1
        self._asked = await self._forker.ask(self.name, self._module, self.address, self._arguments)

    async def start(self) -> None:
        """Start it, unless that was asked for, and return once it listens. Raises: ChildError."""
        if self._asked is None:
            await self.ask()
        assert self._asked is not None
        asked, self._asked = self._asked, None
        self._pid = await self._forker.listens(asked)

    async def ended(self) -> int:
        """Return its exit code once it has ended."""
        return await self._forker.ended(self.name)

    async def stop(self) -> None:
        """End it."""
        for number, patience in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, None)):
            if not self._forker.runs(self.name):
                return
            self._forker.signal(self.name, number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self.ended()


class Children:
    """All children: how many of each phase, and the arguments of each phase's."""

    def __init__(
        self, arguments: Mapping[str, Sequence[str]], counts: Mapping[str, int], forked: forker.Line | None = None
    ) -> None:
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-"))
        self._forker = Forker(forked)
        self._started = asyncio.Event()
        self._children = {
            phase: [
                Child(self._forker, phase, number, self._folder / f"{phase}-{number}.sock", arguments.get(phase, ()))
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

    async def ask(self) -> None:
        """Have all started, which `start` will wait for; a forker that is there for none ends."""
        for children in self._children.values():
            for child in children:
                await child.ask()
        if not any(self._children.values()):
            await self._forker.stop()

    async def start(self) -> None:
        """Start all and return once they listen. Raises: ChildError."""
        await asyncio.gather(*(child.start() for children in self._children.values() for child in children))
        self._started.set()

    async def started(self) -> None:
        """Return once all listen."""
        await self._started.wait()

    async def keep(self, restarted: Callable[[], None]) -> None:
        """Start all, and again what ends, until cancelled. Raises: ChildError where one cannot be started at first."""
        await self.start()
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.Event().wait())
            for children in self._children.values():
                for child in children:
                    group.create_task(
                        supervision.supervise(child.name, functools.partial(self._keep_one, child, restarted))
                    )

    async def stop(self) -> None:
        """End all, and remove their folder."""
        await asyncio.gather(*(child.stop() for children in self._children.values() for child in children))
        await self._forker.stop()
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


def configured(completed: commandline.CompletedConfig, forked: forker.Line) -> Children:
    """The children that the configuration wants: of every phase without endpoints. `forked`: what they are forks of."""
    phases = {name: completed.trireme.phase(name) for name in _PHASES}
    counts = {name: 0 if phase.endpoints else phase.local_replicas for name, phase in phases.items()}
    return Children(_arguments(completed), counts, forked)


def standing_in(completed: commandline.CompletedConfig, phase: str) -> Children:
    """Children of one phase, whether or not it has endpoints."""
    return Children(_arguments(completed), {phase: completed.trireme.phase(phase).local_replicas})


def _arguments(completed: commandline.CompletedConfig) -> dict[str, list[str]]:
    config = completed.configuration
    connection = config.client_connection
    bind = [
        *leader_election.bind_flags(config.leader_election),
        f"--kube-api-qps={connection.qps}",
        f"--kube-api-burst={connection.burst}",
    ]
    if connection.kubeconfig:
        bind.append(f"--kubeconfig={connection.kubeconfig}")
    if completed.options.master:
        bind.append(f"--master={completed.options.master}")
    logging_options = completed.options.logging
    logs = [f"-v={logging_options.verbosity}", f"--logging-format={logging_options.format}"]
    if logging_options.vmodule:
        patterns = ",".join(f"{module.pattern}={module.level}" for module in logging_options.vmodule)
        logs.append(f"--vmodule={patterns}")
    if not completed.gates.enabled("ContextualLogging"):
        logs.append("--contextual-logging=false")
    return {"filter": logs, "score": logs, "bind": [*bind, *logs]}
