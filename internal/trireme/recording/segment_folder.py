"""The segments in a folder: their names, sizes and ages.

Also change: docs/recording.md.
"""

import dataclasses
import itertools
import os
import pathlib
import re
import stat
from collections.abc import Sequence

from trireme.recording import segment_reader

# Numbers have ten digits, and more where they need them.
_NAME = re.compile(r"recording-(\d{10}|[1-9]\d{10,18})\.trireme", re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True)
class Segment:
    """A file of a recording. Units: start in nanoseconds since 1970."""

    number: int
    path: pathlib.Path
    size: int
    start_ns: int


def file_name(number: int) -> str:
    """The name of the segment of this number."""
    return f"recording-{number:010}.trireme"


def find_next_number(folder: pathlib.Path, after: int) -> int | None:
    """Find the lowest number of a segment above `after`; None: there is none. Raises: OSError."""
    named = ((path, _NAME.fullmatch(path.name)) for path in folder.iterdir())
    later = ((path, int(match[1])) for path, match in named if match is not None and int(match[1]) > after)
    return min((number for path, number in later if _regular_status(path) is not None), default=None)


def list_segments(folder: pathlib.Path) -> Sequence[Segment]:
    """List the segments in the folder, oldest first; other files are left out.

    One whose header cannot be read is as old as its file. Raises: OSError where the folder cannot be read.
    """
    found = []
    for path in folder.iterdir():
        match = _NAME.fullmatch(path.name)
        if match is None:
            continue
        status = _regular_status(path)
        if status is not None:
            found.append(Segment(int(match[1]), path, status.st_size, _start_ns(path, status.st_mtime_ns)))
    return sorted(found, key=lambda segment: segment.number)


def _regular_status(path: pathlib.Path) -> os.stat_result | None:
    """The status of a file; None: its writer has deleted it, or it is a folder, a link, or would hold up a reader."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def describe_inner_folders(folder: pathlib.Path) -> str:
    """Say where in the folder there are recordings, behind an error: each process has a folder of its own there.

    Empty: nowhere. Raises: OSError.
    """
    inner = [path for path in sorted(folder.iterdir()) if path.is_dir() and list_segments(path)]
    return f"; there are recordings in {', '.join(map(str, inner))}" if inner else ""


def _start_ns(path: pathlib.Path, otherwise: int) -> int:
    """When the segment began; `otherwise` if its header cannot be read."""
    try:
        header = segment_reader.read_header(path)
    except (segment_reader.RecordingError, OSError):
        return otherwise
    return otherwise if header is None else header.start_unix_ns


def first_reaching(segments: Sequence[Segment], since_ns: int) -> int:
    """The place of the first segment that may have something from that time or later; 0 where there is none.

    A segment ends where the next one begins. Where the clock was set back in it, nothing says until when it reaches.
    """
    for place, (segment, following) in enumerate(itertools.pairwise(segments)):
        if following.start_ns > since_ns or following.start_ns < segment.start_ns:
            return place
    return max(len(segments) - 1, 0)
