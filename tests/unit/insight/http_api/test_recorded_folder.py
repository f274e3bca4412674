"""The console on a folder that insight records in: its pages as of a moment, while the recording goes on."""

import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from aiohttp import test_utils

from tests.helpers.recorded_decisions import SMALL, RecordedCluster
from tests.helpers.recordings import BEGIN, SECOND, header
from trireme.insight.http_api import recorded_site
from trireme.recording import full_state, segment_writer
from trireme.v1 import recording_pb2, snapshot_pb2

BEGIN_MS = BEGIN // 1_000_000


@pytest.fixture(name="folder")
def _folder(tmp_path: pathlib.Path) -> pathlib.Path:
    """Where the recording is."""
    return tmp_path / "recordings"


@pytest.fixture(name="writer")
def _writer(folder: pathlib.Path) -> Iterator[segment_writer.RecordingWriter]:
    """What writes it."""
    writer = segment_writer.RecordingWriter(folder, segment_writer.Limits(1 << 24, 1e6))
    yield writer
    writer.abandon()
    writer.release()


async def fetch(client: test_utils.TestClient[Any, Any], path: str) -> Any:
    async with client.get(path) as response:
        return orjson.loads(await response.read())


def as_of(seconds: float, page: str = "overview") -> str:
    """The path of a page as of so long after the beginning."""
    return f"/v1/recorded/{BEGIN_MS + round(seconds * 1000)}/{page}"


async def test_a_folder_that_insight_writes_is_shown_up_to_now(
    folder: pathlib.Path, writer: segment_writer.RecordingWriter
) -> None:
    """The last minutes could only be looked at once they were exported, again for each minute more."""
    cluster = await RecordedCluster(2).open()
    for _ in range(3):
        await cluster.schedule(SMALL, 1)
    state, *messages = cluster.frames()
    writer.begin(cluster.header)
    writer.append(state.SerializeToString(), completes_state=True)
    writer.append(messages[0].SerializeToString())
    site = recorded_site.RecordedSite(folder)
    await site.open(None)
    async with test_utils.TestClient(test_utils.TestServer(site.application())) as client:
        before = await fetch(client, "/v1/recording")
        assert before == {
            "file": "recordings",
            "fromMs": BEGIN_MS,
            "toMs": BEGIN_MS + 1000,
            "atMs": BEGIN_MS + 1000,
            "live": False,
            "gaps": [],
            "missingDecisions": 0,
            "uncountedGaps": 0,
        }
        assert (await fetch(client, as_of(1)))["cluster"]["pods"] == 1
        assert (await fetch(client, as_of(3)))["code"] == 400
        for frame in messages[1:]:
            writer.append(frame.SerializeToString())
        # The end moves on, and the moment stays.
        overview = await fetch(client, as_of(1))
        assert overview["cluster"]["pods"] == 1
        assert overview["recording"] == {**before, "toMs": BEGIN_MS + 3000}
        for seconds, placed in ((3, 3), (0, 0), (2, 2)):
            assert (await fetch(client, as_of(seconds)))["cluster"]["pods"] == placed
        assert (await fetch(client, "/v1/overview"))["cluster"]["pods"] == 3
    site.close()


@pytest.mark.slow
async def test_a_moment_is_shown_with_what_was_decided_in_the_half_hour_before(
    folder: pathlib.Path, writer: segment_writer.RecordingWriter
) -> None:
    """A day would be applied for each step back, or a decision of some minutes before be unknown."""
    minute = 60 * SECOND
    cluster = await RecordedCluster(2).open()
    for number in range(5):
        begin, last = BEGIN + number * 20 * minute, len(cluster.frames())
        writer.begin(header(begin, hello=cluster.header.hello, continuous=bool(number)))
        for state in full_state.full_sync(cluster.builder.snap):
            frame = recording_pb2.RecordedFrame(unix_time_ns=begin, message=snapshot_pb2.SyncRequest(delta=state))
            frame.state_part = recording_pb2.STATE_PART_LAST
            writer.append(frame.SerializeToString(), completes_state=True)
        await cluster.schedule(SMALL, 1)
        for frame in cluster.frames()[last:]:
            frame.unix_time_ns = begin + minute
            writer.append(frame.SerializeToString())
    site = recorded_site.RecordedSite(folder)
    await site.open(None)
    async with test_utils.TestClient(test_utils.TestServer(site.application())) as client:
        # Back, a little forward, back, and forward beyond what was read.
        steps = ((81, 5, [2, 3, 4]), (21, 2, [0, 1]), (61, 4, [0, 1, 2, 3]), (5, 1, [0]), (81, 5, [2, 3, 4]))
        for minutes, placed, decided in steps:
            assert (await fetch(client, as_of(minutes * 60)))["cluster"]["pods"] == placed
            pages = [as_of(minutes * 60, f"namespaces/default/pods/pod-{number}/decision") for number in range(5)]
            found = [number for number, page in enumerate(pages) if "feasibleCount" in await fetch(client, page)]
            assert found == decided
    site.close()


async def test_a_folder_without_a_recording_is_not_served(tmp_path: pathlib.Path) -> None:
    """A page of an empty cluster would be shown."""
    site = recorded_site.RecordedSite(tmp_path)
    with pytest.raises(ValueError, match="there is no recording with a full state"):
        await site.open(None)
    site.close()


async def test_a_folder_that_is_removed_is_said_to_be_unreadable(
    folder: pathlib.Path, writer: segment_writer.RecordingWriter
) -> None:
    """The page would show the moment forever, or an error that names nothing."""
    cluster = await RecordedCluster(2).open()
    writer.begin(cluster.header)
    writer.append(cluster.frames()[0].SerializeToString(), completes_state=True)
    site = recorded_site.RecordedSite(folder)
    await site.open(None)
    shutil.rmtree(folder)
    async with test_utils.TestClient(test_utils.TestServer(site.application())) as client:
        for _ in range(2):
            answer = await fetch(client, "/v1/overview")
            assert (answer["code"], "the recording cannot be read" in answer["message"]) == (500, True)
    site.close()


def record(folder: pathlib.Path, begins: list[int]) -> None:
    """Record a segment of five seconds for each of these, in seconds, as insight does after it was started."""
    writer = segment_writer.RecordingWriter(folder, segment_writer.Limits(1 << 24, 1e6))
    for second in begins:
        at_ns = BEGIN + second * SECOND
        writer.begin(header(at_ns))
        state = recording_pb2.RecordedFrame(
            unix_time_ns=at_ns, state_part=recording_pb2.STATE_PART_LAST, message=snapshot_pb2.SyncRequest()
        )
        writer.append(state.SerializeToString(), completes_state=True)
        later = recording_pb2.RecordedFrame(unix_time_ns=at_ns + 5 * SECOND, message=snapshot_pb2.SyncRequest())
        writer.append(later.SerializeToString())
    writer.end(BEGIN + (begins[-1] + 5) * SECOND)
    writer.release()


@pytest.mark.parametrize("is_folder_gone", [False, True], ids=["files removed", "folder removed"])
@pytest.mark.parametrize("segments", [1, 4, 6], ids=["fewer", "as many", "more"])
async def test_a_recording_that_was_removed_and_begun_anew_is_shown(
    folder: pathlib.Path, segments: int, is_folder_gone: bool
) -> None:
    """The console would show forever what is gone, and nothing of what is recorded: the numbers begin at 1 again."""
    record(folder, [0, 10, 20, 30])
    site = recorded_site.RecordedSite(folder)
    await site.open(None)
    async with test_utils.TestClient(test_utils.TestServer(site.application())) as client:
        assert (await fetch(client, "/v1/recording"))["toMs"] == BEGIN_MS + 35_000
        # There is the moment, and no cluster in it.
        assert (await fetch(client, as_of(20)))["code"] == 503
        shutil.rmtree(folder)
        if not is_folder_gone:
            folder.mkdir(mode=0o700)
        for _ in range(2):
            async with client.get("/v1/recording") as response:
                assert response.status == (500 if is_folder_gone else 503)
        record(folder, [1000 + 10 * number for number in range(segments)])
        times = {"fromMs": BEGIN_MS + 1_000_000, "toMs": BEGIN_MS + 1_000_000 + 10_000 * segments - 5_000}
        shown = await fetch(client, "/v1/recording")
        # Nothing was decided, so nobody knows how much is missing.
        assert (len(shown.pop("gaps")), shown.pop("uncountedGaps")) == (segments - 1, segments - 1)
        assert shown.pop("missingDecisions") == 0
        assert shown == {"file": "recordings", **times, "atMs": times["toMs"], "live": False}
        # What was gone to before is gone.
        assert (await fetch(client, as_of(20)))["code"] == 410
        assert (await fetch(client, as_of(1005)))["code"] == 503
        record(folder, [2000])
        shown = await fetch(client, "/v1/recording")
        assert (len(shown.pop("gaps")), shown.pop("uncountedGaps")) == (segments, segments)
        assert shown.pop("missingDecisions") == 0
        assert shown == {
            "file": "recordings",
            "fromMs": times["fromMs"],
            "toMs": BEGIN_MS + 2_005_000,
            "atMs": BEGIN_MS + 2_005_000,
            "live": False,
        }
    site.close()
