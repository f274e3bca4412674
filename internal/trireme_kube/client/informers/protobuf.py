"""Lists, watches and objects in Kubernetes' protobuf encoding; for JSON see `decode`, `watch` and `informer`.

A page of a list is one wrapped object, whose items are extracted as bytes; a watch is a sequence of frames, each a
four-byte length and an event with a wrapped object. Our messages are subsets of Kubernetes' with the same field
numbers, so the protobuf library parses an object's bytes, in C; fields that our messages lack are dropped.

Raw objects stay bytes until a decode function takes them. Malformed bytes raise only the documented exceptions.

Also change: protos/trireme_kube/v1/encoding.proto (the messages).
"""

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from trireme_kube.apimachinery import normalization
from trireme_kube.apimachinery.field_error import FieldError
from trireme_kube.client.informers import watch
from trireme_kube.client.informers.watch import BrokenStream, RawEvent
from trireme_kube.client.rest import envelope
from trireme_kube.client.rest.envelope import BadEnvelope
from trireme_kube.client.rest.errors import ApiError
from trireme_kube.v1 import encoding_pb2

M = TypeVar("M", bound=Message)

_LENGTH_BYTES = 4


def decode_unchecked(raw: bytes, message_class: type[M]) -> M:
    """Parse an object's bytes, without checking quantities.

    Raises: FieldError.
    """
    try:
        message = message_class.FromString(raw)
    except DecodeError as error:
        raise FieldError("", f"not a {message_class.__name__} in protobuf: {error}") from error
    # Otherwise unknown fields, mostly managedFields, would be sent to every replica.
    message.DiscardUnknownFields()
    return message


def decode(raw: bytes, message_class: type[M]) -> M:
    """Decode an object's bytes, as `trireme_kube.apimachinery.decode.decode` does with JSON.

    Raises: FieldError.
    """
    message = decode_unchecked(raw, message_class)
    normalization.normalize(message)
    return message


def page_of(body: bytes) -> tuple[list[bytes], dict[str, str]]:
    """Return items and metadata of a list response.

    Raises:
      ApiError: the response is not a list.
    """
    try:
        wrapped = envelope.unwrap(body)
        page = encoding_pb2.AnyList.FromString(wrapped.raw)
    except (BadEnvelope, DecodeError) as error:
        raise ApiError(502, "", f"the answer is not a list of objects: {error}") from error
    metadata = page.metadata
    return list(page.items), {"resourceVersion": metadata.resource_version, "continue": metadata.continue_token}


class WatchEventDecoder:
    """Assembles frames from chunks and decodes them: the protobuf counterpart of `watch.LineDecoder`."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[RawEvent]:
        """Take the next bytes and return the events that they complete.

        Raises:
          BrokenStream: a frame is not an event, or too large.
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
            events.append(_decode_event(bytes(data[start:at])))
        if data is self._rest:
            del self._rest[:at]
        else:
            self._rest += data[at:]
        return events


def _decode_event(frame: bytes) -> RawEvent:
    """Decode a watch event; of an ERROR to its Status, else to the object's bytes. Raises: BrokenStream."""
    try:
        event = encoding_pb2.WatchEvent.FromString(frame)
        kind, wrapped = event.type, event.object.raw
        if kind == "ERROR":
            return {"type": kind, "object": envelope.decode_status(wrapped)}
        return {"type": kind, "object": envelope.unwrap(wrapped).raw}
    except (BadEnvelope, DecodeError) as error:
        raise BrokenStream(f"an event of the watch is not protobuf: {error}") from error
