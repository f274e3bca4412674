"""SelfCheck: decisions that come out differently are found, counted and saved, and no healthy ones are."""

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest

from tests.helpers.recorded_decisions import (
    LARGE,
    SMALL,
    RecordedCluster,
    with_decision_changed,
    with_every_call,
)
from tests.helpers.recordings import BEGIN, SECOND
from trireme.insight import observed_cluster, self_check, self_check_sample
from trireme.recording import segment_folder, segment_reader
from trireme.replay import decision_replay
from trireme.snapshot import snapshot
from trireme.v1 import decision_pb2, recording_pb2, snapshot_pb2
from trireme_kube.componentbase import supervision


async def here(check: Coroutine[Any, Any, self_check.Checked]) -> self_check.Checked:
    """Without a thread."""
    return await check


class Watched:
    """A cluster that follows a recording, and its self-check, a twentieth of a second between the messages."""

    def __init__(self, folder: pathlib.Path, cluster: RecordedCluster) -> None:
        self.folder = folder
        self.seconds, self.cpu = 1000.0, 0.0
        #: What each look at the clock of the processor adds.
        self.cpu_step = 0.0
        self._header = cluster.header
        self.observed = observed_cluster.ObservedCluster(snapshot.Snapshot())
        self.observed.snap.store_node_objects(messages=True, json=True)
        self.counter = self_check.differences_counter()
        self.check = self_check.SelfCheck(
            self.observed,
            folder,
            "i",
            self.counter,
            run=here,
            times=self_check.Times(lambda: BEGIN + int(self.seconds * SECOND), lambda: self.seconds, self._cpu),
        )
        self.seconds += self_check.PERIOD_SECONDS + 1

    def _cpu(self) -> float:
        self.cpu += self.cpu_step
        return self.cpu

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["Watched"]:
        async with self.check.running(supervision.Supervisor()):
            self.check.take(snapshot_pb2.SyncRequest(hello=self._header.hello))
            yield self

    def feed(self, frames: list[recording_pb2.RecordedFrame], apart: float = 0.05) -> None:
        """The messages arrive."""
        for frame in frames:
            self.seconds += apart
            if frame.message.HasField("delta"):
                self.observed.apply(frame.message.delta)
            self.check.take(frame.message)

    async def end(self) -> None:
        """Nothing happens for as long as a sample lasts at most, then the frontend shows its state; and all is done."""
        self.seconds += self_check.MAX_SECONDS
        self.check.take(snapshot_pb2.SyncRequest(queue=snapshot_pb2.QueueDelta()))
        for _ in range(10):
            await asyncio.sleep(0)

    def counts(self) -> tuple[int, dict[str, float]]:
        """How many decisions were made again, and the differences by call."""
        return self.check.statistics().made, self.counter.totals("call")

    def saved(self) -> list[pathlib.Path]:
        return sorted(self.folder.glob("*.trireme"))


async def faulty(cluster: RecordedCluster, pods: int = 4) -> list[recording_pb2.RecordedFrame]:
    """Pods are placed one after the other, and the last one on another node than the best."""
    for _ in range(pods):
        await cluster.schedule(SMALL, 1)
    placed = cluster.decisions()[-1]
    (slot,) = placed.place.slots
    changed = decision_pb2.PlaceDecision(slots=[(slot + 1) % 3])
    return with_decision_changed(cluster.frames(), placed.number, place=changed)


@pytest.mark.parametrize("seed", range(3))
async def test_decisions_as_they_were_made_do_not_differ(seed: int, tmp_path: pathlib.Path) -> None:
    """If this fails, the alert fires in a cluster in order, and nobody believes it."""
    cluster = await RecordedCluster(6).open()
    await cluster.schedule_at_random(60, seed)
    async with Watched(tmp_path, cluster).running() as watched:
        watched.feed(cluster.frames())
        await watched.end()
    made, differences = watched.counts()
    assert made > 50
    assert differences == {}
    assert watched.saved() == []
    status = watched.check.status()
    assert status is not None
    assert (status.checked, status.different, status.problem) == (made, 0, "")
    assert status.checked_at_ms > 0


async def test_calls_of_groups_extenders_and_reserve_are_made_again(tmp_path: pathlib.Path) -> None:
    cluster = await with_every_call()
    async with Watched(tmp_path, cluster).running() as watched:
        watched.feed(cluster.frames())
        await watched.end()
    made, differences = watched.counts()
    assert made >= 9
    assert differences == {}


async def test_a_pod_on_another_node_is_counted_named_and_saved(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, a scheduler that decides on a state that nobody has goes on for hours."""
    cluster = await RecordedCluster(3).open()
    frames = await faulty(cluster)
    async with Watched(tmp_path, cluster).running() as watched:
        watched.feed(frames)
        await watched.end()
    assert watched.counts()[1] == {"Place": 1}
    (path,) = watched.saved()
    status = watched.check.status()
    assert status is not None
    last = status.last_difference
    assert (status.different, last.call, last.pods) == (1, "Place", f"class {SMALL} (namespace default)")
    assert last.recording == str(path)
    assert last.at_ms > BEGIN // 1_000_000
    assert f"`trireme replay {path}` shows it" in caplog.text
    assert path.stat().st_mode & 0o077 == 0
    with path.open("rb") as file:
        reader = segment_reader.SegmentReader(file, str(path))
        assert reader.header is not None
        replay = decision_replay.DecisionReplay(reader.header)
        (found,) = [each async for each in replay.replay(reader.frames())]
        assert reader.ended
    assert (found.call, replay.counts.different) == ("Place", 1)


async def test_a_sample_has_an_end(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, it grows as long as the scheduler is busy."""
    monkeypatch.setattr(self_check, "MAX_DECISIONS", 4)
    cluster = await RecordedCluster(6).open()
    await cluster.schedule_at_random(60)
    async with Watched(tmp_path, cluster).running() as watched:
        watched.feed(cluster.frames(), apart=0.01)
        await watched.end()
    assert 0 < watched.counts()[0] <= 8


async def test_a_decision_in_a_quiet_cluster_is_made_again_too(tmp_path: pathlib.Path) -> None:
    """If this fails, nothing is checked where a pod comes once a minute."""
    cluster = await RecordedCluster(3).open()
    quiet = [recording_pb2.RecordedFrame(message=snapshot_pb2.SyncRequest(queue=snapshot_pb2.QueueDelta()))] * 60
    frames = cluster.frames()
    async with Watched(tmp_path, cluster).running() as watched:
        watched.feed(frames)
        watched.feed(quiet, apart=1.0)
        await cluster.schedule(SMALL, 1)
        watched.feed(cluster.frames()[len(frames) :])
        await watched.end()
    assert watched.counts() == (2, {})


async def test_processor_time_is_waited_for(tmp_path: pathlib.Path) -> None:
    """If this fails, a large cluster costs insight more than the share."""
    cluster = await RecordedCluster(6).open()
    await cluster.schedule_at_random(200)
    frames = cluster.frames()
    watched = Watched(tmp_path, cluster)
    async with watched.running():
        began, watched.cpu_step = watched.seconds, 0.01
        for frame in frames:
            watched.feed([frame], apart=5.0)
            await asyncio.sleep(0)
    used = watched.check.statistics().cpu_seconds
    assert watched.counts()[0] > 0
    assert 0 < used <= self_check.MAX_CREDIT + self_check.CPU_SHARE * (watched.seconds - began) + 0.5


async def test_decisions_that_take_long_are_left_out(tmp_path: pathlib.Path) -> None:
    cluster = await RecordedCluster(6).open()
    await cluster.schedule_at_random(60)
    watched = Watched(tmp_path, cluster)
    async with watched.running():
        watched.feed(cluster.frames())
        watched.cpu_step = self_check_sample.DECISION_SECONDS / 3
        await watched.end()
    assert 0 < watched.counts()[0] < 20


async def test_few_samples_stay(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a fault that stays fills the disk, and then nothing is recorded."""
    monkeypatch.setattr(self_check, "SAVE_SECONDS", 0.0)
    other = tmp_path / segment_folder.file_name(1)
    other.touch()
    names = []
    for second in range(self_check_sample.MAX_SAVED + 2):
        cluster = await RecordedCluster(3).open()
        watched = Watched(tmp_path, cluster)
        watched.seconds += second
        async with watched.running():
            watched.feed(await faulty(cluster))
            await watched.end()
        status = watched.check.status()
        assert status is not None
        names.append(status.last_difference.recording)
    assert [str(path) for path in watched.saved()] == [*names[-self_check_sample.MAX_SAVED :], str(other)]


async def test_the_same_call_is_saved_once_in_ten_minutes(tmp_path: pathlib.Path) -> None:
    cluster = await RecordedCluster(3).open()
    watched = Watched(tmp_path, cluster)
    async with watched.running():
        for _ in range(2):
            frames = await faulty(cluster)
            watched.observed.snap = snapshot.Snapshot()
            watched.observed.snap.store_node_objects(messages=True, json=True)
            watched.feed(frames)
            await watched.end()
            watched.seconds += 60
    assert watched.counts()[1] == {"Place": 2}
    assert len(watched.saved()) == 1


async def test_a_folder_that_cannot_be_written_is_named(tmp_path: pathlib.Path) -> None:
    cluster = await RecordedCluster(3).open()
    blocked = tmp_path / "file"
    blocked.touch()
    async with Watched(blocked / "folder", cluster).running() as watched:
        watched.feed(await faulty(cluster))
        await watched.end()
    status = watched.check.status()
    assert status is not None
    assert watched.counts()[1] == {"Place": 1}
    assert "a recording of the difference is not saved" in status.problem


async def test_what_cannot_be_made_again_is_counted_and_stops_nothing(tmp_path: pathlib.Path) -> None:
    cluster = await RecordedCluster(3).open()
    await cluster.schedule(LARGE, 2)
    await cluster.schedule(LARGE, 1)
    frames = cluster.frames()
    broken = recording_pb2.RecordedFrame(
        message=snapshot_pb2.SyncRequest(queue=snapshot_pb2.QueueDelta(), decisions=[b"\xff"])
    )
    async with Watched(tmp_path, cluster).running() as watched:
        watched.feed([*frames, broken])
        await watched.end()
        status = watched.check.status()
        assert status is not None
        assert status.problem == "a decision cannot be decoded"
        assert watched.check.statistics().failures == 1
        watched.seconds += 1000
        for _ in range(2):
            await cluster.schedule(SMALL, 1)
        watched.feed(cluster.frames()[len(frames) :])
        await watched.end()
    assert watched.counts()[0] > 0
    assert status.problem == ""


async def test_the_configuration_turns_it_off(tmp_path: pathlib.Path) -> None:
    cluster = await RecordedCluster(3).open()
    cluster.configuration.self_check_off = True
    async with Watched(tmp_path, cluster).running() as watched:
        watched.feed(await faulty(cluster))
        await watched.end()
    assert watched.counts() == (0, {})
    assert watched.check.status() is None


async def test_another_full_sync_ends_the_sample(tmp_path: pathlib.Path) -> None:
    """If this fails, each change of the configuration is a sample of the size of two clusters."""
    cluster = await RecordedCluster(3).open()
    frames = await faulty(cluster)
    async with Watched(tmp_path, cluster).running() as watched:
        watched.feed(frames)
        watched.check.take(snapshot_pb2.SyncRequest(hello=cluster.header.hello))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert watched.counts()[1] == {"Place": 1}


async def test_a_cluster_that_is_too_large_is_not_checked(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Insight would need twice its memory, and be killed."""
    monkeypatch.setattr(self_check, "MAX_NODES", 2)
    cluster = await RecordedCluster(3).open()
    async with Watched(tmp_path, cluster).running() as watched:
        watched.feed(await faulty(cluster))
        await watched.end()
        status = watched.check.status()
    assert watched.counts() == (0, {})
    assert status is not None
    assert status.problem == "the cluster has more than 2 nodes or 200000 pods"
