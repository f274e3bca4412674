"""The outcomes of calls beside Filter, Place and PostFilter, as lines of text (`outcomes`).

Tests: tests/unit/replay/test_decision_replay.py.
"""

from collections.abc import Sequence

from google.protobuf import message as protobuf
from google.protobuf import text_format

from trireme.replay import outcomes
from trireme.v1 import filter_pb2, filter_phase_pb2, status_pb2
from trireme.wire import status as wire_status
from trireme.wire.post_filter_result import PostFilterResult


def candidates(
    found: Sequence[filter_phase_pb2.PreemptionCandidate], answer: filter_pb2.PostFilterResponse
) -> outcomes.Outcome:
    """The nodes to choose from, in order; if there are none, PostFilter's answer."""
    if not found:
        return outcomes.post_filter([PostFilterResult.from_message(answer)])
    return tuple(f"candidate {text_format.MessageToString(each, as_one_line=True)}" for each in found)


def reservations(found: Sequence[filter_pb2.Reservation]) -> outcomes.Outcome:
    """For each pod whether Reserve succeeded, and then what is assumed beside it."""
    lines: list[str] = []
    for number, reservation in enumerate(found, start=1):
        lines += [f"pod {number}: {line}" for line in _lines(reservation, leaving_out="state")]
    return tuple(lines)


def answer(response: protobuf.Message) -> outcomes.Outcome:
    """A call's response, whatever it has: a line for each field, or for each message of a repeated one."""
    return tuple(_lines(response, leaving_out="evaluated_generation"))


def _lines(message: protobuf.Message, *, leaving_out: str) -> list[str]:
    """A line for each value of the message's fields, without one field."""
    out: list[str] = []
    for field, value in message.ListFields():
        if field.name != leaving_out:
            out += [f"{field.name} {_text(each)}" for each in (value if field.is_repeated else [value])]
    return out


def _text(value: object) -> str:
    """A value as one line; a status as the scheduler reports it."""
    if isinstance(value, status_pb2.Status):
        return outcomes.status_text(wire_status.from_message(value))
    if isinstance(value, protobuf.Message):
        return text_format.MessageToString(value, as_one_line=True)
    return str(value)
