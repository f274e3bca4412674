"""Statuses on the wire and in the program.

A status arrives from services that we did not write, so reading one never fails: a code that is unset or unknown is a
fault of the service that answered, and becomes the error status that sends the pod to the back-off of errors. What
kube-scheduler would have printed travels in `messages` alone; `reasons` only ever add to what `explain` can say.
"""

from collections.abc import Iterable

from trireme.framework import status
from trireme.v1 import status_pb2


def to_message(value: status.Status) -> status_pb2.Status:
    """The message of a status. Never the same object twice: the caller may put it anywhere."""
    message = status_pb2.Status(code=value.code.value, plugin=value.plugin, messages=value.messages)  # type: ignore[arg-type]
    for reason in value.reasons:
        message.reasons.add(code=reason.code, parameters=dict(reason.parameters))
    return message


def from_message(message: status_pb2.Status, answered_by: str = "") -> status.Status:
    """The status that a message states; `answered_by` is the plugin that was asked, for an answer that names none."""
    code = _CODES.get(message.code)
    plugin = message.plugin or answered_by
    if code is None:
        return status.error(plugin, f"the answer has no known code: {message.code}")
    if code is status.Code.SUCCESS:
        return status.SUCCESS
    if code is status.Code.SKIP and not message.plugin:
        return status.SKIP
    return status.Status(code, plugin, tuple(message.messages), tuple(_reasons(message.reasons)))


def _reasons(messages: Iterable[status_pb2.Reason]) -> Iterable[status.Reason]:
    for message in messages:
        yield status.Reason.of(message.code, dict(message.parameters))


_CODES = {code.value: code for code in status.Code}
