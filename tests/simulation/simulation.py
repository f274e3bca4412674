"""One simulation: the cluster, its load, faults and invariants, in turns of storm and calm.

Import it after `substituted_sources.install`.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import pathlib
import resource
from collections.abc import Callable, Sequence
from typing import Any, TextIO

import simulated_process
from frontend_checks import FrontendChecks
from invariants import Invariants
from simulated_cluster import Cluster
from simulated_faults import Faults
from simulated_load import Load, Rates
from simulation_trace import Trace
from virtual_loop import VirtualLoop

from trireme.bind import service as bind_service

# Load and faults for so long; then calm, until nothing is pending that fits, which must be within so long: the queue
# tries everything again after five minutes. Units: seconds.
STORM_SECONDS = 300.0
CALM_SECONDS = 400.0
# How often it is looked whether everything is well.
CHECK_SECONDS = 1.0
FRONTENDS, FILTERS, SCORES, BINDS = 3, 2, 2, 2


class Simulation:
    """One run from one seed."""

    def __init__(
        self, loop: VirtualLoop, folder: pathlib.Path, seed: int, file: TextIO | None, kinds: Sequence[str]
    ) -> None:
        """`folder` is for the processes' files, `file` gets the trace; `kinds` of faults, empty: all."""
        self._loop = loop
        self._seed = seed
        self.trace = Trace(lambda: loop.now, file)
        self._cluster = Cluster(loop, folder, seed, self.trace.note)
        self._invariants = Invariants(self._cluster.store)
        self._frontends = FrontendChecks(self._cluster.store)
        self._load = Load(self._cluster.registry, Rates(), seed)
        self._faults = Faults(self._cluster, seed, kinds)
        self._cluster.store.listen_to_all(self._invariants.on_write)
        self._cluster.store.listen_to_all(self.trace.on_write)
        observe_bind_requests(self._invariants.on_bind_request)
        self._calms = 0

    async def run(self, seconds: float, faults: bool, cpu_seconds: Callable[[], float]) -> int:
        """Run for so much virtual time; returns the exit code."""
        started = cpu_seconds()
        self._cluster.build(FRONTENDS, FILTERS, SCORES, BINDS)
        await self._cluster.start()
        self._load.prepare()
        end = self._loop.now + seconds
        while self._loop.now < end and not self._failures():
            await self._storm(min(STORM_SECONDS, end - self._loop.now), faults)
            await self._calm()
            gc.collect()
            self._report(cpu_seconds() - started)
        for failure in self._failures():
            self.trace.note(f"FAILED {failure}")
        if self._failures():
            print(self.trace.timeline())
            print(f"seed {self._seed}: {len(self._failures())} violations; replay: make simulate SEED={self._seed}")
        print(f"sha256 {self.trace.sha256()}", flush=True)
        return 1 if self._failures() else 0

    async def _storm(self, seconds: float, faults: bool) -> None:
        """Load, and faults, for so long or until something fails."""
        works = [self._load.run(), *([self._faults.run()] if faults else [])]
        tasks = [asyncio.create_task(work) for work in works]
        end = self._loop.now + seconds
        while self._loop.now < end and not self._failures():
            await asyncio.sleep(min(CHECK_SECONDS, end - self._loop.now))
            for task in tasks:
                if task.done():
                    task.result()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _calm(self) -> None:
        """No faults and no load until nothing is pending that fits."""
        self._faults.calm()
        self._load.lift_gates()
        began = self._loop.now
        await self._until("pending, though they fit", self._invariants.pods_that_fit)
        await self._until("wrong at rest", self._frontends.differences)
        self._calms += 1
        self.trace.note(f"calm after {self._loop.now - began:g} s, {self._loop.callbacks} callbacks")

    async def _until(self, what: str, problems: Callable[[], list[str]]) -> None:
        """Wait until there are no such problems; it is a failure if there are some for too long."""
        began = self._loop.now
        while not self._failures():
            await asyncio.sleep(CHECK_SECONDS)
            found = problems()
            if not found:
                break
            if self._loop.now - began > CALM_SECONDS:
                self._cluster.failures.append(f"{what} {CALM_SECONDS:g} s after the last fault: {found}")

    def _failures(self) -> list[str]:
        return self._invariants.violations + self._cluster.failures

    def _report(self, cpu_seconds: float) -> None:
        hours, faults, bound = self._loop.now / 3600, self._faults.injected, self._invariants.bound
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        speed = f"{self._loop.now / max(cpu_seconds, 0.001):.0f} virtual seconds a CPU second"
        print(f"{hours:.2f} h: {bound} pods bound, {faults} faults, {speed}, {memory} MiB", flush=True)


def observe_bind_requests(observe: Callable[[str, int], None]) -> None:
    """Have `observe` called with each pod, and the leader's epoch, of every Bind call that a bind replica gets."""
    original = bind_service.BindPhase.Bind

    def bind(self: Any, request: Any, context: Any) -> Any:
        for item in request.items:
            observe(item.pod.uid, request.cycle.fence.epoch)
        return original(self, request, context)

    bind_service.BindPhase.Bind = bind  # type: ignore[method-assign]


def show_log(level: str, loop: VirtualLoop, remark: Callable[[str], None]) -> None:
    """Add the processes' warnings to the timeline; print all of `level` to stderr, if it is not empty."""

    class Handler(logging.StreamHandler[TextIO]):
        def emit(self, record: logging.LogRecord) -> None:
            process = simulated_process.current()
            text = f"{'simulation' if process is None else process.name}: {record.getMessage()}"
            text += "".join(f" {name}={value}" for name, value in getattr(record, "values", {}).items())
            if record.exc_info and record.exc_info[1] is not None:
                text += f" ({record.exc_info[1]!r})"
            if record.levelno >= logging.WARNING:
                remark(text)
            if level and record.levelno >= logging.getLevelName(level):
                self.stream.write(f"{loop.now:.6f} {record.levelname} {text}\n")

    root = logging.getLogger()
    root.handlers = [Handler()]
    root.setLevel(level or logging.WARNING)
