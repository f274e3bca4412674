"""The sentences of the contract that state what is verified."""

from dataclasses import dataclass

PROTOCOL = "docs/protocol.md"
"""The source of a sentence that is not a comment of the protos."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of the contract. `source` is the element of the protos whose comment has it, or PROTOCOL."""

    source: str
    text: str
