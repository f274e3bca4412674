"""Recorder: what insight receives is in its recordings, and nothing that happens to them reaches insight."""

import argparse
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from tests.helpers import phase_calls
from tests.helpers.phase_calls import configuration, context
from tests.helpers.recordings import BEGIN, SECOND, read
from tests.helpers.snapshot_views import node_of, pod_of, view
from trireme.insight import flags, observed_cluster, process, recorder, service
from trireme.recording import applied_configuration, segment_folder, segment_writer, verification
from trireme.snapshot import snapshot
from trireme.v1 import cycle_pb2, decision_pb2, filter_pb2, recorded_call_pb2, recording_pb2, snapshot_pb2
from trireme_kube.componentbase import supervision
from trireme_kube.componentbase.cli import arguments

MIB = 1 << 20
HELLO = snapshot_pb2.Hello(fence=cycle_pb2.Fence(epoch=4), config_hash=5, configuration=configuration((), ()))


class Clocks:
    """The wall clock and the steady one, which advance together."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now_ns(self) -> int:
        return BEGIN + int(self.seconds * SECOND)

    def steady(self) -> float:
        return self.seconds


class Recorded:
    """A cluster that is recorded; the thread's work is done when the test says so."""

    def __init__(self, folder: pathlib.Path, buffer_bytes: int = MIB, size_bytes: int = MIB) -> None:
        self.folder = folder
        self.clocks = Clocks()
        self.cluster = observed_cluster.ObservedCluster(snapshot.Snapshot())
        self.cluster.snap.store_node_objects(messages=True, json=True)
        limits = segment_writer.Limits(size_bytes, 8 * 3600)
        self.writer = segment_writer.RecordingWriter(folder, limits, self.clocks.steady)
        self.recorder = recorder.Recorder(
            self.cluster,
            self.writer,
            "i",
            buffer_bytes=buffer_bytes,
            now_ns=self.clocks.now_ns,
            steady=self.clocks.steady,
        )

    def hello(self) -> None:
        self.recorder.record(snapshot_pb2.SyncRequest(hello=HELLO))

    def delta(self, **fields: Any) -> None:
        """A delta to the next generation, or `reset`."""
        generation = 0 if fields.get("reset") else self.cluster.generation
        delta = snapshot_pb2.Delta(from_generation=generation, to_generation=generation + 1, **fields)
        self.cluster.apply(delta)
        self.recorder.record(snapshot_pb2.SyncRequest(delta=delta))

    def queue(self, *names: str, reset: bool = False) -> None:
        pods = [snapshot_pb2.QueuedPod(pod=cycle_pb2.PodIdentity(name=name, uid=name)) for name in names]
        delta = snapshot_pb2.QueueDelta(reset=reset, pods=pods)
        self.cluster.apply_queue(delta)
        self.recorder.record(snapshot_pb2.SyncRequest(queue=delta))

    def start(self) -> "Recorded":
        """A frontend brings a cluster of one node."""
        self.hello()
        self.delta(reset=True, partial=True, nodes=[node("n0", 0)], classes=[snapshot_pb2.PodClass(id=1, pod=pod_of())])
        self.delta()
        self.queue("p", reset=True)
        self.write()
        return self

    def write(self) -> None:
        """The thread's turn."""
        self.recorder.write_buffer()

    def wait(self, seconds: float) -> None:
        self.clocks.seconds += seconds
        self.write()
        self.recorder.tick()
        self.write()

    def segments(self) -> list[tuple[recording_pb2.RecordingHeader, list[recording_pb2.RecordedFrame]]]:
        """The header and the frames of each segment, without those that end it."""
        found = []
        for segment in segment_folder.list_segments(self.folder):
            frames, reader = read(segment.path.read_bytes())
            assert reader.header is not None
            found.append((reader.header, [frame for frame in frames if frame.WhichOneof("content") == "message"]))
        return found

    def check_last_segment(self) -> None:
        """Who applies it has the cluster and the queue as they are here."""
        _, frames = self.segments()[-1]
        assert frames[0].message.delta.reset
        replayed = observed_cluster.ObservedCluster(snapshot.Snapshot())
        for frame in frames:
            if frame.message.HasField("delta"):
                replayed.apply(frame.message.delta)
            elif frame.message.HasField("queue"):
                replayed.apply_queue(frame.message.queue)
        assert view(replayed.snap) == view(self.cluster.snap)
        assert replayed.generation == self.cluster.generation
        assert replayed.trial == self.cluster.trial
        assert replayed.queue.all() == self.cluster.queue.all()


def node(name: str, slot: int, **fields: Any) -> snapshot_pb2.NodeEntry:
    return snapshot_pb2.NodeEntry(slot=slot, node=node_of(name, **fields))


_MADE: list[Recorded] = []


@pytest.fixture(autouse=True)
def _close_files() -> Iterator[None]:
    yield
    while _MADE:
        made = _MADE.pop()
        made.writer.abandon()
        made.writer.release()


def recorded(folder: pathlib.Path, **sizes: int) -> Recorded:
    _MADE.append(Recorded(folder, **sizes))
    return _MADE[-1]


def test_a_recording_begins_with_a_full_state_and_follows_the_stream(tmp_path: pathlib.Path) -> None:
    at = recorded(tmp_path).start()
    at.clocks.seconds = 3
    at.delta(nodes=[node("n1", 1, labels={"a": "b"})])
    at.queue("q")
    at.write()
    ((header, frames),) = at.segments()
    assert (header.hello, header.continuous, header.dropped_messages, header.instance) == (HELLO, False, 0, "i")
    received = [frame for frame in frames if not frame.state_part]
    assert [frame.message.WhichOneof("message") for frame in received] == ["queue", "delta", "queue"]
    assert [frame.unix_time_ns - BEGIN for frame in received] == [0, 3 * SECOND, 3 * SECOND]
    at.check_last_segment()
    numbers = at.recorder.statistics()
    assert (numbers.recording, numbers.recorded_messages, numbers.dropped_messages) == (1, 3, 0)
    assert numbers.recordings_size_bytes == sum(path.stat().st_size for path in tmp_path.glob("*.trireme"))
    assert numbers.recorded_bytes < numbers.recordings_size_bytes


def test_the_next_segment_begins_where_the_one_before_ends(tmp_path: pathlib.Path) -> None:
    """A segment that is deleted would take those behind it with it."""
    at = recorded(tmp_path).start()
    for hours in range(3):
        at.wait(1801)
        at.delta(nodes=[node(f"n{hours}", hours)])
        at.write()
        at.check_last_segment()
    headers = [header for header, _ in at.segments()]
    assert [(header.segment, header.continuous) for header in headers] == [(1, False), (2, True), (3, True), (4, True)]
    summary = verification.verify(tmp_path)
    assert (summary.gaps, summary.problems) == ([], [])


def test_a_segment_that_begins_in_a_trial_has_what_the_trial_assumes(tmp_path: pathlib.Path) -> None:
    """The deltas behind it would not fit."""
    at = recorded(tmp_path).start()
    at.delta(nodes=[node("n1", 1)], trial=True)
    at.delta(nodes=[node("n2", 2)], trial=True)
    at.wait(1801)
    assert len(at.segments()) == 2
    at.check_last_segment()
    at.delta(nodes=[node("n3", 3)])
    at.write()
    at.check_last_segment()
    assert verification.verify(tmp_path).problems == []


def test_no_segment_begins_in_the_middle_of_a_full_sync(tmp_path: pathlib.Path) -> None:
    """It would begin with half a cluster."""
    at = recorded(tmp_path).start()
    at.hello()
    at.delta(reset=True, partial=True, nodes=[node("n7", 7)])
    at.wait(1801)
    assert len(at.segments()) == 1
    at.delta()
    at.write()
    assert len(at.segments()) == 2
    at.check_last_segment()
    assert verification.verify(tmp_path).problems == []


def test_what_does_not_fit_into_the_buffer_is_a_gap(tmp_path: pathlib.Path) -> None:
    """A slow disk would take the memory of insight, or a recording would lack deltas and not say so."""
    at = recorded(tmp_path, buffer_bytes=5000).start()
    for number in range(40):
        at.delta(nodes=[node("n1", 1, labels={"n": str(number), "text": "x" * 500})])
    assert at.recorder.statistics().recording == 0
    at.write()
    before = at.recorder.statistics()
    assert 0 < before.dropped_messages < 40
    at.delta(nodes=[node("n2", 2)])
    at.write()
    assert [(header.continuous, header.dropped_messages) for header, _ in at.segments()] == [
        (False, 0),
        (False, before.dropped_messages + 1),
    ]
    at.check_last_segment()
    (gap,) = verification.verify(tmp_path).gaps
    assert gap.dropped_messages == before.dropped_messages + 1


@pytest.mark.parametrize("failing", ["append", "begin", "sync"])
def test_a_disk_that_fails_is_tried_again_with_a_new_segment(
    tmp_path: pathlib.Path, failing: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Insight would stop, or a moment without room would end the recording for good."""
    at = recorded(tmp_path).start()

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(at.writer, failing, fail)
    at.wait(1801)
    at.delta(nodes=[node("n1", 1)])
    at.write()
    failures = at.recorder.statistics().recording_failures
    assert failures >= 1
    for number in range(100):
        at.clocks.seconds += 1
        at.delta(nodes=[node("n1", 1, labels={"n": str(number)})])
        at.write()
    assert f"recording in {tmp_path} fails" in caplog.text
    assert "No space left" in caplog.text
    failure = at.recorder.failure
    assert failure is not None
    assert "No space left" in failure.error
    # Tried after 1, 2, 4 … seconds, and a minute at most.
    assert failures < at.recorder.statistics().recording_failures < 10 + (100 if failing == "sync" else 0)
    monkeypatch.undo()
    at.wait(61)
    assert at.recorder.statistics().recording == 1
    assert at.recorder.failure is None
    at.check_last_segment()
    dropped = sum(header.dropped_messages for header, _ in at.segments())
    assert dropped == at.recorder.statistics().dropped_messages > 0 or failing == "sync"
    assert verification.verify(tmp_path).problems == []


def test_a_folder_that_cannot_be_written_does_not_stop_insight(tmp_path: pathlib.Path) -> None:
    """A mistake in a mount would end the process, and with it all explanations."""
    (tmp_path / "file").write_text("no folder")
    at = recorded(tmp_path / "file").start()
    at.delta(nodes=[node("n1", 1)])
    at.write()
    numbers = at.recorder.statistics()
    assert (numbers.recording, numbers.recording_failures, numbers.recorded_messages) == (0, 1, 0)
    (tmp_path / "file").unlink()
    at.wait(2)
    assert at.recorder.statistics().recording == 1
    at.check_last_segment()


def test_a_folder_that_is_removed_is_made_again(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    """Recording would seem to go on, into a file that nobody can open."""
    folder = tmp_path / "recordings"
    at = recorded(folder).start()
    shutil.rmtree(folder)
    at.wait(6)
    at.delta(nodes=[node("n1", 1)])
    at.write()
    assert "was removed or replaced" in caplog.text
    assert at.recorder.statistics().recording_failures == 1
    at.wait(2)
    assert at.recorder.statistics().recording == 1
    assert verification.verify(folder).problems == []


def test_a_state_that_is_larger_than_the_limit_is_reported(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The limit would not hold, or nothing would say why there is no recording."""
    at = recorded(tmp_path, size_bytes=2000)
    at.hello()
    names = [f"{number * 7919 % 104729:x}" * 8 for number in range(300)]
    at.delta(reset=True, nodes=[node(name, slot) for slot, name in enumerate(names)])
    at.write()
    assert at.recorder.statistics().recording_failures == 1
    assert "2000 bytes do not suffice" in caplog.text
    assert at.segments() == []


def test_an_expired_segment_is_deleted_also_when_no_frontend_is_there(tmp_path: pathlib.Path) -> None:
    """Names would stay for longer than the limit says, where the scheduler has been stopped."""
    at = recorded(tmp_path).start()
    at.hello()
    at.delta(reset=True, partial=True)
    at.wait(9 * 3600)
    assert at.segments() == []
    assert at.recorder.statistics().recording == 0
    at.delta()
    at.wait(1)
    assert len(at.segments()) == 1
    at.check_last_segment()


def _flags(*texts: str) -> flags.InsightFlags:
    parser = argparse.ArgumentParser()
    arguments.add(parser, flags.InsightFlags)
    return arguments.read(flags.InsightFlags, parser.parse_args(texts))


async def test_insight_records_its_streams(tmp_path: pathlib.Path) -> None:
    """The flags would be accepted, and nothing recorded."""
    options = _flags(f"--record-dir={tmp_path}", "--record-max-bytes=8Mi", "--record-max-age=1h30m")
    assert (options.record_max_bytes, options.record_max_age) == (8 * MIB, 5400.0)
    insight = service.InsightService(snapshot.Snapshot())
    supervisor = supervision.Supervisor()

    async def stream() -> Any:
        yield snapshot_pb2.SyncRequest(hello=HELLO)
        yield snapshot_pb2.SyncRequest(delta=snapshot_pb2.Delta(reset=True, to_generation=1, nodes=[node("n", 0)]))
        yield snapshot_pb2.SyncRequest(queue=snapshot_pb2.QueueDelta(reset=True))
        yield snapshot_pb2.SyncRequest(delta=snapshot_pb2.Delta(from_generation=1, to_generation=2))

    async with process.recording(insight, options, supervisor):
        await insight.follow.Sync(stream(), context())
    statistics = insight.statistics()
    assert (statistics.recorded_messages, statistics.dropped_messages) == (2, 0)
    summary = verification.verify(tmp_path)
    assert (summary.deltas, summary.queue_deltas, summary.torn, summary.problems) == (1, 1, [], [])
    (segment,) = segment_folder.list_segments(tmp_path)
    frames, reader = read(segment.path.read_bytes())
    assert reader.ended
    assert frames[0].message.delta.nodes[0].node.metadata.name == "n"


async def test_without_the_flag_nothing_is_recorded() -> None:
    """Everybody's disk would fill with recordings."""
    insight = service.InsightService(snapshot.Snapshot())
    async with process.recording(insight, _flags(), supervision.Supervisor()):
        await phase_calls.greet(insight, HELLO.configuration)
    assert insight.statistics().recorded_messages == 0


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("--record-max-bytes=lots", "'lots' is not a quantity"),
        ("--record-max-bytes=1k", "'1k' is less than 1Mi"),
        ("--record-max-age=1d", 'time: unknown unit "d" in duration "1d"'),
        ("--record-max-age=5s", "'5s' is less than 1m"),
    ],
)
def test_wrong_flags_are_named(flag: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A limit that nobody meant would hold."""
    with pytest.raises(SystemExit):
        _flags(flag)
    assert f"argument {flag.partition('=')[0]}: {text}" in capsys.readouterr().err


def test_the_last_applied_configuration_is_in_no_recording(tmp_path: pathlib.Path) -> None:
    """It is the whole manifest, with values that nobody expects in the file of a bug report."""
    applied = {applied_configuration.ANNOTATION: "{secret}", "example.com/own": "kept"}
    at = recorded(tmp_path)
    at.hello()
    entry = node("n0", 0)
    entry.node.metadata.annotations.update(applied)
    entry.json = orjson.dumps({"metadata": {"name": "n0", "annotations": applied}, "spec": {}})
    claim = snapshot_pb2.ClusterObject()
    claim.persistent_volume_claim.metadata.annotations.update(applied)
    at.delta(reset=True, nodes=[entry], objects=[claim])
    at.write()
    assumed = recorded_call_pb2.ReserveDecision(reservations=[filter_pb2.Reservation(assumed=[claim])])
    decision = decision_pb2.Decision(number=1, reserve=assumed).SerializeToString()
    delta = snapshot_pb2.Delta(from_generation=1, to_generation=2, nodes=[entry], objects=[claim])
    at.cluster.apply(delta)
    at.recorder.record(snapshot_pb2.SyncRequest(delta=delta, decisions=[decision]))
    at.write()
    ((_, frames),) = at.segments()
    text = b"".join(frame.SerializeToString() for frame in frames)
    assert b"{secret}" not in text
    # All else stays, in the state and in the delta: of node, JSON and claim; and once in the decision.
    assert text.count(b"kept") == 7
    # What insight itself has is as it was.
    assert applied_configuration.ANNOTATION.encode() in at.cluster.snap.nodes.messages[0]
