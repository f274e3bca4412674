"""Decodes the bytes of a JSON watch into events, and defines the events that consumers get.

A JSON watch sends one object per line, and network chunks end anywhere in a line. `LineDecoder` reassembles lines; it
is pure, buffers at most one incomplete line, and rejects a line longer than any API object.
`protobuf.WatchEventDecoder` is its protobuf counterpart.

Also change: internal/trireme_kube/embedded/endpoints/reads.py (the annotation of the last initial event).

Tests: tests/unit/client/informers/test_watch.py, tests/unit/client/informers/test_protobuf.py,
tests/contract/test_kube_informer.py.
"""

import enum
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import orjson
from google.protobuf.message import DecodeError

from trireme_kube.apimachinery import resource_versions
from trireme_kube.v1 import encoding_pb2

T_co = TypeVar("T_co", covariant=True)

# etcd refuses objects over 1.5 MiB; as JSON in an event, one may take a few times that.
MAX_EVENT_BYTES = 32 << 20

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends the initial objects of a streaming list."""

Raw = Mapping[str, Any] | bytes
"""An object as the API server sent it: parsed JSON, or its own bytes in protobuf."""
RawEvent = dict[str, Any]
"""`type`, and `object`: a Raw. With type ERROR it is a Status as in JSON, whatever the encoding."""


class EventKind(enum.IntEnum):
    """The kind of an event. Those of a list come in order: one LIST_START, any number of LISTED, one LIST_END.

    At LIST_END, objects that were not LISTED since the last LIST_START no longer exist; the consumer, which
    has the keys, drops them. LIST_START may come again before LIST_END: the list was restarted.
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
    """The stream is not a valid watch; the connection is unusable."""


class LineDecoder:
    """Assembles lines from chunks and decodes them."""

    __slots__ = ("_parts", "_size")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[RawEvent]:
        """Take the next bytes and return the events that they complete.

        Raises:
          BrokenStream: a line is not a JSON object, or too long.
        """
        lines = chunk.split(b"\n")
        rest = lines.pop()
        if lines and self._parts:
            self._parts.append(lines[0])
            lines[0] = b"".join(self._parts)
            self._parts.clear()
            self._size = 0
        events = [_decode_event(line) for line in lines if line and not line.isspace()]
        if rest:
            # Joined only once complete: joining at each chunk would be quadratic in the size of a line.
            self._parts.append(rest)
            self._size += len(rest)
            if self._size > MAX_EVENT_BYTES:
                raise BrokenStream(f"an event of the watch exceeds {MAX_EVENT_BYTES} bytes")
        return events


def version_of(raw: Raw) -> int:
    """The object's resourceVersion; 0 if it is missing or not a number.

    Kubernetes' API server increments them, and since 1.35 clients may compare them.
    """
    try:
        if isinstance(raw, bytes):
            version = encoding_pb2.AnyObject.FromString(raw).metadata.resource_version
        else:
            version = str(raw["metadata"]["resourceVersion"])
    except (KeyError, TypeError, DecodeError):
        return 0
    return resource_versions.number_of(version) or 0


def ends_initial_events(bookmark: Raw) -> bool:
    """Whether this bookmark ends the initial objects of a streaming list."""
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
    """Read name, namespace, UID and version of an object that cannot be decoded, for a log line."""
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


def _decode_event(line: bytes) -> RawEvent:
    """Decode a watch event. Raises: BrokenStream if it is not JSON, or has no object."""
    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BrokenStream(f"an event of the watch is not JSON: {error}") from error
    if not isinstance(event, dict) or not isinstance(event.get("object"), dict):
        raise BrokenStream(f"an event of the watch has no object: {line[:80]!r}")
    return event
