"""Golden rows: reading a file of them, and telling what they are about by their shape.

A file has one JSON object a line and may be gzipped. The four kinds have nothing in common but that, so a reader that
gets a file asks `kind_of` for each row and hands the rows on.
"""

import enum
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]

DATA = Path(__file__).parent / "data"
DECISIONS = DATA / "decisions.jsonl.gz"
# Decisions with feature gates that are not at their default.
GATES = DATA / "decisions-gates.jsonl.gz"
HINTS = DATA / "hints.jsonl.gz"
# Decisions about situations that random ones led to; small, and named by what they are about.
FOUND = DATA / "found.jsonl"


_NUMBERS = re.compile(r"(-\d+)*$")


class RowKind(enum.StrEnum):
    """What a row is about."""

    DECISION = "decisions"
    HINT = "hints"
    #: Configuration files and flags: the suite in config/ reads those.
    CONFIGURATION = "config"


class GoldenFileError(ValueError):
    """The file cannot be read as golden rows; the text names the file and the line."""


def read(path: Path) -> Iterator[Row]:
    """The rows of a file. Raises: GoldenFileError."""
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
    except (OSError, EOFError) as error:
        raise GoldenFileError(f"{path}: {error}") from error
    for number, line in enumerate(content.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise GoldenFileError(f"{path}:{number}: {error}") from error
        if not isinstance(row, dict):
            raise GoldenFileError(f"{path}:{number}: a row must be an object")
        yield row


def kind_of(row: Row) -> RowKind:
    """What the row is about."""
    case = row.get("case")
    if isinstance(case, dict) and "nodes" in case and "pod" in case and "plugin" not in case:
        return RowKind.DECISION
    if isinstance(case, dict) and "plugin" in case:
        return RowKind.HINT
    return RowKind.CONFIGURATION


def category_of(row: Row) -> str:
    """The category that a decision's name begins with; of one with feature gates, all of the name but its numbers."""
    name = str(row["name"])
    return _NUMBERS.sub("", name) if name.startswith("gate-") else name.partition("-")[0]
