"""Findings of the migration check."""

import enum
from dataclasses import dataclass


class FindingKind(enum.Enum):
    """What a finding means for the migration; the value is its name in reports."""

    CARRIES_OVER = "carries over"
    DIFFERS = "differs"
    UNKNOWN = "not visible"
    NEXT = "next step"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: `subject` is the flag, gate or field, `text` a sentence about it.

    `refused`: the frontend does not start with it, so that no step of the migration is possible before it is changed.
    """

    kind: FindingKind
    subject: str
    text: str
    refused: bool = False
