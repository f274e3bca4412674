"""Runs simulations one after another, each in a process of its own that is forked once the product is imported.

So a run begins at once, knows nothing of the one before it, and can be ended at any time.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import pathlib
import pickle
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from tests.simulation import substituted_sources
from tests.simulation.simulation_plan import Options
from tests.simulation.simulation_profile import Profile
from tests.simulation.virtual_loop import VirtualLoop

if TYPE_CHECKING:
    from tests.simulation import simulation

# The real ones, taken before they are replaced.
monotonic = time.monotonic
_cpu_seconds, _freeze = time.process_time, gc.freeze

_PR_SET_PDEATHSIG = 1  # of prctl(2)

_ENDING = (signal.SIGINT, signal.SIGTERM)


class RunCrashed(Exception):
    """The process of a run ended without an outcome; it has printed why."""


@dataclass(frozen=True)
class Output:
    """Where a run writes what. Paths of files, empty for none."""

    trace: str = ""
    packets: str = ""
    #: Print the processes' log from this level on.
    log_level: str = ""
    #: Print a line after each storm.
    progress: bool = False
    #: Print at the end where the processor time went.
    profile: bool = False


class Runs:
    """Make one, and only one: it replaces clocks and random sources, and then imports the product."""

    def __init__(self) -> None:
        self._loop = VirtualLoop()
        substituted_sources.install(self._loop, 0)
        from tests.simulation import (
            simulation,  # the product, which comes after what it is to see
            simulation_trace,
        )

        substituted_sources.replace_what_leaves_the_process()
        self._simulation, self._trace = simulation, simulation_trace
        gc.collect()
        _freeze()

    def run(self, options: Options, output: Output = Output(), *, repeats: str = "") -> simulation.Outcome:
        """Run a simulation to its end; `repeats` is a file with the trace that it should have.

        Raises: RunCrashed.
        """
        sys.stdout.flush()
        readable, writable = os.pipe()
        # Held back, for what a handler raises while a fork's hooks run is lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        child = os.fork()
        if child == 0:
            os.close(readable)
            _run_as_child(lambda: self._run(options, output, repeats), writable)
        os.close(writable)
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
            with os.fdopen(readable, "rb") as pipe:
                answer = pipe.read()
        except BaseException:
            os.kill(child, signal.SIGKILL)
            raise
        finally:
            os.waitpid(child, 0)
        if not answer:
            raise RunCrashed(f"the run of seed {options.seed} crashed")
        outcome: simulation.Outcome = pickle.loads(answer)
        return outcome

    def options_of(self, trace: str) -> tuple[Options, str]:
        """Which run a file has the trace of, and where it ran. Raises: OSError, ValueError."""
        with pathlib.Path(trace).open(encoding="utf-8") as file:
            return self._trace.read(file)

    def environment(self) -> str:
        """Where runs take place, as traces have it."""
        return self._trace.environment()

    def _run(self, options: Options, output: Output, repeats: str) -> simulation.Outcome:
        loop = self._loop
        substituted_sources.reseed(loop, options.seed)
        # What coroutines of killed processes make of their end, also those that nobody has begun to wait for.
        sys.unraisablehook = lambda _: None
        warnings.filterwarnings("ignore", r"coroutine '.*' was never awaited", RuntimeWarning)
        before, folder = pathlib.Path.cwd(), pathlib.Path(tempfile.mkdtemp(prefix="trireme-simulation-"))
        tempfile.tempdir = str(folder)
        try:
            trace = self._trace.Trace(lambda: loop.now, self._open_trace(options, output), self._comparison(repeats))
            if output.packets:
                loop.network.observer = _packet_writer(loop, _open(output.packets))
            os.chdir(folder)  # paths in the simulated configuration, and its hash, are the same in each run
            run = self._simulation.Simulation(loop, pathlib.Path(), options, trace)
            self._simulation.show_log(output.log_level, loop, trace.timeline)
            asyncio.set_event_loop(loop)
            progress = (lambda line: print(line, flush=True)) if output.progress else (lambda line: None)
            # Not asyncio.Runner: what still runs at the end is of no interest, and its `finally` blocks neither.
            profile = Profile()
            if output.profile:
                profile.start()
            outcome: simulation.Outcome = loop.run_until_complete(run.run(_cpu_seconds, progress))
            if output.profile:
                print(*profile.table(), sep="\n")
            return outcome
        finally:
            os.chdir(before)
            shutil.rmtree(folder, ignore_errors=True)

    def _open_trace(self, options: Options, output: Output) -> TextIO | None:
        if not output.trace:
            return None
        file = _open(output.trace)
        file.write(self._trace.header(options) + "\n")
        return file

    def _comparison(self, repeats: str) -> Any:
        if not repeats:
            return None
        file = pathlib.Path(repeats).open(encoding="utf-8")  # noqa: SIM115 - until the process ends
        self._trace.read(file)
        return self._trace.Comparison(line.rstrip("\n") for line in file)


def _run_as_child(run: Callable[[], Any], writable: int) -> None:
    """Write what `run` returns; the process ends here, and leaves the simulated ones as they are."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what that means
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    if sys.platform == "linux":  # end with the parent, however that ends
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    code = 1
    try:
        answer = pickle.dumps(run())
        with os.fdopen(writable, "wb") as pipe:
            pipe.write(answer)
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _open(path: str) -> TextIO:
    """A file that is written line by line."""
    return pathlib.Path(path).open("w", encoding="utf-8", buffering=1)


def _packet_writer(loop: VirtualLoop, file: TextIO) -> Callable[[Any, Any], None]:
    """What writes a line for each packet: the order of maps within a message is protobuf's, so only its length."""

    def write(end: Any, item: Any) -> None:
        size = len(item) if isinstance(item, bytes) else "end"
        file.write(f"{loop.now} {end.host}:{end.port} {end.peer.host}:{end.peer.port} {size}\n")

    return write
