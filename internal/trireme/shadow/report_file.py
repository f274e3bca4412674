"""Writes the report: a reader sees the old one or the new one, never a part.

Tests: tests/unit/shadow/test_report.py.
"""

import contextlib
import os
import pathlib
import tempfile

from trireme_kube.componentbase import replaceable_files


class ReportError(Exception):
    """The report cannot be written; the text names the file and the reason."""


def write(path: pathlib.Path, content: str) -> None:
    """Replace the file at once. Raises: ReportError: it cannot be written; the old file is left as it is."""
    try:
        target = replaceable_files.resolve(path)
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise ReportError(_text(path, error)) from error
    temporary = pathlib.Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), 0o644)
        temporary.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise ReportError(_text(path, error)) from error


def _text(path: pathlib.Path, error: OSError) -> str:
    return f"the report {path} cannot be written: {error.strerror or error}"
