"""Samples where a simulation spends its processor time: in which process, and in which folder of the code.

A signal comes after each few milliseconds of processor time, and the innermost frame of the product, or of the
simulation, counts: what libraries do is for whom they do it.
"""

from __future__ import annotations

import collections
import signal
import types
from collections.abc import Iterator

from tests.simulation import simulated_process

_SECONDS = 0.002
_PARTS = 3
# Smaller shares are added up.
_SMALLEST = 0.015


class Profile:
    """The samples of this interpreter, from `start` on."""

    def __init__(self) -> None:
        self._processes: collections.Counter[str] = collections.Counter()
        self._folders: collections.Counter[str] = collections.Counter()

    def start(self) -> None:
        """Begin."""
        signal.signal(signal.SIGPROF, self._on_signal)
        signal.setitimer(signal.ITIMER_PROF, _SECONDS, _SECONDS)

    def _on_signal(self, number: int, frame: types.FrameType | None) -> None:
        process = simulated_process.current()
        self._processes[_kind(process.name) if process is not None else "no process"] += 1
        self._folders[_folder(frame)] += 1

    def table(self) -> Iterator[str]:
        """Lines, after the end."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        for title, counts in (("processes", self._processes), ("folders", self._folders)):
            total = counts.total()
            yield f"share of {total} samples, {title}:"
            rest = 0
            for name, count in counts.most_common():
                if count < _SMALLEST * total:
                    rest += count
                else:
                    yield f"  {count / total:6.1%}  {name}"
            yield f"  {rest / max(total, 1):6.1%}  others"


def _kind(process: str) -> str:
    return process.rpartition("-")[0] or process


def _folder(frame: types.FrameType | None) -> str:
    """The folder of the innermost frame that is not a library's; of the simulation, its file."""
    while frame is not None:
        _, found, after = frame.f_code.co_filename.rpartition("/internal/")
        if found:
            return "/".join(after.split("/")[:-1][:_PARTS])
        _, found, after = frame.f_code.co_filename.rpartition("/tests/simulation/")
        if found:
            return f"tests/simulation/{after}"
        frame = frame.f_back
    return "libraries alone"
