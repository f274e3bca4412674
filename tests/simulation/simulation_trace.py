"""What happened in a simulation, line by line; its SHA-256 tells whether two runs were the same."""

import collections
import hashlib
import zlib
from collections.abc import Callable
from typing import Any, TextIO

from trireme_kube.embedded.api.resources import Resource
from trireme_kube.embedded.storage.store import Event

# Lines that a failure shows.
TIMELINE_LINES = 80


class Trace:
    """Takes lines; each gets the time in front."""

    def __init__(self, now: Callable[[], float], file: TextIO | None = None) -> None:
        """`file` gets every line."""
        self._now = now
        self._file = file
        self._hash = hashlib.sha256()
        self._last: collections.deque[str] = collections.deque(maxlen=TIMELINE_LINES)

    def note(self, text: str) -> None:
        """Add a line that counts for the hash."""
        line = f"{self._now():.6f} {text}"
        self._hash.update(line.encode() + b"\n")
        self._last.append(line)
        if self._file is not None:
            self._file.write(line + "\n")

    def remark(self, text: str) -> None:
        """Add a line to the timeline only, such as one of the product's log."""
        self._last.append(f"{self._now():.6f}   {text}")

    def on_write(self, resource: Resource, event: Event) -> None:
        """A write at the API server."""
        record = event.record
        spec: dict[str, Any] = record.object.get("spec") or {}
        about = spec.get("nodeName") or spec.get("holderIdentity") or ""
        checksum = zlib.crc32(record.json())
        self.note(
            f"{event.type} {resource.key} {record.namespace}/{record.name} {record.revision} {about} {checksum:08x}"
        )

    def timeline(self) -> str:
        """The last lines."""
        return "\n".join(self._last)

    def sha256(self) -> str:
        """The hash of all lines."""
        return self._hash.hexdigest()
