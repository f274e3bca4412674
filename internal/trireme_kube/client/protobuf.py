"""Lists, watches and objects in Kubernetes' protobuf encoding; the JSON ways stand in `decode`, `watch` and `informer`.

A page of a list is one wrapped object whose items are cut out as bytes; a watch is frames of four bytes of length and
an event, whose object is wrapped by itself. An object's bytes are those of its message, a subset with
the same field numbers: parsing them is the library's work, in C, and what no message of ours has a field for is
dropped, not kept.

Raw objects stay bytes up to the function that makes something of them. Whatever the bytes, nothing is raised but what
the functions name.
"""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from trireme_kube.apimachinery import normalization
from trireme_kube.apimachinery.field_error import FieldError
from trireme_kube.client import envelope, watch
from trireme_kube.client.envelope import BadEnvelope
from trireme_kube.client.errors import ApiError
from trireme_kube.client.watch import BrokenStream, RawEvent
from trireme_kube.v1 import encoding_pb2

M = TypeVar("M", bound=Message)

_LENGTH_BYTES = 4


def read(raw: bytes, message_class: type[M]) -> M:
    """The message that an object's bytes are; its amounts are not looked at.

    Raises: FieldError.
    """
    try:
        message = message_class.FromString(raw)
    except DecodeError as error:
        raise FieldError("", f"not a {message_class.__name__} in protobuf: {error}") from error
    # Else what we have no field for, most of it who wrote which field, would go on to every replica.
    message.DiscardUnknownFields()
    return message


def decode(raw: bytes, message_class: type[M]) -> M:
    """As `trireme_kube.apimachinery.decode.decode`, from an object's bytes.

    Raises: FieldError.
    """
    message = read(raw, message_class)
    normalization.settle(message)
    return message


def page_of(body: bytes) -> tuple[list[bytes], dict[str, str]]:
    """Items and metadata of a list's answer.

    Raises:
      ApiError: it is no list.
    """
    try:
        wrapped = envelope.unwrap(body)
        listed = encoding_pb2.AnyList.FromString(wrapped.raw)
    except (BadEnvelope, DecodeError) as error:
        raise ApiError(502, "", f"the answer is not a list of objects: {error}") from error
    metadata = listed.metadata
    return list(listed.items), {"resourceVersion": metadata.resource_version, "continue": metadata.continue_token}


class FrameDecoder:
    """Assembles frames from chunks and decodes them: `watch.LineDecoder` for protobuf."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[RawEvent]:
        """Takes the next bytes and answers the events that are complete with them.

        Raises:
          BrokenStream: a frame is no event, or endless.
        """
        data: bytes | bytearray = chunk
        if self._rest:
            # Grown in place: joining at each chunk would be quadratic in the size of a frame.
            self._rest += chunk
            data = self._rest
        events: list[RawEvent] = []
        at, end = 0, len(data)
        while end - at >= _LENGTH_BYTES:
            start = at + _LENGTH_BYTES
            size = int.from_bytes(data[at:start], "big")
            if size > watch.MAX_EVENT_BYTES:
                raise BrokenStream(f"an event of the watch exceeds {watch.MAX_EVENT_BYTES} bytes")
            if end - start < size:
                break
            at = start + size
            events.append(_event(bytes(data[start:at])))
        if data is self._rest:
            del self._rest[:at]
        else:
            self._rest += data[at:]
        return events


def _event(frame: bytes) -> RawEvent:
    try:
        event = encoding_pb2.WatchEvent.FromString(frame)
        kind, wrapped = event.type, event.object.raw
        if kind == "ERROR":
            return {"type": kind, "object": envelope.status(wrapped)}
        return {"type": kind, "object": envelope.unwrap(wrapped).raw}
    except (BadEnvelope, DecodeError) as error:
        raise BrokenStream(f"an event of the watch is not protobuf: {error}") from error
