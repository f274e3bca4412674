"""Converts statuses between domain values and messages.

A status may come from a third-party service, so decoding never fails: an unset or unknown code is that service's
mistake, and becomes an error status, which sends the pod to back-off. `messages` alone has the text that kube-scheduler
prints; `reasons` only add detail for `explain`.

Tests: tests/unit/wire/test_status.py, tests/unit/scheduling/test_waits.py.
"""

from collections.abc import Iterable

from trireme.framework import status
from trireme.v1 import status_pb2


def to_message(value: status.Status) -> status_pb2.Status:
    """Make the message of a status; always a new object, which the caller may modify."""
    message = status_pb2.Status(code=value.code.value, plugin=value.plugin, messages=value.messages)  # type: ignore[arg-type]
    for reason in value.reasons:
        message.reasons.add(code=reason.code, parameters=dict(reason.parameters))
    return message


def from_message(message: status_pb2.Status, answered_by: str = "") -> status.Status:
    """Decode a status; `answered_by` is the called plugin, for a message that names none."""
    code = _CODES.get(message.code)
    plugin = message.plugin or answered_by
    if code is None:
        return status.error(plugin, f"the answer has no known code: {message.code}")
    if code is status.Code.SUCCESS:
        return status.SUCCESS
    if code is status.Code.SKIP and not message.plugin:
        return status.SKIP
    return status.Status(code, plugin, tuple(message.messages), tuple(_reasons_from_messages(message.reasons)))


def _reasons_from_messages(messages: Iterable[status_pb2.Reason]) -> Iterable[status.Reason]:
    for message in messages:
        yield status.Reason.of(message.code, dict(message.parameters))


_CODES = {code.value: code for code in status.Code}
