"""Reads what a flag names: a file, or `-` for standard input.

Tests: tests/unit/cli/test_submitted_files.py.
"""

import pathlib
import sys

STANDARD_INPUT = "-"


def read(name: str) -> bytes:
    """The contents. Raises: OSError."""
    return sys.stdin.buffer.read() if name == STANDARD_INPUT else pathlib.Path(name).read_bytes()


def shown(name: str) -> str:
    """The name, as messages have it."""
    return "standard input" if name == STANDARD_INPUT else name
