"""Recordings with right checksums that ask for more than a recording can need: one line says so, and where."""

import pathlib
from collections.abc import Sequence
from typing import Any

import pytest

from tests.helpers.recordings import delta_frame, end_frame, header, state_frame
from trireme.cli import main
from trireme.recording import message_bounds, segment_folder, segment_format
from trireme.v1 import core_pb2, decision_pb2, recording_pb2, snapshot_pb2

NODE = core_pb2.Node(metadata={"name": "n0"})
POD = {"row": [0], "pod_class": [1], "slot": [0], "uid": ["u"], "name": ["p"], "start_time_s": [0], "flags": [0]}


def pods(**columns: Sequence[int]) -> snapshot_pb2.Delta:
    """A pod on a node, with other columns."""
    delta = snapshot_pb2.Delta(nodes=[snapshot_pb2.NodeEntry(slot=0, node=NODE)], classes=[{"id": 1}])
    delta.pods.CopyFrom(snapshot_pb2.PodColumns(**{**POD, **columns}))  # type: ignore[arg-type]  # columns of texts too
    return delta


def length_of(number: int) -> bytes:
    """A number as protobuf has it."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, content: bytes) -> bytes:
    """A field with a length."""
    return bytes([number << 3 | 2]) + length_of(len(content)) + content


def many(path: Sequence[str], count: int) -> bytes:
    """A frame with so many empty entries at the end of a path of fields."""
    kind, numbers = recording_pb2.RecordedFrame.DESCRIPTOR, []
    for name in path:
        found = kind.fields_by_name[name]
        numbers.append(found.number)
        kind = decision_pb2.Decision.DESCRIPTOR if name == "decisions" else found.message_type
    content = bytes([numbers.pop() << 3 | 2, 0]) * count
    for number in reversed(numbers):
        content = field(number, content)
    return content


_DELTA = snapshot_pb2.Delta.DESCRIPTOR

EMPTY = {
    # Paths of fields from a frame to what is empty.
    "queue": ("message", "queue", "pods"),
    "decisions": ("message", "decisions"),
    "nodes-of-a-decision": ("message", "decisions", "filter", "refusals"),
}


DELTAS: dict[str, tuple[snapshot_pb2.Delta, str]] = {
    "slot": (snapshot_pb2.Delta(nodes=[snapshot_pb2.NodeEntry(slot=2**28, node=NODE)]), "nodes.slot 268435456"),
    "slot-of-31-bits": (snapshot_pb2.Delta(nodes=[snapshot_pb2.NodeEntry(slot=2**31 - 1, node=NODE)]), "nodes.slot"),
    "removed-slot": (snapshot_pb2.Delta(removed_slots=[2**32 - 1]), "removed_slots"),
    "class": (snapshot_pb2.Delta(classes=[snapshot_pb2.PodClass(id=2**32 - 1)]), "classes.id"),
    "row": (pods(row=[2**31]), "pods.row"),
    "pod-slot": (pods(slot=[2**32 - 1]), "pods.slot"),
    "pod-class": (pods(pod_class=[2**32 - 1]), "pods.pod_class"),
    "flags": (pods(flags=[256]), "pods.flags"),
    "lengths": (pods(flags=[]), "differ in length"),
    "removed-row": (snapshot_pb2.Delta(removed_pods=[2**32 - 1]), "removed_pods"),
    "nomination": (snapshot_pb2.Delta(nominations=[snapshot_pb2.Nomination(slot=2**32 - 1)]), "nominations.slot"),
}


def recording(folder: pathlib.Path, messages: Sequence[bytes]) -> tuple[pathlib.Path, int]:
    """A segment with a full state and these frames, and where the last of them begins."""
    head = header(segment=1)
    head.hello.configuration.SetInParent()
    content = segment_format.encode_header(head)
    encoder = segment_format.FrameEncoder(content)
    content += encoder.encode(state_frame(1).SerializeToString())
    offset = len(content)
    for message in messages:
        offset = len(content)
        content += encoder.encode(message)
    path = folder / segment_folder.file_name(1)
    path.write_bytes(content + encoder.encode(end_frame().SerializeToString()))
    return path, offset


def check_refusal(path: pathlib.Path, offset: int, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command that reads recordings says it in one line."""
    export = ["record", "export", "--dir", str(path.parent), str(path.parent / "out")]
    for command in (
        ["record", "check", str(path)],
        ["replay", str(path)],
        ["replay", str(path), "explain", "a/b"],
        ["replay", str(path), "--serve"],
        export,
    ):
        code = main.main(command)
        (line,) = [each for each in capsys.readouterr().err.splitlines() if str(path) in each]
        assert f"{path}: byte {offset}: " in line, command
        assert text in line, command
        # An export has what is before the damage, and says so.
        assert code == (0 if command is export else 1), command


@pytest.mark.parametrize("name", DELTAS)
def test_numbers_that_no_recording_can_need_are_refused(
    name: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of 160 bytes took all memory, or ended in a traceback."""
    delta, text = DELTAS[name]
    frame = delta_frame(2)
    frame.message.delta.MergeFrom(delta)
    path, offset = recording(tmp_path, [frame.SerializeToString()])
    check_refusal(path, offset, text, capsys)


@pytest.mark.parametrize("path", EMPTY.values(), ids=EMPTY.keys())
def test_a_frame_of_very_many_empty_entries_is_refused_before_it_is_parsed(
    path: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frame that takes 36 KB in a file took 500 MB of memory, one of 500 KB took 4 GB."""
    monkeypatch.setattr(message_bounds, "SHORT_MESSAGE", 1000)
    monkeypatch.setattr(message_bounds, "MOST_PARTS", 1000)
    message_bounds.check_parts(many(path, 900))
    with pytest.raises(ValueError, match="has more than 1000 messages and texts"):
        message_bounds.check_parts(many(path, 1000))


def test_a_long_frame_with_few_entries_is_read() -> None:
    """One object may be longer than all that the scheduler sends at once."""
    frame = delta_frame(2, padding="x" * (message_bounds.SHORT_MESSAGE + 1))
    message_bounds.check_parts(frame.SerializeToString())


def test_a_decision_without_anything_is_refused(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Millions of them fit in a frame, and each is decided again."""
    frame = delta_frame(2)
    frame.message.decisions.append(b"")
    path, offset = recording(tmp_path, [frame.SerializeToString()])
    check_refusal(path, offset, "a decision is empty", capsys)


_PARTS = ("classes", "nodes", "pods", "nominations")
_NUMBERS = [
    (part, field.name)
    for part in ("", *_PARTS)
    for field in (_DELTA.fields_by_name[part].message_type if part else _DELTA).fields
    if field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_INT64, field.CPPTYPE_UINT32, field.CPPTYPE_UINT64)
]
#: Numbers that make no column longer: versions and times, and keys of dictionaries.
_UNBOUNDED = {("", "from_generation"), ("", "removed_classes"), ("nominations", "pod_class"), ("pods", "start_time_s")}


@pytest.mark.parametrize(("part", "name"), _NUMBERS)
def test_each_number_of_a_delta_has_a_bound_unless_it_needs_none(part: str, name: str) -> None:
    """If a new field fails: bound it in recording/message_bounds.py, or add it to `_UNBOUNDED`."""
    delta: Any = pods()
    message = delta if not part else delta.pods if part == "pods" else getattr(delta, part).add()
    found = message.DESCRIPTOR.fields_by_name[name]
    bits = 32 if found.cpp_type in (found.CPPTYPE_INT32, found.CPPTYPE_UINT32) else 64
    largest = 2**bits - 1 if found.cpp_type in (found.CPPTYPE_UINT32, found.CPPTYPE_UINT64) else 2 ** (bits - 1) - 1
    if found.is_repeated:
        getattr(message, name)[:] = [largest]
    else:
        setattr(message, name, largest)
    refused = False
    try:
        message_bounds.IndexBounds().check(snapshot_pb2.SyncRequest(delta=delta))
    except ValueError as error:
        refused = f"{largest} of a delta is beyond" in str(error)
    assert refused is ((part, name) not in _UNBOUNDED)


def test_nodes_and_pods_may_have_free_numbers_below_theirs() -> None:
    """The highest slot is that of the most nodes that there were; a full state has those of now alone."""
    delta = pods(row=[message_bounds.FREE_ROWS - 1], slot=[message_bounds.FREE_SLOTS - 1])
    delta.nodes[0].slot = message_bounds.FREE_SLOTS - 1
    message_bounds.IndexBounds().check(snapshot_pb2.SyncRequest(delta=delta))


@pytest.mark.parametrize("error", [MemoryError(), OverflowError("too large"), IndexError("out of range")])
def test_what_fails_in_using_a_frame_names_its_byte(
    error: Exception, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such errors were tracebacks."""

    def fail(*_: object) -> None:
        raise error

    path, offset = recording(tmp_path, [delta_frame(2).SerializeToString()])
    monkeypatch.setattr("trireme.replay.decision_replay.DecisionReplay._apply", fail)
    assert main.main(["replay", str(path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    # It fails at the first frame, the state.
    assert line.startswith(f"Error: {path}: byte ")
    assert f"byte {offset}:" not in line
