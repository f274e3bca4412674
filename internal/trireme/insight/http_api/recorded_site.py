"""The console on a recording: the same pages as of a moment, which is a part of each request.

`/v1/recorded/MILLISECONDS/` stands in place of `/v1/` in the path of a page, and `/v1/recording` says from when to when
there are moments. Where the recording is still being written, its end moves on; where it was replaced by one that
begins later, moments before that are gone. A page without a moment is as of the one that the site was opened at, or the
newest.
"""

import pathlib
from collections.abc import Callable, Sequence

import orjson
import yarl
from aiohttp import web

from trireme.insight.console import console_state, documents
from trireme.insight.http_api import (
    access,
    console_pages,
    failures,
    lost_requests,
    recorded_moments,
    recorded_paths,
    recording_sources,
)
from trireme.recording import frame_times, segment_reader
from trireme.rpc import channels
from trireme_kube.apimachinery import timestamps
from trireme_kube.componentbase.server import http_site, status_documents

_MS = 1_000_000


class RecordedSite:
    """The pages of one recording. It lets go of files when it is closed."""

    def __init__(
        self,
        path: pathlib.Path,
        callers: access.Access | None = None,
        *,
        is_live: bool = False,
        on_memory_error: Callable[[], None] = lambda: None,
    ) -> None:
        """`path` is a file, or the folder that insight records in.

        `is_live`: its pages are a part of the console that shows the state of now. `on_memory_error` is called where
        there is not enough memory for an answer.
        """
        self._path = path
        self._callers = callers or access.LoopbackAccess()
        self._is_live = is_live
        self._on_memory_error = on_memory_error
        self._source: recording_sources.Source | None = None
        self._moments: recorded_moments.RecordedMoments | None = None
        # The moment of pages that name none; None: the newest.
        self._at_ms: int | None = None

    async def open(self, at_ns: int | None) -> None:
        """Read the recording up to a moment, or to its end, which pages show that name none.

        Units: nanoseconds since 1970. Raises: OSError, RecordingError, ValueError: it is no recording, is damaged, or
        begins after that time.
        """
        source, moments = await self._refresh()
        if at_ns is not None and at_ns < source.from_ns:
            raise ValueError("--at: the recording begins later")
        if at_ns is not None:
            self._at_ms = min(at_ns, source.to_ns) // _MS
        await moments.read(_end_of(self._default_ms(source)))

    def close(self) -> None:
        """Close the files."""
        for each in (self._moments, self._source):
            if each is not None:
                each.close()

    def application(self) -> web.Application:
        """The pages for aiohttp."""
        return http_site.make_application(self.reply_to)

    async def reply_to(self, request: web.Request) -> http_site.Reply:
        """The page as of its moment, or a Status that says why there is none."""
        pretty = status_documents.is_for_people(request.headers.get("User-Agent", ""), request.query.get("pretty"))
        try:
            return console_pages.reply_with_file(request) or await self._answer(request)
        except failures.HttpFailure as error:
            failure = error
        except lost_requests.RequestLostError:
            failure = failures.unavailable(channels.CLOSED)
        except (segment_reader.RecordingError, OSError) as error:
            failure = failures.HttpFailure(500, "InternalError", f"the recording cannot be read: {error}")
        except MemoryError:
            self._on_memory_error()
            failure = failures.unavailable("the cluster of that moment needs more memory than there is for the past")
        except ValueError as error:
            # As before the first full state is written, and after the last one is deleted.
            failure = failures.unavailable(f"the recording cannot be shown: {error}")
        return failure.reply(pretty=pretty)

    async def _answer(self, request: web.Request) -> http_site.Reply:
        """As `reply_to`. Raises: HttpFailure, OSError, RecordingError, RequestLostError, ValueError."""
        # Before anything is read for a user who may not see it.
        await self._callers.authenticate(request)
        source, moments = await self._refresh(recorded_moments.WAIT_SECONDS)
        path, query, rest = request.raw_path.partition("?")
        if path == recorded_paths.RECORDING:
            return self._answer_recording(request, source)
        found = recorded_paths.split(path)
        if found is None and recorded_paths.is_here(path):
            text = f"there is no such page; there is {recorded_paths.MOMENTS}MILLISECONDS/…"
            raise failures.HttpFailure(404, "NotFound", text)
        at_ms, path = found or (self._default_ms(source), path)
        if not moments.has(_end_of(at_ms)):
            _check_moment(at_ms, source)
        inner = request.clone(rel_url=yarl.URL(f"{path}{query}{rest}", encoded=True))
        async with moments.at(_end_of(at_ms), request) as state:
            gap = frame_times.gap_of(source.gaps(), at_ms * _MS)
            state.insight.show(at_ms * _MS, gap)
            gaps = () if gap is None else (gap,)
            state.insight.service.console.recording = self._span(source, at_ms, gaps)
            return await state.api.reply_to(inner)

    async def _refresh(
        self, wait_seconds: float | None = None
    ) -> tuple[recording_sources.Source, recorded_moments.RecordedMoments]:
        """The recording as far as it reaches by now, read within a time if one is given.

        Raises: OSError, RecordingError, ValueError.
        """
        if self._source is None or self._moments is None:
            self._source = recording_sources.open_source(self._path)
            self._moments = recorded_moments.RecordedMoments(self._source, self._callers)
        await self._source.refresh(wait_seconds)
        return self._source, self._moments

    def _answer_recording(self, request: web.Request, source: recording_sources.Source) -> http_site.Reply:
        """From when to when there are moments. Raises: HttpFailure."""
        if request.method != "GET":
            raise failures.only_get()
        document = documents.recording_document(self._span(source, self._default_ms(source), source.gaps()))
        body = orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)
        return http_site.Reply(body, http_site.JSON, headers={"X-Content-Type-Options": "nosniff"})

    def _default_ms(self, source: recording_sources.Source) -> int:
        """The moment of pages that name none."""
        newest = source.to_ns // _MS
        return newest if self._at_ms is None else max(min(self._at_ms, newest), source.from_ns // _MS)

    def _span(
        self, source: recording_sources.Source, at_ms: int, gaps: Sequence[frame_times.Gap]
    ) -> console_state.RecordingSpan:
        """The times of the recording, a moment, and gaps."""
        shown = tuple(
            console_state.RecordingGap(gap.from_ns // _MS, -(-gap.to_ns // _MS), gap.reason.value) for gap in gaps
        )
        return console_state.RecordingSpan(
            source.name,
            source.from_ns // _MS,
            source.to_ns // _MS,
            at_ms,
            is_live=self._is_live,
            gaps=shown,
            missing_decisions=source.numbers.missing,
            uncounted_gaps=source.numbers.uncounted_gaps,
        )


def _end_of(at_ms: int) -> int:
    """The end of that millisecond, in nanoseconds."""
    return at_ms * _MS + _MS - 1


def _check_moment(at_ms: int, source: recording_sources.Source) -> None:
    """Refuse a moment that is not recorded. Raises: HttpFailure."""
    from_ms, to_ms = source.from_ns // _MS, source.to_ns // _MS
    begin, end = timestamps.rfc3339_seconds(source.from_ns), timestamps.rfc3339_seconds(source.to_ns)
    if at_ms < from_ms:
        text = f"nothing is recorded, or kept, of that moment: the recording begins at {begin}"
        raise failures.HttpFailure(410, "Gone", text)
    if at_ms > to_ms:
        text = f"nothing is recorded yet of that moment: name one from {from_ms} to {to_ms} ({begin} to {end})"
        raise failures.bad_request(text)
