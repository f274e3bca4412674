"""What happened in a simulation, line by line; its SHA-256 tells whether two runs were the same.

A trace that was written to a file begins with a line that says which run it is of and where it ran; `read` and a
`Comparison` find out where a second run differs from it.
"""

from __future__ import annotations

import collections
import hashlib
import platform
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from typing import Any, TextIO

from tests.simulation import simulation_timeline
from tests.simulation.simulation_plan import Options
from tests.simulation.simulation_timeline import Timeline
from trireme_kube.embedded.api.resources import Resource
from trireme_kube.embedded.storage.store import Event

_FORMAT = "trireme simulation 1"
# Equal lines that are shown before a difference.
_LINES_BEFORE = 10
# The versions of these may make a difference.
_PACKAGES = ("aiohttp", "grpcio", "numpy", "orjson", "protobuf")


class Comparison:
    """Compares lines with those of an earlier run."""

    def __init__(self, expected: Iterable[str]) -> None:
        self._expected: Iterator[str] = iter(expected)
        self._last: collections.deque[str] = collections.deque(maxlen=_LINES_BEFORE)
        self.equal_lines = 0
        #: The first difference, with the lines before it; empty while there is none.
        self.difference = ""
        #: There are no further lines to compare with.
        self.ended = False

    def compare(self, line: str) -> None:
        """Take the next line of this run."""
        if self.difference or self.ended:
            return
        expected = next(self._expected, None)
        if expected is None:
            self.ended = True
        elif expected == line:
            self.equal_lines += 1
            self._last.append(line)
        else:
            self._differ(f"- {expected}", f"+ {line}")

    def finish(self) -> None:
        """This run has no further line."""
        expected = None if self.difference or self.ended else next(self._expected, None)
        if expected is not None:
            self._differ(f"- {expected}", "+ (the end)")

    def _differ(self, *lines: str) -> None:
        self.difference = "\n".join([*(f"  {line}" for line in self._last), *lines])


class Trace:
    """Takes lines; each gets the time in front. The `timeline` gets what a reader needs of them."""

    def __init__(
        self, now: Callable[[], float], file: TextIO | None = None, comparison: Comparison | None = None
    ) -> None:
        """`file` gets every line."""
        self._now = now
        self._file = file
        self._hash = hashlib.sha256()
        self.comparison = comparison
        self.timeline = Timeline(now)

    def note(self, text: str) -> None:
        """Add a line that counts for the hash."""
        self._add(text)
        self.timeline.add(text, general=True)

    def on_write(self, resource: Resource, event: Event) -> None:
        """A write at the API server."""
        record = event.record
        spec: dict[str, Any] = record.object.get("spec") or {}
        about = spec.get("nodeName") or spec.get("holderIdentity") or ""
        checksum = zlib.crc32(record.json())
        self._add(
            f"{event.type} {resource.key} {record.namespace}/{record.name} {record.revision} {about} {checksum:08x}"
        )
        for text in simulation_timeline.changes(resource, event):
            self.timeline.add(text)

    def _add(self, text: str) -> None:
        line = f"{self._now():.6f} {text}"
        self._hash.update(line.encode() + b"\n")
        if self._file is not None:
            self._file.write(line + "\n")
        if self.comparison is not None:
            self.comparison.compare(line)

    def sha256(self) -> str:
        """The hash of all lines."""
        return self._hash.hexdigest()


def header(options: Options) -> str:
    """The first line of a file with a trace."""
    return f"# {_FORMAT}\t{options.to_json()}\t{environment()}"


def environment() -> str:
    """Where this run takes place."""
    packages = " ".join(f"{name} {metadata.version(name)}" for name in _PACKAGES)
    return f"Python {platform.python_version()} on {sys.platform} {platform.machine()}, {packages}"


def read(file: TextIO) -> tuple[Options, str]:
    """The first line of a trace: which run it is of, and where that ran. Raises: ValueError."""
    parts = file.readline().rstrip("\n").split("\t")
    if len(parts) != 3 or parts[0] != f"# {_FORMAT}":
        raise ValueError(f"{file.name} is no trace of a simulation, or one of another version")
    return Options.from_json(parts[1]), parts[2]
