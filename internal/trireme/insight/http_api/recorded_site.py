"""The console on a recording: the same pages as of a moment, which the reader moves.

`/v1/recording` answers the recording's times and the moment (GET), and moves it (POST). Forward, the frames up to the
new moment are taken; backward, all from the beginning.
"""

import asyncio
import pathlib
from collections.abc import Iterator
from typing import BinaryIO

import orjson
from aiohttp import web

from trireme.insight import recorded_insight
from trireme.insight.console import console_state, documents
from trireme.insight.http_api import access, api, failures
from trireme.recording import frame_totals, segment_reader
from trireme.v1 import recording_pb2
from trireme_kube.componentbase.server import http_site, status_documents

PATH = "/v1/recording"
_MS = 1_000_000
# Frames taken between two turns of the event loop.
_FRAMES_PER_TURN = 50
_MAX_BODY = 1024


class RecordedSite:
    """The pages of one recording. `open` it first; it lets go of the file when it is closed."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._callers = access.LoopbackAccess()
        self._moving = asyncio.Lock()
        self._still = asyncio.Event()
        self._frames: Iterator[recording_pb2.RecordedFrame] = iter(())
        self._next: recording_pb2.RecordedFrame | None = None
        self._insight: recorded_insight.RecordedInsight | None = None
        self._api: api.HttpApi | None = None
        self._from_ns = self._to_ns = self._at_ns = 0

    async def open(self, at_ns: int | None) -> None:
        """Read the file, and go to a moment, or to its end. Units: nanoseconds since 1970.

        Raises: OSError, RecordingError, ValueError: it is no recording, is damaged, or ends before that time.
        """
        self._file = self._path.open("rb")
        reader = self._read_from_start()
        totals = frame_totals.FrameTotals()
        for number, frame in enumerate(reader.frames()):
            totals.add(frame)
            if number % _FRAMES_PER_TURN == 0:
                await asyncio.sleep(0)
        if reader.header is None or not totals.frames:
            raise ValueError(f"{self._path}: the file ends before its full state is complete")
        self._from_ns, self._to_ns = reader.header.start_unix_ns, max(totals.end_ns, reader.header.start_unix_ns)
        if at_ns is not None and at_ns < self._from_ns:
            raise ValueError("--at: the recording begins later")
        await self._go_to(self._to_ns if at_ns is None else at_ns)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def application(self) -> web.Application:
        """The pages for aiohttp."""
        return http_site.make_application(self.reply_to)

    async def reply_to(self, request: web.Request) -> http_site.Reply:
        """The page as of the moment, or a Status that says why there is none."""
        pretty = status_documents.is_for_people(request.headers.get("User-Agent", ""), request.query.get("pretty"))
        if request.raw_path.partition("?")[0] == PATH:
            try:
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
            except (segment_reader.RecordingError, ValueError) as error:
                raise failures.HttpFailure(500, "InternalError", f"the recording cannot be read: {error}") from error
        elif request.method != "GET":
            text = "only GET and POST are served here"
            raise failures.HttpFailure(405, "MethodNotAllowed", text, {"Allow": "GET, POST"})
        body = orjson.dumps(documents.recording_document(self._span), option=orjson.OPT_APPEND_NEWLINE)
        return http_site.Reply(body, http_site.JSON, headers={"X-Content-Type-Options": "nosniff"})

    @property
    def _span(self) -> console_state.RecordingSpan:
        """The times of the recording and the moment."""
        at_ms = min(self._at_ns, self._to_ns) // _MS
        return console_state.RecordingSpan(self._path.name, self._from_ns // _MS, self._to_ns // _MS, at_ms)

    async def _go_to(self, at_ns: int) -> None:
        """Show that moment. Pages that are requested meanwhile wait. Raises: RecordingError, ValueError."""
        async with self._moving:
            self._still.clear()
            try:
                if self._insight is None or at_ns < self._at_ns:
                    self._begin_again()
                insight = self._insight
                assert insight is not None
                taken = 0
                while self._next is not None and self._next.unix_time_ns <= at_ns:
                    insight.take(self._next)
                    self._next = next(self._frames, None)
                    taken += 1
                    if taken % _FRAMES_PER_TURN == 0:
                        await asyncio.sleep(0)
                self._at_ns = at_ns
                insight.time_ns = self._span.at_ms * _MS
                insight.service.console.recording = self._span
            finally:
                self._still.set()

    def _begin_again(self) -> None:
        """Go to before the first frame. Raises: RecordingError, ValueError."""
        reader = self._read_from_start()
        assert reader.header is not None  # `open` has read it
        self._insight = recorded_insight.RecordedInsight(reader.header)
        self._api = api.HttpApi(self._insight.service, self._callers)
        self._frames = reader.frames()
        self._next = next(self._frames, None)

    def _read_from_start(self) -> segment_reader.SegmentReader:
        """A reader at the beginning of the file. Raises: RecordingError."""
        assert self._file is not None
        self._file.seek(0)
        return segment_reader.SegmentReader(self._file, str(self._path))


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
