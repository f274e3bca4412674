"""What the pages of a recording say where its times do not: nothing was recorded, or the clock was set."""

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import orjson
import pytest
from aiohttp import test_utils

from tests.helpers.recorded_decisions import SMALL, RecordedCluster
from tests.helpers.recordings import BEGIN, SECOND, delta_frame, header, state_frame, write
from trireme.insight.http_api import recorded_site, recording_sources
from trireme.recording import export, segment_writer
from trireme.v1 import recording_pb2, snapshot_pb2

BEGIN_MS = BEGIN // 1_000_000
LIMITS = segment_writer.Limits(1 << 24, 1e9)
HOUR = 3600
YEAR = 365 * 24 * HOUR


async def messages_of(pods: int) -> tuple[RecordedCluster, list[recording_pb2.RecordedFrame]]:
    """A cluster, and the frames of its state and of the placement of so many pods, one each."""
    cluster = await RecordedCluster(4).open()
    for _ in range(pods):
        await cluster.schedule(SMALL, 1)
    frames = cluster.frames()
    assert len(frames) == pods + 1
    return cluster, frames


async def record(folder: pathlib.Path, begin: int, times: Sequence[int], *, ends: bool = False) -> None:
    """Record a segment that begins so many seconds after BEGIN by its clock, with a placement at each of the times."""
    cluster, (state, *placements) = await messages_of(len(times))
    writer = segment_writer.RecordingWriter(folder, LIMITS)
    head = cluster.header
    head.start_unix_ns = state.unix_time_ns = BEGIN + begin * SECOND
    writer.begin(head)
    write(writer, state)
    for second, frame in zip(times, placements, strict=True):
        frame.unix_time_ns = BEGIN + second * SECOND
        write(writer, frame)
    if ends:
        writer.end(BEGIN + times[-1] * SECOND)
    writer.abandon()
    writer.release()


class Reader:
    """Reads pages of a recording."""

    def __init__(self, client: test_utils.TestClient[Any, Any]) -> None:
        self._client = client

    async def get(self, path: str) -> Any:
        """The document at a path."""
        async with self._client.get(path) as response:
            return orjson.loads(await response.read())

    async def overview(self, second: float) -> Any:
        """That of a moment."""
        return await self.get(f"/v1/recorded/{BEGIN_MS + round(second * 1000)}/overview")

    async def pods(self, *seconds: float) -> list[Any]:
        """How many pods there are at moments, or the codes of the refusals."""
        found = [await self.overview(second) for second in seconds]
        return [each["cluster"]["pods"] if "cluster" in each else each["code"] for each in found]

    async def span(self) -> tuple[int, int]:
        """From when to when there are moments, in seconds after BEGIN."""
        document = await self.get("/v1/recording")
        return (document["fromMs"] - BEGIN_MS) // 1000, (document["toMs"] - BEGIN_MS) // 1000

    async def gaps(self) -> list[tuple[float, float, str]]:
        """All gaps, in seconds after BEGIN."""
        found = (await self.get("/v1/recording"))["gaps"]
        return [_gap(each) for each in found]


def _gap(found: Any) -> tuple[float, float, str]:
    return (found["fromMs"] - BEGIN_MS) / 1000, (found["toMs"] - BEGIN_MS) / 1000, found["reason"]


@contextlib.asynccontextmanager
async def served(path: pathlib.Path) -> AsyncIterator[Reader]:
    """The pages of a recording."""
    site = recorded_site.RecordedSite(path)
    await site.open(None)
    async with test_utils.TestClient(test_utils.TestServer(site.application())) as client:
        yield Reader(client)
    site.close()


@pytest.fixture(name="folder")
def _folder(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "recordings"


async def test_requests_that_come_at_once_wait_for_the_same_reading(folder: pathlib.Path) -> None:
    """One would be answered by an error, or by what another one reads."""
    await record(folder, 0, [1, 2, 3])
    async with served(folder) as reader:
        for _ in range(20):
            spans = await asyncio.gather(*(reader.span() for _ in range(10)))
            assert spans == [(0, 3)] * 10


async def test_a_long_recording_is_said_to_be_read(folder: pathlib.Path) -> None:
    """The first request would wait until its caller gives up, and what was read be lost."""
    frames = [state_frame(1), *(delta_frame(2 + number, BEGIN + number * SECOND) for number in range(1, 201))]
    writer = segment_writer.RecordingWriter(folder, LIMITS)
    writer.begin(header())
    write(writer, *frames)
    writer.abandon()
    writer.release()
    source = recording_sources.FolderSource(folder)
    with pytest.raises(ValueError, match="its times are being read, segments so far"):
        await source.refresh(wait_seconds=0.0)
    # It was read on meanwhile.
    async with asyncio.timeout(60):
        await source.refresh()
    assert (source.from_ns, source.to_ns) == (BEGIN, BEGIN + 200 * SECOND)
    source.close()


@pytest.mark.parametrize("is_file", [False, True], ids=["folder", "file"])
async def test_what_was_recorded_by_a_clock_that_was_ahead_is_shown(
    folder: pathlib.Path, tmp_path: pathlib.Path, is_file: bool
) -> None:
    """One frame an hour ahead would hide all that was recorded in the next hour."""
    await record(folder, 0, [1, HOUR + 2, 10, 11, 30], ends=True)
    path = tmp_path / "incident.trireme" if is_file else folder
    if is_file:
        export.export(folder, path, 0)
    async with served(path) as reader:
        assert await reader.span() == (0, 30)
        assert await reader.pods(0.5, 5, 10, 11, 20, 30) == [0, 1, 3, 4, 4, 5]
        # What was placed in between cannot be told, which is said.
        assert await reader.gaps() == [(1, 10, "clockSetBack")]
        assert (await reader.overview(5))["recording"]["gaps"][0]["reason"] == "clockSetBack"
        assert (await reader.overview(11))["recording"]["gaps"] == []


async def test_what_follows_a_wrong_clock_at_the_beginning_is_there(folder: pathlib.Path) -> None:
    """A machine that starts with a wrong clock would have nothing of its first day, for each moment is before it."""
    await record(folder, 3 * YEAR, [3 * YEAR + 1, 2, 10, 11], ends=True)
    await record(folder, 100, [101])
    async with served(folder) as reader:
        assert await reader.span() == (2, 101)
        assert await reader.pods(1, 2, 10, 11, 101) == [410, 2, 3, 4, 1]


async def test_a_clock_that_is_set_back_while_it_is_looked_at_hides_nothing(folder: pathlib.Path) -> None:
    """A state that was kept would go on behind frames that are of an hour later by now."""
    cluster, (state, *placements) = await messages_of(4)
    writer = segment_writer.RecordingWriter(folder, LIMITS)
    writer.begin(cluster.header)
    write(writer, state)
    for second, frame in zip((10, HOUR, 20, 30), placements, strict=True):
        frame.unix_time_ns = BEGIN + second * SECOND
    write(writer, *placements[:2])
    async with served(folder) as reader:
        assert await reader.pods(15, 100, HOUR) == [1, 1, 2]
        write(writer, *placements[2:])
        assert await reader.span() == (0, 30)
        assert await reader.pods(15, 20, 25, 30, HOUR) == [1, 3, 3, 4, 400]
    writer.abandon()
    writer.release()


async def test_a_clock_that_is_set_back_by_mistake_is_said_so(folder: pathlib.Path) -> None:
    """The hour before would be shown as it was at its end, without a word."""
    await record(folder, 0, [10, 60, 110, 50, 120])
    async with served(folder) as reader:
        assert await reader.pods(5, 10, 49, 50, 115, 120) == [0, 1, 1, 4, 4, 5]
        assert await reader.gaps() == [(50, 110, "clockSetBack")]


async def test_moments_at_which_nothing_was_recorded_are_said_to_be_so(folder: pathlib.Path) -> None:
    """An incident in which insight fails would look as if nothing had happened in it."""
    await record(folder, 0, [1])
    await record(folder, 2 * HOUR, [2 * HOUR + 1, 2 * HOUR + 2])
    gap = (1, 2 * HOUR, "notRecorded")
    async with served(folder) as reader:
        assert await reader.gaps() == [gap]
        document = await reader.get("/v1/recording")
        assert (document["missingDecisions"], document["uncountedGaps"]) == (0, 1)
        # The last that is known is shown.
        assert await reader.pods(1, HOUR, 2 * HOUR, 2 * HOUR + 1) == [1, 1, 0, 1]
        for second, silent_ms in ((1, 0), (61, 60_000), (HOUR, (HOUR - 1) * 1000), (2 * HOUR, 0), (2 * HOUR + 1, 0)):
            overview = await reader.overview(second)
            assert overview["disconnectedMs"] == silent_ms
            assert [_gap(each) for each in overview["recording"]["gaps"]] == ([gap] if silent_ms else [])


async def test_an_explanation_in_a_gap_says_how_old_it_is(folder: pathlib.Path) -> None:
    """A reader over HTTP alone would take it for the state of that time."""
    await record(folder, 0, [1])
    await record(folder, 100, [101])
    async with served(folder) as reader:
        page = f"/v1/recorded/{BEGIN_MS + 31_000}/namespaces/default/pods/pod-0/explanation"
        assert (await reader.get(page))["disconnectedMs"] == "30000"


async def test_a_time_before_a_stream_begins_anew_is_said_to_be_without_one(folder: pathlib.Path) -> None:
    """Without a frontend nothing comes, which looks like a cluster in which nothing happens."""
    cluster, (state, *placements) = await messages_of(1)
    writer = segment_writer.RecordingWriter(folder, LIMITS)
    writer.begin(cluster.header)
    write(writer, state, *placements)
    for second in (2, 60):
        message = snapshot_pb2.SyncRequest(hello=cluster.header.hello)
        write(writer, recording_pb2.RecordedFrame(unix_time_ns=BEGIN + second * SECOND, message=message))
    writer.abandon()
    writer.release()
    async with served(folder) as reader:
        assert await reader.gaps() == [(2, 60, "noStream")]
        assert (await reader.overview(32))["disconnectedMs"] == 30_000


async def test_what_precedes_the_first_full_state_is_not_offered(folder: pathlib.Path) -> None:
    """The page would ask again forever for moments of a segment that has no state."""
    writer = segment_writer.RecordingWriter(folder, LIMITS)
    writer.begin(header())
    part = state_frame(1)
    part.state_part = recording_pb2.STATE_PART_MORE
    write(writer, part)
    writer.end(BEGIN + SECOND)
    writer.release()
    await record(folder, 100, [101])
    async with served(folder) as reader:
        assert await reader.span() == (100, 101)
        assert await reader.pods(0, 50, 100, 101) == [410, 410, 0, 1]


async def test_the_beginning_moves_on_as_segments_are_deleted(folder: pathlib.Path) -> None:
    """Moments would be offered that are deleted, or of a segment without a state."""
    await record(folder, 0, [1])
    writer = segment_writer.RecordingWriter(folder, LIMITS)
    writer.begin(header(BEGIN + 50 * SECOND))
    writer.end(BEGIN + 60 * SECOND)
    writer.release()
    await record(folder, 100, [101])
    async with served(folder) as reader:
        assert await reader.span() == (0, 101)
        min(folder.glob("*.trireme")).unlink()
        assert await reader.span() == (100, 101)
        assert await reader.gaps() == []
