"""What a service prints, and what other libraries print into its log: neither may harm it.

A log on a full disk, or a pipe that nobody reads any more, must not end a scheduler: like kube-scheduler it loses the
lines and works on. Imports nothing heavy: programs call this before they import their own modules.
"""

import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_FORMAT_FLAG = "--logging-format"


class _LossyFile(io.FileIO):
    """A file whose failed writes are lost without an error."""

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write the data; claim that all of it was written, whatever happened."""
        try:
            written = super().write(data)
        except OSError:
            return memoryview(data).nbytes
        # None, against the declared type: the file does not block, and is full.
        return memoryview(data).nbytes if written is None else written


def ignore_failed_writes() -> None:
    """Lose what cannot be written to stdout and stderr from now on, also when Python flushes them at exit."""
    if sys.stdout is not None:
        sys.stdout = _with_lossy_file(sys.stdout)
    if sys.stderr is not None:
        sys.stderr = _with_lossy_file(sys.stderr)


def _with_lossy_file(stream: TextIO) -> TextIO:
    """Return a stream over the same file that loses failed writes; one without a file is returned as it is."""
    try:
        descriptor = stream.fileno()
    except OSError:
        return stream  # no file: the caller who put it there decides what becomes of the output
    file = io.BufferedWriter(_LossyFile(descriptor, "w", closefd=False))
    # By line: several processes may share a log.
    return io.TextIOWrapper(file, stream.encoding, stream.errors, line_buffering=True)


def silence_grpc_core(arguments: Sequence[str]) -> None:
    """Keep the plain text of gRPC's core out of a log of JSON: call it before anything imports gRPC.

    The core reads its settings from the environment while it is loaded, long before the flags are parsed. Processes
    started by this one inherit them.
    """
    chosen = ""
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        flag, assigned, value = argument.partition("=")
        if flag == _FORMAT_FLAG:
            chosen = value if assigned else following
    if chosen == "json":
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
