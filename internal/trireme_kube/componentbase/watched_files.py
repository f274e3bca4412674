"""Files whose contents may change: whether they did, and a hash of what they contain.

A ConfigMap that is mounted is replaced by moving a symbolic link, which changes neither the path nor the time of the
link that the path names. So files are compared by what the path leads to, and then by their contents.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

Identity = tuple[tuple[int, ...], ...]
"""Device, inode, time of the last change and size of each file; all 0 for one that cannot be read."""


@dataclass(frozen=True, slots=True)
class WatchedFiles:
    """The files, by path."""

    paths: Sequence[str]

    def identity(self) -> Identity:
        """What changes when a file is replaced or written; reads no contents."""
        return tuple(_read_identity(path) for path in self.paths)

    def hash_content(self) -> str:
        """Read and hash all contents: 16 hexadecimal digits; a file that cannot be read counts as none."""
        digest = hashlib.sha256()
        for path in self.paths:
            try:
                content = Path(path).read_bytes()
                digest.update(b"%d:" % len(content) + content)
            except OSError:
                digest.update(b"-:")
        return digest.hexdigest()[:16]


def _read_identity(path: str) -> tuple[int, ...]:
    """The identity of one file."""
    try:
        found = Path(path).stat()
    except OSError:
        return 0, 0, 0, 0
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
