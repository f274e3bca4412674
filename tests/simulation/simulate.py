"""Run the whole system in one process on one virtual clock: `python simulate.py --seed 7 --hours 24`.

Prints a line for each hour and, last, the SHA-256 of the trace: the same for the same seed. The exit code is 1 where an
invariant was violated; then the violations and the last lines of the trace are printed before.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import pathlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, TextIO

import substituted_sources
from virtual_loop import VirtualLoop

_cpu_seconds = time.process_time


def main() -> int:
    """Run one simulation; returns the exit code."""
    options = _parser().parse_args()
    loop = VirtualLoop(options.seed)
    substituted_sources.install(loop, options.seed)
    import simulation  # the product, which comes after what it is to see

    substituted_sources.replace_what_leaves_the_process()
    sys.unraisablehook = lambda _: None  # what coroutines of killed processes make of their end
    folder = pathlib.Path(tempfile.mkdtemp(prefix="trireme-simulation-"))
    tempfile.tempdir = str(folder)
    try:
        run = simulation.Simulation(loop, folder, options.seed, _open(options.trace), options.faults)
        if options.packets:
            loop.network.observer = _packet_writer(loop, _open(options.packets))
        simulation.show_log(options.log, loop, run.trace.remark)
        asyncio.set_event_loop(loop)
        # Not asyncio.Runner: what still runs at the end is of no interest, and its `finally` blocks neither.
        return loop.run_until_complete(run.run(options.hours * 3600, not options.no_faults, _cpu_seconds))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _open(path: str) -> TextIO | None:
    """A file that is written line by line; None without a path."""
    return pathlib.Path(path).open("w", encoding="utf-8", buffering=1) if path else None


def _packet_writer(loop: VirtualLoop, file: Any) -> Callable[[Any, Any], None]:
    """What writes a line for each packet: the order of maps within a message is protobuf's, so only its length."""

    def write(end: Any, item: Any) -> None:
        size = len(item) if isinstance(item, bytes) else "end"
        file.write(f"{loop.now} {end.host}:{end.port} {end.peer.host}:{end.peer.port} {size}\n")

    return write


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--hours", type=float, default=1.0, help="of virtual time")
    parser.add_argument("--trace", default="", metavar="FILE", help="write every line of the trace there")
    parser.add_argument("--log", default="", metavar="LEVEL", help="print the processes' log to stderr")
    parser.add_argument("--packets", default="", metavar="FILE", help="write what is sent over the network there")
    parser.add_argument("--faults", type=_names, default=(), metavar="KIND,…", help="these kinds of faults only")
    parser.add_argument("--no-faults", action="store_true")
    return parser


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # the simulated processes are left as they are
