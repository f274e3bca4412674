"""Bounds of what recorded messages may ask of a reader, who may have the recording from somebody else.

Protobuf makes some 65 bytes of each empty message or text, which takes two in a frame and a hundredth of that
compressed; and a snapshot has columns up to the highest slot and row that a delta names. Without bounds a file of a few
hundred bytes could take all memory. The scheduler's own stream is trusted, and has none of these checks.

Also change: protos/trireme/v1/snapshot.proto (numbers that become places in columns).

Tests: tests/unit/cli/test_hostile_recordings.py.
"""

from collections.abc import Iterator, Sequence

from google.protobuf import descriptor

from trireme.v1 import decision_pb2, recording_pb2, snapshot_pb2

# Messages up to this length are parsed as they are. The scheduler divides what is longer than 1 MiB, but for an object.
SHORT_MESSAGE = 4 << 20
# So many messages and texts a longer one may have: some 260 MB of memory.
MOST_PARTS = 4_000_000
# Below these, slots and rows may be as they are, for those of nodes and pods that are gone stay free; a cluster of
# 5,000 nodes has 150,000 pods at most. Beyond, no more than the recording has had entries.
FREE_SLOTS = 1 << 17
FREE_ROWS = 1 << 20
# Columns have class numbers in 32 bits, generations in 64, flags in 8.
_CLASS_LIMIT, _GENERATION_LIMIT, _FLAGS_LIMIT = 1 << 31, 1 << 63, 1 << 8

# A message in a field of bytes, parsed later.
_DECISIONS = snapshot_pb2.SyncRequest.DESCRIPTOR.fields_by_name["decisions"]
_DECISION = decision_pb2.Decision.DESCRIPTOR

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}


def check_parts(content: bytes, kind: descriptor.Descriptor = recording_pb2.RecordedFrame.DESCRIPTOR) -> None:
    """Check before it is parsed that a serialised message has not too many messages and texts. Raises: ValueError."""
    if len(content) <= SHORT_MESSAGE:
        return
    pending = [(0, len(content), kind)]
    parts = 0
    while pending:
        begin, end, kind = pending.pop()
        for number, start, length in _parts(content, begin, end):
            parts += 1
            if parts > MOST_PARTS:
                raise ValueError(f"a message of {len(content)} bytes has more than {MOST_PARTS} messages and texts")
            field = kind.fields_by_number.get(number)
            inner = None if field is None else _DECISION if field is _DECISIONS else field.message_type
            if length and inner is not None:
                pending.append((start, start + length, inner))


def _parts(content: bytes, place: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield field number, place and length of what has a length in a message; ends at what cannot be parsed."""
    while place < end:
        tag, place = _varint(content, place)
        wire_type = tag & 7
        if wire_type == _LENGTH:
            length, place = _varint(content, place)
            yield tag >> 3, place, length
            place += length
        elif wire_type == _VARINT:
            _, place = _varint(content, place)
        elif wire_type in _FIXED_BYTES:
            place += _FIXED_BYTES[wire_type]
        else:
            return


def _varint(content: bytes, place: int) -> tuple[int, int]:
    """A number and where it ends; past the end of the content it is as if zeros followed."""
    value = shift = 0
    while place < len(content):
        byte = content[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return value, place


class IndexBounds:
    """Checks the numbers in the messages of one file that become places in columns, in order."""

    def __init__(self) -> None:
        self._nodes = 0
        self._pods = 0

    def check(self, message: snapshot_pb2.SyncRequest) -> None:
        """The next message. Raises: ValueError, which names the field."""
        if b"" in message.decisions:
            raise ValueError("a decision is empty")
        if message.WhichOneof("message") != "delta":
            return
        delta = message.delta
        self._nodes += len(delta.nodes)
        slots = max(FREE_SLOTS, self._nodes)
        _check("nodes.slot", [entry.slot for entry in delta.nodes], slots)
        _check("removed_slots", delta.removed_slots, slots)
        _check("nominations.slot", [entry.slot for entry in delta.nominations], slots)
        _check("classes.id", [entry.id for entry in delta.classes], _CLASS_LIMIT)
        _check("to_generation", [delta.to_generation], _GENERATION_LIMIT)
        if delta.HasField("pods"):
            self._check_pods(delta.pods, slots)
        _check("removed_pods", delta.removed_pods, max(FREE_ROWS, self._pods))

    def _check_pods(self, pods: snapshot_pb2.PodColumns, slots: int) -> None:
        """Check columns of pods. Raises: ValueError."""
        self._pods += len(pods.row)
        columns = (pods.pod_class, pods.slot, pods.uid, pods.name, pods.start_time_s, pods.flags)
        if any(len(column) != len(pods.row) for column in columns):
            raise ValueError("the columns of pods in a delta differ in length")
        _check("pods.row", pods.row, max(FREE_ROWS, self._pods))
        _check("pods.slot", pods.slot, slots)
        _check("pods.pod_class", pods.pod_class, _CLASS_LIMIT)
        _check("pods.flags", pods.flags, _FLAGS_LIMIT)


def _check(field: str, numbers: Sequence[int], limit: int) -> None:
    """Check that all numbers of a field are below a limit. Raises: ValueError."""
    if numbers and max(numbers) >= limit:
        raise ValueError(f"{field} {max(numbers)} of a delta is beyond {limit - 1}, more than the recording can need")
