"""The states at the moments of a recording: how long a request waits for one, and which are kept."""

import asyncio
import contextlib
import types
from typing import Any

import pytest

from tests.helpers.recorded_decisions import RecordedCluster
from tests.helpers.recordings import BEGIN, SECOND
from trireme.insight.http_api import access, failures, lost_requests, recorded_moments, recording_sources
from trireme.v1 import recording_pb2

FRAMES = 40 * recording_sources.FRAMES_PER_TURN


class Frames:
    """A frame each second, with nothing in it."""

    def __init__(self, header: recording_pb2.RecordingHeader) -> None:
        self.header = header
        self.taken = 0
        self.closed = False

    def next_frame(self) -> recording_pb2.RecordedFrame | None:
        if self.taken == FRAMES:
            return None
        self.taken += 1
        return recording_pb2.RecordedFrame(unix_time_ns=BEGIN + self.taken * SECOND)

    def close(self) -> None:
        self.closed = True


class Source:
    """A recording of such frames, which reach as far as they do."""

    name = "frames"
    from_ns, to_ns, restarts = BEGIN, BEGIN + FRAMES * SECOND, 0

    def __init__(self, header: recording_pb2.RecordingHeader) -> None:
        self.header = header
        self.opened: list[Frames] = []

    async def refresh(self) -> None:
        """Nothing changes."""

    def start_of(self, at_ns: int) -> int:
        return BEGIN

    def frames_for(self, at_ns: int) -> Frames:
        self.opened.append(Frames(self.header))
        return self.opened[-1]

    def close(self) -> None:
        """Nothing is open."""


class Transport:
    """A connection."""

    closing = False

    def is_closing(self) -> bool:
        return self.closing


def request(transport: Transport | None = None) -> Any:
    """A request of a caller who waits."""
    return types.SimpleNamespace(transport=transport or Transport())


def after(seconds: int) -> int:
    """A moment so long after the beginning."""
    return BEGIN + seconds * SECOND


class World:
    """A recording, its states, and a clock that stands still."""

    def __init__(self, source: Source, **settings: Any) -> None:
        self.source = source
        self.now = 0.0
        callers = access.LoopbackAccess()
        self.moments = recorded_moments.RecordedMoments(source, callers, clock=lambda: self.now, **settings)

    async def go_to(self, at_ns: int, caller: Any = None) -> int:
        """The moment of the state that answers."""
        async with self.moments.at(at_ns, caller or request()) as state:
            return state.at_ns


async def world(**settings: Any) -> World:
    """A world of its own."""
    return World(Source((await RecordedCluster(1).open()).header), **settings)


async def test_a_later_moment_goes_on_and_an_earlier_one_begins_anew() -> None:
    """Each second further would be applied from the beginning."""
    here = await world()
    for seconds in (100, 101, 500):
        assert await here.go_to(after(seconds)) == after(seconds)
    assert len(here.source.opened) == 1
    assert await here.go_to(after(50)) == after(50)
    # That of 500 is still there, and the one of 50 is the nearest for what is between.
    assert await here.go_to(after(500)) == after(500)
    assert await here.go_to(after(499)) == after(499)
    assert len(here.source.opened) == 2
    here.moments.close()
    assert all(frames.closed for frames in here.source.opened)


async def test_no_more_states_than_the_bound_are_kept_and_the_one_used_last_stays() -> None:
    """A reader of many moments would use up the memory."""
    here = await world()
    for number in range(recorded_moments.MOMENTS + 2):
        here.now += 1
        await here.go_to(after(1000 - number))
    assert [frames.closed for frames in here.source.opened].count(False) == recorded_moments.MOMENTS
    assert not here.source.opened[-1].closed
    assert here.source.opened[0].closed


async def test_a_state_that_somebody_is_answered_from_stays_where_it_is() -> None:
    """The rest of an answer would be as of another moment than its beginning."""
    here = await world(wait_seconds=0.2)
    async with here.moments.at(after(10), request()) as state:
        assert await here.go_to(after(20)) == after(20)
        assert state.at_ns == after(10)
        async with contextlib.AsyncExitStack() as others:
            for number in range(1, recorded_moments.MOMENTS):
                await others.enter_async_context(here.moments.at(after(20 + number), request()))
            with pytest.raises(failures.HttpFailure, match="other moments are being looked at") as caught:
                await here.go_to(after(50))
            assert caught.value.code == 429
        assert await here.go_to(after(50)) == after(50)
    assert await here.go_to(after(10)) == after(10)


async def test_what_takes_long_is_said_to_and_is_nearer_the_next_time() -> None:
    """A request would wait until its caller gives up, or begin again each time and never come to its moment."""
    here = await world(wait_seconds=0.0)
    answers: list[int | failures.HttpFailure] = []
    while not answers or isinstance(answers[-1], failures.HttpFailure):
        try:
            answers.append(await here.go_to(after(FRAMES)))
        except failures.HttpFailure as failure:
            answers.append(failure)
    *refusals, moment = answers
    assert moment == after(FRAMES)
    assert {each.code for each in refusals if isinstance(each, failures.HttpFailure)} == {503}
    assert "% so far" in str(refusals[0])
    assert len(here.source.opened) == 1


async def test_what_nobody_waits_for_is_not_read_to_its_end() -> None:
    """Dragging the slider would read all moments on its way, and others would wait for that."""
    here, gone = await world(), Transport()
    waiting = asyncio.create_task(here.go_to(after(FRAMES), request(gone)))
    while not here.source.opened or here.source.opened[0].taken < recording_sources.FRAMES_PER_TURN:
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    here.now += 60
    for _ in range(100):
        await asyncio.sleep(0)
    read = here.source.opened[0].taken
    assert read < FRAMES
    # What was read is of use.
    assert await here.go_to(after(read + 1)) == after(read + 1)
    assert len(here.source.opened) == 1


@pytest.mark.slow
async def test_a_caller_who_is_gone_is_not_waited_for() -> None:
    """Aiohttp lets a handler go on when its client closes the connection: the answer would be made for nobody."""
    transport = Transport()
    transport.closing = True
    never = asyncio.get_running_loop().create_future()
    with pytest.raises(lost_requests.RequestLostError):
        await lost_requests.unless_lost(request(transport), never)
    assert never.cancelled()
    assert await lost_requests.unless_lost(request(), asyncio.sleep(0, "done")) == "done"
