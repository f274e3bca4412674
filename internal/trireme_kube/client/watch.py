"""Turns the bytes of a watch into events, and names the events that consumers get.

A watch in JSON answers one object a line, and the network cuts lines anywhere. `LineDecoder` puts them together again;
it is pure, keeps at most one unfinished line, and refuses one that no API object can be. `protobuf.FrameDecoder` is its
like for the other encoding.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import orjson
from google.protobuf.message import DecodeError

from trireme_kube.v1 import encoding_pb2

T_co = TypeVar("T_co", covariant=True)

# etcd refuses objects over 1.5 MiB; as JSON in an event such a one may take a few times that.
MAX_EVENT_BYTES = 32 << 20

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends the objects with which a watch began."""

Raw = Mapping[str, Any] | bytes
"""An object as the API server sent it: parsed JSON, or its own bytes in protobuf."""
RawEvent = dict[str, Any]
"""`type`, and `object`: a Raw. With type ERROR it is a Status as in JSON, whatever the encoding."""


class EventKind(enum.IntEnum):
    """What happened. The three kinds of a list come in order: one LIST_START, any number of LISTED, one LIST_END.

    At LIST_END all objects that were not LISTED since the last LIST_START do not exist any more; the consumer, which
    has the keys, drops them. A LIST_START may come again before LIST_END: the list had to be started over.
    """

    LIST_START = 0
    LISTED = 1
    LIST_END = 2
    ADDED = 3
    MODIFIED = 4
    DELETED = 5


class Event(NamedTuple, Generic[T_co]):
    """One event of a watch.

    `object` is what `decode` made of the raw object (None with LIST_START and LIST_END); with DELETED it is its last
    state.
    """

    kind: EventKind
    object: T_co | None


KINDS = {"ADDED": EventKind.ADDED, "MODIFIED": EventKind.MODIFIED, "DELETED": EventKind.DELETED}


class BrokenStream(Exception):
    """What comes is not a watch; the connection is of no more use."""


class LineDecoder:
    """Assembles lines from chunks and decodes them."""

    __slots__ = ("_parts", "_size")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[RawEvent]:
        """Takes the next bytes and answers the events that are complete with them.

        Raises:
          BrokenStream: a line is no JSON object, or endless.
        """
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines and self._parts:
            self._parts.append(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts.clear()
            self._size = 0
        events = [_decode(line) for line in lines if line and not line.isspace()]
        if rest:
            # Kept in parts: joining at each chunk would be quadratic in the size of a line.
            self._parts.append(rest)
            self._size += len(rest)
            if self._size > MAX_EVENT_BYTES:
                raise BrokenStream(f"an event of the watch exceeds {MAX_EVENT_BYTES} bytes")
        return events


def version_of(raw: Raw) -> int:
    """The object's resourceVersion; 0 if it has none, or one that is no number.

    Kubernetes' own API server counts them up, and since 1.35 clients may compare them.
    """
    try:
        if isinstance(raw, bytes):
            return int(encoding_pb2.AnyObject.FromString(raw).metadata.resource_version)
        return int(raw["metadata"]["resourceVersion"])
    except (KeyError, TypeError, ValueError, DecodeError):
        return 0


def ends_initial_events(bookmark: Raw) -> bool:
    """Whether all objects that the watch was to begin with were sent before this bookmark."""
    annotations: Any
    if isinstance(bookmark, bytes):
        try:
            annotations = encoding_pb2.BookmarkObject.FromString(bookmark).metadata.annotations
        except DecodeError:
            return False
    else:
        annotations = (bookmark.get("metadata") or {}).get("annotations") or {}
    return bool(annotations.get(INITIAL_EVENTS_END) == "true")


def metadata_of(raw: Raw) -> Mapping[str, Any]:
    """Who an object is, for a report: of one that cannot be decoded as what it should be."""
    if isinstance(raw, bytes):
        try:
            metadata = encoding_pb2.AnyObject.FromString(raw).metadata
        except DecodeError:
            return {}
        return {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
        }
    metadata_field = raw.get("metadata")
    return metadata_field if isinstance(metadata_field, dict) else {}


def _decode(line: bytes) -> RawEvent:
    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BrokenStream(f"an event of the watch is not JSON: {error}") from error
    if not isinstance(event, dict) or not isinstance(event.get("object"), dict):
        raise BrokenStream(f"an event of the watch has no object: {line[:80]!r}")
    return event
