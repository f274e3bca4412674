"""Files that their owner alone can read: recordings hold names and labels of every namespace."""

import os
import pathlib
from typing import BinaryIO


def create(path: pathlib.Path, *, buffered: bool) -> BinaryIO:
    """Make a file, with mode 0600 from the beginning, and open it for writing. Raises: FileExistsError, OSError."""
    return open(path, "xb", buffering=-1 if buffered else 0, opener=_open_private)


def _open_private(path: str, flags: int) -> int:
    """Open for the owner alone."""
    return os.open(path, flags, 0o600)
