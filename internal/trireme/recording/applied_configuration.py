"""Leaves the last applied configuration of objects out of recordings.

`kubectl apply` writes the whole manifest of an object into an annotation, which no decision reads, and which may have
values that nobody expects in a recording.

Tests: tests/unit/insight/test_recorder.py.
"""

from typing import Any

import orjson
from google.protobuf import message as protobuf

from trireme.v1 import decision_pb2, recording_pb2

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"

_KEY = ANNOTATION.encode()


def left_out(frame: bytes) -> bytes:
    """A serialised RecordedFrame without the annotation; most have none, and are returned as they are."""
    if _KEY not in frame:
        return frame
    message = recording_pb2.RecordedFrame.FromString(frame)
    _leave_out(message)
    return message.SerializeToString()


def _leave_out(message: protobuf.Message) -> None:
    """Leave the annotation out of a message and of those in it, in place."""
    for field, value in message.ListFields():
        if field.message_type is None:
            if field.type == field.TYPE_BYTES:
                _leave_out_of_bytes(message, field)
        elif not field.message_type.GetOptions().map_entry:
            for each in value if field.is_repeated else [value]:
                _leave_out(each)
        elif field.name == "annotations":
            value.pop(ANNOTATION, None)


def _leave_out_of_bytes(message: protobuf.Message, field: Any) -> None:
    """Leave it out of serialised decisions and of the JSON of nodes. What cannot be read stays as it is."""
    value = getattr(message, field.name)
    changed = [
        _changed(each, field.name) if _KEY in each else each for each in (value if field.is_repeated else [value])
    ]
    if field.is_repeated:
        value[:] = changed
    else:
        setattr(message, field.name, changed[0])


def _changed(content: bytes, field_name: str) -> bytes:
    """A serialised decision, or the JSON of an object, without the annotation."""
    try:
        if field_name == "decisions":
            decision = decision_pb2.Decision.FromString(content)
            _leave_out(decision)
            return decision.SerializeToString()
        document = orjson.loads(content)
        document["metadata"]["annotations"].pop(ANNOTATION, None)
        return orjson.dumps(document)
    except (protobuf.DecodeError, orjson.JSONDecodeError, LookupError, TypeError, AttributeError):
        return content
