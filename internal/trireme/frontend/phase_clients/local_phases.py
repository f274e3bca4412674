"""Local phases: filter, score and bind where they have no endpoints, in processes that the frontend starts, or its own.

The processes are ordinary ones on Unix sockets, forks of the forker (`rpc.forker`), and restarted when they end; only
this module knows that they are child processes. Their sockets are in a folder that only this user can enter, and they
end with the frontend, however it ends.

In the frontend's own process phases are the same services, called without a socket (`rpc.in_process`). On few
processors a call to a child costs more than most of what it does: `phases.local` is read by
`trireme_configuration.Phases.in_process`.

Tests: tests/unit/frontend/test_local_phases.py, tests/unit/frontend/test_forker_client.py,
tests/contract/test_local_phases.py.
"""

import asyncio
import contextlib
import functools
import importlib
import logging
import os
import pathlib
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trireme.config import commandline, leader_election
from trireme.frontend import phase_modules
from trireme.frontend.phase_clients import forker_client
from trireme.rpc import forker, in_process
from trireme_kube.componentbase import clocks, supervision

log = logging.getLogger(__name__)

RESTART_SECONDS = 0.2
MAX_RESTART_SECONDS = 10.0
STOP_SECONDS = 10.0
"""How long a phase may take to end. Then a child is killed; one in this process has cancelled what is under way."""

CALLS_SECONDS = 5.0
"""How much of that calls have in this process. Writes that outlast their calls have the rest.

Also change: internal/trireme/bind/process.py (the rest)."""


@dataclass(frozen=True, slots=True)
class LocalPhaseStatistics:
    """The state of one local phase."""

    name: str
    address: str
    pid: int  # 0: not running
    starts: int
    #: When it last ended, in Unix seconds; 0: it never did.
    ended_at: float = 0.0
    #: The exit code with which it ended, or the negative number of a signal.
    exit_code: int = 0


class LocalPhase:
    """One process of a phase that the frontend starts itself. `arguments` are its flags beside that of its address."""

    def __init__(
        self,
        client: forker_client.ForkerClient,
        phase: str,
        number: int,
        socket: pathlib.Path,
        arguments: Sequence[str],
    ) -> None:
        self.name = f"{phase}-{number}"
        self.address = f"unix:{socket}"
        self._forker = client
        self._module = phase_modules.PROCESSES[phase]
        self._arguments = arguments
        self._pid = 0
        self._starts = 0
        self._ended_at, self._exit_code = 0.0, 0
        self._starting: forker_client.StartingProcess | None = None

    def statistics(self) -> LocalPhaseStatistics:
        """Its process id, number of starts, and last end."""
        pid = self._pid if self._forker.runs(self.name) else 0
        return LocalPhaseStatistics(self.name, self.address, pid, self._starts, self._ended_at, self._exit_code)

    async def request_start(self) -> None:
        """Have the forker start it; `start` waits until it listens."""
        self._starts += 1
        self._starting = await self._forker.request_start(self.name, self._module, self.address, self._arguments)

    async def start(self) -> None:
        """Start it, unless that was requested already, and return once it listens. Raises: LocalPhaseError."""
        if self._starting is None:
            await self.request_start()
        assert self._starting is not None
        process, self._starting = self._starting, None
        self._pid = await self._forker.until_listening(process)

    async def until_ended(self) -> int:
        """Return its exit code once it has ended."""
        code = await self._forker.until_ended(self.name)
        self._ended_at, self._exit_code = clocks.wall(), code
        return code

    async def keep_running(self, restarted: Callable[[], None]) -> None:
        """Restart it whenever it ends, until cancelled; `restarted` is called after each start that succeeds.

        The delay doubles while it ends soon after its start. A start that fails is logged, and tried again after the
        next delay.
        """
        delay = RESTART_SECONDS
        while True:
            began = asyncio.get_running_loop().time()
            code = await self.until_ended()
            log.error("%s ended with exit code %d; it is started again", self.name, code)
            if asyncio.get_running_loop().time() - began > MAX_RESTART_SECONDS:
                delay = RESTART_SECONDS
            await asyncio.sleep(delay)
            delay = min(delay * 2, MAX_RESTART_SECONDS)
            try:
                await self.start()
                restarted()
            except forker_client.LocalPhaseError as error:
                log.error("%s; it is started again in %.1f s", error, delay)

    async def stop(self) -> None:
        """End it."""
        for number, patience in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, None)):
            if not self._forker.runs(self.name):
                return
            self._forker.signal(self.name, number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self.until_ended()


class InProcessPhase:
    """What serves a phase in this process, or filter and score together, on one snapshot.

    `arguments` are the flags that a process of its own would get; those of filter and score are about the log alone,
    which the frontend has set up.
    """

    def __init__(self, phases: Sequence[str], arguments: Sequence[str]) -> None:
        self.name = f"{'-'.join(phases)}-0"
        self._arguments = arguments
        self._modules = [phase_modules.PROCESSES[phase] for phase in phases]
        self._server = in_process.InProcessServer(self.name)
        self.address = self._server.address
        self._supervisor = supervision.Supervisor()
        self._serving: contextlib.AsyncExitStack | None = None

    def statistics(self) -> LocalPhaseStatistics:
        """As of a process of its own, which has the frontend's number."""
        starts = 0 if self._serving is None else 1
        return LocalPhaseStatistics(self.name, self.address, os.getpid() if starts else 0, starts)

    async def request_start(self) -> None:
        """Nothing goes on ahead of `start`."""

    async def start(self) -> None:
        """Serve it. Raises: LocalPhaseError."""
        # Filter and score load NumPy; the frontend has other work meanwhile.
        for name in self._modules:
            if name not in sys.modules:
                await asyncio.to_thread(importlib.import_module, name)
        from trireme.phases import freed_memory

        freed_memory.keep_for_next_call()
        async with contextlib.AsyncExitStack() as stack:
            try:
                services = await stack.enter_async_context(self._open_services())
            except ValueError as error:  # it names the flag, the file or the field at fault
                raise forker_client.LocalPhaseError(f"{self.name} cannot be started: {error}") from error
            for service in services:
                self._server.add(service.add_to)
                stack.callback(service.end_streams)
            self._server.start()
            stack.push_async_callback(self._server.stop, CALLS_SECONDS)
            self._serving = stack.pop_all()

    def _open_services(self) -> Any:
        """The services, for as long as the context lasts. Raises: ValueError."""
        modules = [sys.modules[name] for name in self._modules]
        if self._modules == [phase_modules.PROCESSES["bind"]]:
            return modules[0].open_services(self._arguments, self._supervisor)
        from trireme.phases import phase_process

        return phase_process.open_in_frontend([module.PHASE for module in modules])

    async def keep_running(self, restarted: Callable[[], None]) -> None:
        """Raise the failure of one of its tasks; else do not return."""
        await self._supervisor.failure()

    async def stop(self) -> None:
        """Serve it no more, once the calls under way have ended."""
        if self._serving is not None:
            serving, self._serving = self._serving, None
            await serving.aclose()
            await self._supervisor.close()


class LocalPhases:
    """The phases that the frontend starts itself, or serves in its own process.

    `arguments` are the flags of each phase, `counts` its number of processes (0: it is configured elsewhere), on
    sockets in a folder of their own. `in_process` are the phases that need no process.
    """

    def __init__(
        self,
        arguments: Mapping[str, Sequence[str]],
        counts: Mapping[str, int],
        connection: forker.ForkerConnection | None = None,
        *,
        in_process: Collection[str] = (),
    ) -> None:
        # Without a child there is nothing to keep, and a disk that is full or read-only does no harm.
        self._has_children = any(counts.values())
        self._folder = tempfile.mkdtemp(prefix="trireme-") if self._has_children else ""
        self._forker = forker_client.ForkerClient(connection)
        self._started = asyncio.Event()
        self._by_phase: dict[str, Sequence[LocalPhase | InProcessPhase]] = {
            phase: [
                LocalPhase(
                    self._forker,
                    phase,
                    number,
                    pathlib.Path(self._folder, f"{phase}-{number}.sock"),
                    arguments.get(phase, ()),
                )
                for number in range(count)
            ]
            for phase, count in counts.items()
        }
        for together in phase_modules.TOGETHER:
            if phases := [phase for phase in together if phase in in_process]:
                served = InProcessPhase(phases, arguments.get(phases[0], ()))
                self._by_phase |= {phase: [served] for phase in phases}

    def statistics(self) -> list[LocalPhaseStatistics]:
        """The state of each."""
        return [each.statistics() for each in self._all()]

    def addresses(self, phase: str) -> list[str]:
        """Where a phase is called."""
        return [each.address for each in self._by_phase.get(phase, ())]

    async def request_start(self) -> None:
        """Have all started; `start` waits for them. Without any child the forker ends unused."""
        for each in self._all():
            await each.request_start()
        if not self._has_children:
            await self._forker.stop()

    async def start(self) -> None:
        """Start all and return once they can be called. Raises: LocalPhaseError."""
        await asyncio.gather(*(each.start() for each in self._all()))
        self._started.set()

    async def until_started(self) -> None:
        """Return once all can be called."""
        await self._started.wait()

    async def keep_running(self, restarted: Callable[[], None]) -> None:
        """Start all, and restart those that end, until cancelled. Raises: LocalPhaseError at the first start."""
        await self.start()
        await self.restart_ended(restarted)

    async def restart_ended(self, restarted: Callable[[], None]) -> None:
        """Restart those that end, until cancelled. All have started."""
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.Event().wait())
            for each in self._all():
                keep = functools.partial(each.keep_running, restarted)
                group.create_task(supervision.supervise(each.name, keep))

    async def stop(self) -> None:
        """End all, and remove their folder."""
        await asyncio.gather(*(each.stop() for each in self._all()))
        await self._forker.stop()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _all(self) -> Iterable[LocalPhase | InProcessPhase]:
        """Each once, also where it serves two phases."""
        return dict.fromkeys(each for phase in self._by_phase.values() for each in phase)


def phases_of_configuration(
    completed: commandline.CompletedConfig, connection: forker.ForkerConnection | None
) -> LocalPhases:
    """The local phases of the configuration: those without endpoints. `connection` is to the forker, if it runs."""
    names = [name for name in phase_modules.PROCESSES if not completed.trireme.phase(name).endpoints]
    return _local_phases(completed, names, connection)


def fallback_phases(completed: commandline.CompletedConfig, phase: str) -> LocalPhases:
    """The local ones of one phase, whether or not it has endpoints."""
    return _local_phases(completed, [phase], None)


def _local_phases(
    completed: commandline.CompletedConfig, names: Sequence[str], connection: forker.ForkerConnection | None
) -> LocalPhases:
    """Local ones of these phases, as the configuration says."""
    own = completed.trireme
    in_process = [name for name in names if own.phases.in_process(name)]
    counts = {name: own.phase(name).local_replicas for name in names if name not in in_process}
    return LocalPhases(_inherited_flags_by_phase(completed), counts, connection, in_process=in_process)


def _inherited_flags_by_phase(completed: commandline.CompletedConfig) -> dict[str, list[str]]:
    """The flags that follow from the frontend's own configuration, by phase.

    Flags that each process has of its own, as its address, are added where it is started.
    """
    config = completed.configuration
    connection = config.client_connection
    bind = [
        *leader_election.bind_flags(config.leader_election),
        f"--kube-api-qps={connection.qps}",
        f"--kube-api-burst={connection.burst}",
    ]
    if connection.kubeconfig:
        bind.append(f"--kubeconfig={connection.kubeconfig}")
    if completed.options.misc.master:
        bind.append(f"--master={completed.options.misc.master}")
    logging_options = completed.options.logging
    logs = [f"-v={logging_options.verbosity}", f"--logging-format={logging_options.format}"]
    if logging_options.vmodule:
        patterns = ",".join(f"{module.pattern}={module.level}" for module in logging_options.vmodule)
        logs.append(f"--vmodule={patterns}")
    if not completed.gates.enabled("ContextualLogging"):
        logs.append("--contextual-logging=false")
    return {"filter": logs, "score": logs, "bind": [*bind, *logs]}
