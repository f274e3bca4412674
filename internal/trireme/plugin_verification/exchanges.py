"""One call of the verification to a plugin, and what came back.

Tests: tests/unit/cli/test_plugin_command.py.
"""

from dataclasses import dataclass

import grpc
from google.protobuf import text_format
from google.protobuf.message import Message

from trireme.plugin_verification import rpcs

SHOWN_CHARACTERS = 400
"""Longer requests and answers are cut where they are shown."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A gRPC error. `reason` is `trireme-reason` of its trailing metadata; empty: none."""

    code: grpc.StatusCode
    details: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.code.name}{f' ({self.reason})' if self.reason else ''}: {self.details}".rstrip(": ")


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request, and the response or the failure. A stream's responses are joined to one."""

    rpc: rpcs.Rpc
    request: Message
    response: Message | None
    failure: Failure | None
    seconds: float = 0.0

    def request_text(self) -> str:
        """The request on one line, shortened."""
        return f"{self.rpc.name}{{{shorten(self.request)}}}"

    def answer_text(self) -> str:
        """The response, or the failure, on one line, shortened."""
        if self.response is None:
            return str(self.failure)
        return f"{self.rpc.response.DESCRIPTOR.name}{{{shorten(self.response)}}}"


def shorten(message: Message) -> str:
    """The message on one line, of at most SHOWN_CHARACTERS."""
    # Most of a long message would be thrown away after it was formatted.
    if message.ByteSize() > 100 * SHOWN_CHARACTERS:
        return f"{message.ByteSize()} bytes"
    text = " ".join(text_format.MessageToString(message, as_one_line=True, as_utf8=True).split())
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"
