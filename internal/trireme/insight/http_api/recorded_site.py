"""The console on a recording: the same pages as of a moment, which the reader moves.

`/v1/recording` answers the recording's times and the moment (GET), and moves it (POST). Forward, the frames up to the
new moment are taken; backward, all from where its source says that they begin. Where the recording is still being
written, its end moves on, and the moment stays where it is; where it was replaced by one that begins later, the moment
is its beginning.
"""

import asyncio
import pathlib

import orjson
from aiohttp import web

from trireme.insight import recorded_insight
from trireme.insight.console import console_state, documents
from trireme.insight.http_api import access, api, failures, recording_sources
from trireme.recording import segment_reader
from trireme.v1 import recording_pb2
from trireme_kube.componentbase.server import http_site, status_documents

PATH = "/v1/recording"
_MS = 1_000_000
_MAX_BODY = 1024


class RecordedSite:
    """The pages of one recording. `open` it first; it lets go of files when it is closed."""

    def __init__(self, path: pathlib.Path) -> None:
        """`path` is a file, or the folder that insight records in."""
        self._path = path
        self._source: recording_sources.Source | None = None
        self._callers = access.LoopbackAccess()
        self._moving = asyncio.Lock()
        self._still = asyncio.Event()
        self._frames: recording_sources.Frames | None = None
        self._next: recording_pb2.RecordedFrame | None = None
        self._insight: recorded_insight.RecordedInsight | None = None
        self._api: api.HttpApi | None = None
        self._at_ns = 0
        # That of the source whose frames are read; None: they cannot be read any further.
        self._restarts: int | None = None

    async def open(self, at_ns: int | None) -> None:
        """Read how far the recording reaches, and go to a moment, or to its end. Units: nanoseconds since 1970.

        Raises: OSError, RecordingError, ValueError: it is no recording, is damaged, or begins after that time.
        """
        self._source = recording_sources.source_at(self._path)
        await self._source.refresh()
        if at_ns is not None and at_ns < self._source.from_ns:
            raise ValueError("--at: the recording begins later")
        await self._go_to(self._source.to_ns if at_ns is None else at_ns)

    def close(self) -> None:
        """Close the files."""
        for each in (self._frames, self._source):
            if each is not None:
                each.close()

    def application(self) -> web.Application:
        """The pages for aiohttp."""
        return http_site.make_application(self.reply_to)

    async def reply_to(self, request: web.Request) -> http_site.Reply:
        """The page as of the moment, or a Status that says why there is none."""
        pretty = status_documents.is_for_people(request.headers.get("User-Agent", ""), request.query.get("pretty"))
        try:
            await self._refresh()
            if request.raw_path.partition("?")[0] == PATH:
                return await self._answer_recording(request)
        except failures.HttpFailure as error:
            return error.reply(pretty=pretty)
        await self._still.wait()
        assert self._api is not None  # `open` made it
        return await self._api.reply_to(request)

    async def _answer_recording(self, request: web.Request) -> http_site.Reply:
        """The recording and its moment, once that is where the request moves it. Raises: HttpFailure."""
        await self._callers.user_of(request)
        if request.method == "POST":
            moment = await _moment_of(request)
            if not self._span.from_ms <= moment <= self._span.to_ms:
                text = f"atMs: must be from {self._span.from_ms} to {self._span.to_ms}, when the recording was made"
                raise failures.bad_request(text)
            try:
                # Up to the end of that millisecond.
                await self._go_to(moment * _MS + _MS - 1)
            except (segment_reader.RecordingError, OSError, ValueError) as error:
                raise _not_readable(error) from error
        elif request.method != "GET":
            text = "only GET and POST are served here"
            raise failures.HttpFailure(405, "MethodNotAllowed", text, {"Allow": "GET, POST"})
        body = orjson.dumps(documents.recording_document(self._span), option=orjson.OPT_APPEND_NEWLINE)
        return http_site.Reply(body, http_site.JSON, headers={"X-Content-Type-Options": "nosniff"})

    async def _refresh(self) -> None:
        """Have the pages show how far the recording reaches by now. Raises: HttpFailure."""
        assert self._source is not None  # `open` made it
        try:
            await self._source.refresh()
            if self._insight is not None and self._restarts != self._source.restarts:
                await self._go_to(max(self._source.from_ns, min(self._at_ns, self._source.to_ns)))
        except (segment_reader.RecordingError, OSError, ValueError) as error:
            raise _not_readable(error) from error
        if self._insight is not None:
            self._insight.service.console.recording = self._span

    @property
    def _span(self) -> console_state.RecordingSpan:
        """The times of the recording and the moment."""
        assert self._source is not None  # `open` made it
        source = self._source
        at_ms = min(self._at_ns, source.to_ns) // _MS
        # What is shown stays, also once its part of the recording was deleted.
        from_ms = min(source.from_ns // _MS, at_ms)
        return console_state.RecordingSpan(source.name, from_ms, source.to_ns // _MS, at_ms)

    async def _go_to(self, at_ns: int) -> None:
        """Show that moment. Pages that are requested meanwhile wait. Raises: OSError, RecordingError, ValueError."""
        async with self._moving:
            self._still.clear()
            try:
                assert self._source is not None  # `open` made it
                is_stale = self._insight is None or self._restarts != self._source.restarts
                if is_stale or at_ns < self._at_ns or self._is_faster_from_later(at_ns):
                    self._begin_again(at_ns)
                # Until all is taken: frames that could not be read are missing.
                restarts, self._restarts = self._restarts, None
                insight, frames = self._insight, self._frames
                assert insight is not None
                assert frames is not None
                taken = 0
                self._next = self._next or frames.next_frame()
                while self._next is not None and self._next.unix_time_ns <= at_ns:
                    insight.take(self._next)
                    self._next = frames.next_frame()
                    taken += 1
                    if taken % recording_sources.FRAMES_PER_TURN == 0:
                        await asyncio.sleep(0)
                self._at_ns, self._restarts = at_ns, restarts
                insight.time_ns = self._span.at_ms * _MS
                insight.service.console.recording = self._span
            finally:
                self._still.set()

    def _is_faster_from_later(self, at_ns: int) -> bool:
        """Whether what is to be read for that moment begins behind the present one. Raises: OSError, ValueError."""
        assert self._source is not None  # `open` made it
        far = at_ns - self._at_ns > recording_sources.HISTORY_NS
        return far and self._source.start_of(at_ns) > self._at_ns

    def _begin_again(self, at_ns: int) -> None:
        """Go to before the first frame that is read for that moment. Raises: OSError, RecordingError, ValueError."""
        assert self._source is not None  # `open` made it
        frames, before = self._source.frames_for(at_ns), self._frames
        if before is not None:
            before.close()
        self._frames, self._next = frames, frames.next_frame()
        if self._frames.header is None:
            raise ValueError(f"{self._path}: there is no full state")
        self._insight, self._restarts = recorded_insight.RecordedInsight(self._frames.header), self._source.restarts
        self._api = api.HttpApi(self._insight.service, self._callers)


def _not_readable(error: Exception) -> failures.HttpFailure:
    """The answer where the recording cannot be read any more."""
    return failures.HttpFailure(500, "InternalError", f"the recording cannot be read: {error}")


async def _moment_of(request: web.Request) -> int:
    """The moment that the body names, in milliseconds since 1970. Raises: HttpFailure."""
    if request.content_type != "application/json":
        # A page of another site can send anything else without asking.
        text = "the body must be JSON: send Content-Type: application/json"
        raise failures.HttpFailure(415, "UnsupportedMediaType", text)
    body = await request.content.read(_MAX_BODY)
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise failures.bad_request('the body is no JSON: send {"atMs": MILLISECONDS}') from error
    if not isinstance(document, dict) or set(document) != {"atMs"} or type(document["atMs"]) is not int:
        raise failures.bad_request('the body must be {"atMs": MILLISECONDS}, a whole number')
    moment: int = document["atMs"]
    return moment
