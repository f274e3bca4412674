"""The states of the cluster at the moments of a recording that readers look at; a few are kept.

A moment is part of each request, so readers do not move each other's. Forward, a state takes the frames up to the new
moment; backward, one is made from where the source says that its frames begin. A state that somebody is answered from
is not moved. Frames are taken for one moment after the other, and no further once nobody waits for it.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterator

from aiohttp import web

from trireme.insight import recorded_insight
from trireme.insight.http_api import access, api, failures, lost_requests, recording_sources
from trireme.v1 import recording_pb2

MOMENTS = 3
"""So many states are kept; each takes the memory of a snapshot and of half an hour of decisions."""
WAIT_SECONDS = 20.0
"""For so long a request waits for its moment; then it has to be sent again, and finds it nearer."""
# A state is moved no further once nobody has waited for it for so long.
_PATIENCE_SECONDS = 5.0


class _State:
    """The cluster as of `at_ns`, and the frames that follow. Units: nanoseconds since 1970."""

    def __init__(
        self, source: recording_sources.Source, callers: access.Access, at_ns: int, clock: Callable[[], float]
    ) -> None:
        """Begin where the source says for the moment `at_ns`. Raises: OSError, RecordingError, ValueError."""
        frames = source.frames_for(at_ns)
        self._frames = frames
        self._next: recording_pb2.RecordedFrame | None = frames.next_frame()
        if frames.header is None:
            frames.close()
            raise ValueError("there is no full state")
        self._clock = clock
        self._from_ns = at_ns if self._next is None else self._next.unix_time_ns
        self.restarts = source.restarts
        self.insight = recorded_insight.RecordedInsight(frames.header)
        self.api = api.HttpApi(self.insight.service, callers)
        #: Up to when frames are taken, and up to when they are to be.
        self.at_ns = 0
        self.wanted_ns = at_ns
        self.moving: asyncio.Task[None] | None = None
        #: Requests that are answered from it, or wait for it; when the last one ended.
        self.users = 0
        self.used = clock()

    @property
    def is_there(self) -> bool:
        """Whether it is at its moment."""
        return self.moving is not None and self.moving.done()

    @property
    def is_idle(self) -> bool:
        """Whether it may be moved, or let go of."""
        return not self.users and self.is_there

    @property
    def percent(self) -> int:
        """How far it is on its way from its first frame to the wanted moment."""
        way = max(self.wanted_ns - self._from_ns, 1)
        return max(min(100 * (self.at_ns - self._from_ns) // way, 99), 0)

    async def moved(self) -> None:
        """Return once it is at its moment. Raises: OSError, RecordingError, ValueError."""
        assert self.moving is not None  # it was begun with
        await asyncio.shield(self.moving)

    async def advance(self) -> None:
        """Take the frames up to the wanted moment, or as long as somebody waits. Raises: OSError, ValueError."""
        taken = 0
        self._next = self._next or self._frames.next_frame()
        while self._next is not None and self._next.unix_time_ns <= self.wanted_ns:
            self.at_ns = max(self.at_ns, self._next.unix_time_ns)
            self.insight.take(self._next)
            self._next = self._frames.next_frame()
            taken += 1
            if taken % recording_sources.FRAMES_PER_TURN == 0:
                await asyncio.sleep(0)
                if not self.users and self._clock() - self.used > _PATIENCE_SECONDS:
                    self.wanted_ns = self.at_ns
                    return
        self.at_ns = self.wanted_ns

    def close(self) -> None:
        """Let go of files."""
        self._frames.close()


class RecordedMoments:
    """The states of one recording."""

    def __init__(
        self,
        source: recording_sources.Source,
        callers: access.Access,
        *,
        wait_seconds: float = WAIT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._callers = callers
        self._wait_seconds = wait_seconds
        self._clock = clock
        self._states: list[_State] = []
        # Frames are taken for one of them at a time.
        self._turn = asyncio.Lock()
        # Set when a state may have become idle.
        self._freed = asyncio.Event()

    def has(self, at_ns: int) -> bool:
        """Whether there is a state of this moment."""
        return self._find(at_ns) is not None

    async def read(self, at_ns: int) -> None:
        """Have the state of a moment. Raises: OSError, RecordingError, ValueError."""
        state = self._find(at_ns) or self._begin(at_ns)
        assert state is not None  # nobody has asked for one yet
        with self._using(state):
            await state.moved()

    @contextlib.asynccontextmanager
    async def at(self, at_ns: int, request: web.Request) -> AsyncIterator[_State]:
        """The state at a moment, within the block. Raises: HttpFailure, OSError, RecordingError, ValueError."""
        deadline = asyncio.get_running_loop().time() + self._wait_seconds
        while (state := self._find(at_ns) or self._begin(at_ns)) is None:
            self._freed.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await lost_requests.unless_lost(request, self._freed.wait())
            except TimeoutError as error:
                raise failures.busy(f"{MOMENTS} other moments are being looked at: try again") from error
        with self._using(state):
            if not state.is_there:
                await self._until_there(state, request, deadline)
            yield state

    async def _until_there(self, state: _State, request: web.Request, deadline: float) -> None:
        """Return once the state is at its moment. Raises: HttpFailure, OSError, RecordingError, ValueError."""
        try:
            async with asyncio.timeout_at(deadline):
                await lost_requests.unless_lost(request, state.moved())
        except TimeoutError as error:
            text = f"what was recorded up to that moment is being read, {state.percent} % so far: try again"
            raise failures.unavailable(text) from error

    def close(self) -> None:
        """Let go of files."""
        for state in self._states:
            if state.moving is not None:
                state.moving.cancel()
            state.close()
        self._states = []

    @contextlib.contextmanager
    def _using(self, state: _State) -> Iterator[None]:
        """Have the state stay where it is, or arrive there, within the block."""
        state.users += 1
        try:
            yield
        finally:
            state.users -= 1
            state.used = self._clock()
            self._freed.set()

    def _find(self, at_ns: int) -> _State | None:
        """The state at this moment, or on its way there; those of a recording that is replaced are let go of."""
        for state in [each for each in self._states if each.restarts != self._source.restarts and each.is_idle]:
            self._drop(state)
        current = (each for each in self._states if each.restarts == self._source.restarts)
        return next((each for each in current if each.wanted_ns == at_ns), None)

    def _begin(self, at_ns: int) -> _State | None:
        """Begin to move a state to a moment; None: all are in use. Raises: OSError, RecordingError, ValueError."""
        state = self._nearest_before(at_ns)
        if state is None:
            if not self._make_room():
                return None
            state = _State(self._source, self._callers, at_ns, self._clock)
            self._states.append(state)
        state.wanted_ns = at_ns
        state.moving = asyncio.create_task(self._move(state))
        state.moving.add_done_callback(_take_exception)
        return state

    def _nearest_before(self, at_ns: int) -> _State | None:
        """The state that has the fewest frames to take up to a moment; None: one from the beginning has fewer."""
        idle = [each for each in self._states if each.is_idle and each.at_ns <= at_ns]
        found = max(idle, key=lambda each: each.at_ns, default=None)
        if found is None:
            return None
        far = at_ns - found.at_ns > recording_sources.HISTORY_NS
        return None if far and self._source.start_of(at_ns) > found.at_ns else found

    def _make_room(self) -> bool:
        """Let go of the state used longest ago, if there are as many as there may be; False: all are in use."""
        if len(self._states) < MOMENTS:
            return True
        oldest = min((each for each in self._states if each.is_idle), key=lambda each: each.used, default=None)
        if oldest is not None:
            self._drop(oldest)
        return oldest is not None

    async def _move(self, state: _State) -> None:
        """Bring a state to its moment. Raises: OSError, RecordingError, ValueError."""
        try:
            async with self._turn:
                await state.advance()
        except BaseException:
            # Frames that were not taken are missing.
            self._drop(state)
            raise
        finally:
            self._freed.set()

    def _drop(self, state: _State) -> None:
        """Let go of a state."""
        if state in self._states:
            self._states.remove(state)
            state.close()


def _take_exception(task: asyncio.Task[None]) -> None:
    """Mark the exception as seen: requests that wait raise it themselves, and without any asyncio would log it."""
    if not task.cancelled():
        task.exception()
