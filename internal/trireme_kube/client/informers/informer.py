"""Informers: each follows one collection of the API by list and watch, and passes its events to consumers.

This is the shell around `listwatch.ListWatch`: it sends the requests, splits the bytes of the watch into events and
delivers them. It stores no objects: the caller's function decodes each one, and consumers get them in order, all events
of one network chunk together. A list is streamed, or read page by page, so that even a hundred thousand nodes are never
in memory in their encoded form. It requests the encodings that the caller can decode and reads the one that the server
chose.

If decoding an object raises, the informer counts, logs and skips that event and continues. A consumer that raises is a
defect, and ends `run`.

Tests: tests/unit/client/informers/test_informer_failures.py, tests/contract/test_kube_informer.py,
tests/contract/test_kube_informer_catching_up.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from trireme_kube.client.informers import discovery, list_prefetch, listwatch, pages, protobuf, resources, watch
from trireme_kube.client.informers.watch import Event, EventKind, Raw
from trireme_kube.client.rest import client, content_types, errors, transport
from trireme_kube.client.rest.errors import FORBIDDEN, NOT_FOUND, ApiError, ApiSilent, ApiUnreachable
from trireme_kube.componentbase import supervision

log = logging.getLogger(__name__)

T = TypeVar("T")

# How often `relist` polls for the delivery of a list.
POLL_SECONDS = 0.02
# How often a failure that lasts is a warning; client-go's reflector logs each, by a back-off of up to a minute.
REPEAT_WARNING_SECONDS = 60.0
# How long an event of something just written takes to come by itself, before the watch is opened anew for it.
EVENT_SECONDS = 1.0
# Decoding takes some 20 to 60 µs an event: a larger batch would block the event loop for too long.
EVENTS_PER_TURN = 256


@dataclasses.dataclass(frozen=True, slots=True)
class InformerStatistics:
    """State and counters of one informer."""

    name: str  # of the collection
    state: str  # listing, watching or absent
    synced: bool  # whether the first list was delivered whole
    version: int  # every event up to this resourceVersion was delivered
    lists: int  # lists that were delivered whole
    pages: int  # pages of lists
    watches: int  # watches opened
    events: int  # events of watches
    bookmarks: int  # bookmarks of watches
    expirations: int  # times that our version had expired (410)
    failures: int  # requests that failed, and watches that broke
    undecodable: int  # events skipped because their object could not be decoded
    last_error: str  # the last failure; "" after the next success, and while a watch is open
    last_status: int  # the HTTP status of that failure; 0: it was no answer of the API server

    @property
    def denied(self) -> bool:
        """The API server does not let us read the collection, as far as the last failure says."""
        return self.last_status in (errors.UNAUTHORIZED, errors.FORBIDDEN)


class Informer(Generic[T]):
    """Follows one collection."""

    def __init__(
        self,
        api: client.ApiClient,
        resource: resources.Resource,
        decode: Callable[[Mapping[str, Any]], T],
        consumers: Sequence[Callable[[Sequence[Event[T]]], None]],
        *,
        decode_protobuf: Callable[[bytes], T] | None = None,
        prefetch: list_prefetch.ListPrefetch | None = None,
        streams: bool = True,
        rng: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """An informer for `resource`, which `run` starts.

        `consumers` take events, in order; they must neither block nor raise.
        `decode_protobuf` is `decode` for an object's bytes: with it the client's encodings are requested, without it
        JSON. `prefetch` is the first list if it was begun already, as a stream. `streams`: lists may come as
        streams. Without it the caller must not prefetch: the first list is read in pages then, a second time.
        """
        self.resource = resource
        self._versions = resource.versions()
        self._version = 0  # index of the one that is requested
        self._api = api
        self._decode = decode
        self._decode_protobuf = decode_protobuf
        self._wants_json = decode_protobuf is None
        self._consumers = tuple(consumers)
        self._clock = clock
        self._protocol = listwatch.ListWatch(resource, rng, streams=streams)
        self._interrupt = asyncio.Event()
        self._prefetch = prefetch
        self._pages: pages.Pages | None = None  # of the list under way
        self._synced = False
        self._delivering = False
        self._running = False
        self._stream: transport.ByteStream | list_prefetch.ListPrefetch | None = None
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._relist_requested: asyncio.Future[None] | None = None  # done when a list not yet begun was delivered
        self._background = supervision.Supervisor()
        self._undecodable = 0
        self._warned_at = 0.0  # when a failed request was last a warning
        self._was_absent = False  # the server did not serve the collection, which has not been listed since

    @property
    def synced(self) -> bool:
        """Whether the first list was delivered completely."""
        return self._synced

    @property
    def absent(self) -> bool:
        """Whether the collection counts as empty because the API server does not serve it."""
        return self._protocol.state is listwatch.State.ABSENT

    @property
    def _requested(self) -> resources.Resource:
        """The collection in the version of the API that is requested."""
        return self._versions[self._version]

    @property
    def version(self) -> int:
        """Every event up to this resourceVersion was delivered."""
        return self._protocol.version

    def statistics(self) -> InformerStatistics:
        """A snapshot of the counters."""
        protocol, counters = self._protocol, self._protocol.counters
        return InformerStatistics(
            name=self.resource.name,
            state=protocol.state.value,
            synced=self._synced,
            version=protocol.version,
            lists=counters.lists,
            pages=counters.pages,
            watches=counters.watches,
            events=counters.events,
            bookmarks=counters.bookmarks,
            expirations=counters.expirations,
            failures=counters.failures,
            undecodable=self._undecodable,
            last_error=protocol.last_error if self._stream is None else "",
            last_status=protocol.last_status if self._stream is None else 0,
        )

    async def run(self) -> None:
        """Follow the collection until cancelled.

        Raises: TaskEnded: a list that was requested failed; what a consumer raises.
        """
        self._running = True
        if self._prefetch is not None and self._prefetch.accept != self._accept_header:
            await self._prefetch.end()
            self._prefetch = None
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._background.failure())
                await self._take_steps()
        except BaseExceptionGroup as group:
            if len(group.exceptions) > 1:
                raise
            raise group.exceptions[0] from None
        finally:
            await self._background.close()
            self._relist_requested, self._running = None, False
            await self._close_pages()
            if self._prefetch is not None:
                await self._prefetch.end()

    async def _take_steps(self) -> None:
        """Do what the protocol says next, until cancelled."""
        while True:
            step = self._protocol.next_step()
            self._interrupt.clear()
            match step:
                case listwatch.Pause():
                    await self._wait_or_be_interrupted(step.seconds)
                case listwatch.ListPage():
                    await self._list_one_page(step)
                case listwatch.StreamList() | listwatch.OpenWatch():
                    await self._watch_to_end(step)

    @property
    def _accept_header(self) -> str:
        return content_types.JSON if self._wants_json else self._api.accept

    def request_json(self) -> None:
        """Request JSON from the next request on; `relist` reads all objects again in it."""
        self._wants_json = True

    async def relist(self) -> None:
        """Read the whole collection again, and return when all of it has been delivered.

        For callers whose decoding has changed. An informer that does not run yet has nothing to read again. The
        collection is read again even if the caller is cancelled meanwhile.
        """
        if not self._running:
            return
        if self._relist_requested is None:
            self._relist_requested = asyncio.get_running_loop().create_future()
            self._background.start(self._relist(self._relist_requested))
        await asyncio.shield(self._relist_requested)

    async def _relist(self, delivered: asyncio.Future[None]) -> None:
        """Have the collection listed once no list is under way, and set the future when it has been delivered."""
        try:
            while not self._is_idle():  # noqa: ASYNC110  # rare, and its parts change in many places
                await asyncio.sleep(POLL_SECONDS)
            self._relist_requested = None  # who requests a list from now on needs another one
            before = self._protocol.counters.lists
            self._protocol.relist()
            self._interrupt.set()
            if self._stream is not None:
                self._stream.close()
            while self._protocol.counters.lists == before or not self._is_idle():  # noqa: ASYNC110  # as above
                await asyncio.sleep(POLL_SECONDS)
            delivered.set_result(None)
        finally:
            delivered.cancel()  # of no effect once it is set

    def _is_idle(self) -> bool:
        listing = self._protocol.state is listwatch.State.LISTING
        return self._synced and not listing and not self._delivering

    async def wait_for_version(self, version: int, deadline: float) -> None:
        """Return when every event up to `version` was delivered; an idle collection is read rather than waited for.

        Raises: TimeoutError: not within `deadline` seconds. ApiError: the API server refuses that.
        """
        if not self._protocol.has_delivered(version):
            self._request_version(version)
        await self._until_delivered(version, deadline)

    async def _until_delivered(self, version: int, deadline: float) -> None:
        """Return when every event up to `version` was delivered.

        Raises: TimeoutError: not within `deadline` seconds. ApiError: the API server refuses that.
        """
        if self._protocol.has_delivered(version) and not self._delivering:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((version, future))
        try:
            async with asyncio.timeout(deadline):
                await future
        finally:
            self._waiting = [entry for entry in self._waiting if entry[1] is not future]

    def _request_version(self, version: int) -> None:
        """Have all events up to `version` delivered soon."""
        self._protocol.request_version(version)
        self._interrupt.set()
        # Wait for a list in progress: aborting it would only restart it.
        if self._stream is not None and not self._protocol.streaming:
            self._stream.close()

    async def catch_up(self, deadline: float) -> int:
        """Read the collection's newest version from the server and return it when that much was delivered.

        The version is 0 of a collection that was absent, and is not served or may not be listed now: nothing of it was
        ever delivered.

        Raises: TimeoutError: not within `deadline` seconds. ApiError, ApiUnreachable: the version could not be read,
        or what leads up to it is refused, as to a role with `list` and without `watch`.
        """
        end = self._clock() + deadline
        try:
            version = await fetch_newest_version(self._api, self._requested, deadline)
        except ApiError as error:
            was_never_listed = self._synced and not self._protocol.counters.lists
            if was_never_listed and (error.not_found or error.status == FORBIDDEN):
                return 0
            raise
        if self._protocol.state is listwatch.State.ABSENT:
            self._request_version(version)
        await self.wait_for_version(version, max(end - self._clock(), 0.001))
        return version

    async def catch_up_with(self, namespace: str, name: str, deadline: float) -> None:
        """Return when one object was delivered as the server has it now, or newer, or when it is not there.

        Raises: TimeoutError: not within `deadline` seconds. ApiError, ApiUnreachable: the version could not be read,
        or what leads up to it is refused, as to a role with `list` and without `watch`.
        """
        end = self._clock() + deadline
        version = await _fetch_version_of(self._api, self._requested, namespace, name, deadline)
        try:
            await self._until_delivered(version, min(EVENT_SECONDS, max(end - self._clock(), 0.001)))
        except TimeoutError:
            await self.wait_for_version(version, max(end - self._clock(), 0.001))

    async def _wait_or_be_interrupted(self, seconds: float) -> None:
        """Wait so long, or until a request interrupts the wait."""
        try:
            async with asyncio.timeout(seconds):
                await self._interrupt.wait()
        except TimeoutError:
            pass

    async def _list_one_page(self, step: listwatch.ListPage) -> None:
        """Read one page of the list and deliver what the protocol makes of it.

        The pages live across calls, up to the last page or a failure, which the protocol answers with its next step.
        """
        if self._prefetch is not None:
            self._pages = self._prefetch.pages
            self._prefetch = None
        if self._pages is None:
            self._pages = pages.Pages(self._api, self._requested, self._accept_header, step.limit)
        try:
            items, metadata = await self._pages.next()
        except (ApiError, ApiUnreachable) as error:
            await self._close_pages()
            await self._record_failure(error)
            return
        deliveries = self._protocol.page(items, metadata)
        if not metadata.get("continue"):
            await self._close_pages()
        await self._deliver(deliveries)

    async def _close_pages(self) -> None:
        """Stop reading the list in pages, if one is being read."""
        pages_to_close, self._pages = self._pages, None
        if pages_to_close is not None:
            await pages_to_close.close()

    def _open_stream(
        self, step: listwatch.StreamList | listwatch.OpenWatch
    ) -> contextlib.AbstractAsyncContextManager[transport.ByteStream | list_prefetch.ListPrefetch]:
        """Open a watch or a streaming list; a list opened ahead of time is used in its place."""
        if isinstance(step, listwatch.StreamList):
            if self._prefetch is not None:
                return self._prefetch
            params = list_prefetch.stream_parameters(self.resource, step.version, step.seconds)
        else:
            params = {
                **self.resource.selectors(),
                "watch": "true",
                "allowWatchBookmarks": "true",
                "resourceVersion": step.version,
                "timeoutSeconds": step.seconds,
            }
        total = step.seconds + list_prefetch.GRACE_SECONDS
        idle = list_prefetch.IDLE_SECONDS
        return self._api.stream(self._requested.path, params, total=total, idle=idle, accept=self._accept_header)

    async def _watch_to_end(self, step: listwatch.StreamList | listwatch.OpenWatch) -> None:
        """Follow one watch or streaming list to its end, and tell the protocol how it ended.

        A stream that we ended ourselves counts as no failure, unless it was a list that had not ended.
        """
        started = self._clock()
        try:
            async with self._open_stream(step) as stream:
                self._prefetch = None
                self._stream = stream
                self._protocol.opened()
                await self._deliver_stream(stream)
        except ApiSilent:
            self._protocol.closed(self._clock() - started)
        except (ApiError, ApiUnreachable, watch.BrokenStream) as error:
            if self._prefetch is not None and self._prefetch.pages is None:
                self._prefetch = None  # refused, and paging would not help
            broken_off = self._interrupt.is_set() and not self._protocol.streaming  # by ourselves
            if not (broken_off and isinstance(error, ApiUnreachable)):
                await self._record_failure(error)
        else:
            if not self._interrupt.is_set() or self._protocol.streaming:
                self._protocol.closed(self._clock() - started)
        finally:
            self._stream = None

    async def _deliver_stream(self, stream: transport.ByteStream | list_prefetch.ListPrefetch) -> None:
        """Deliver the events of an open watch until it ends.

        Raises:
          ApiError: the server ended it with an error.
          ApiUnreachable, watch.BrokenStream: it broke.
        """
        framed = content_types.is_protobuf(stream.content_type)
        cut = protobuf.WatchEventDecoder() if framed else watch.LineDecoder()
        while (self._protocol.streaming or not self._interrupt.is_set()) and (chunk := await stream.chunk()):
            listing = self._protocol.streaming
            deliveries, error = self._protocol.events(cut.feed(chunk))
            await self._deliver(deliveries)
            if listing and not (self._protocol.streaming or self._protocol.is_behind):
                self._interrupt.clear()  # the list already reached the version requested meanwhile
            if error is not None:
                raise error

    async def _deliver(self, deliveries: Sequence[listwatch.Delivery]) -> None:
        """Decode the deliveries and pass them to the consumers, yielding to the event loop between batches."""
        self._delivering = True
        for start in range(0, len(deliveries), EVENTS_PER_TURN):
            if start:
                await asyncio.sleep(0)
            events = self._decode_deliveries(deliveries[start : start + EVENTS_PER_TURN])
            if events:
                for consume in self._consumers:
                    consume(events)
        self._delivering = False
        self._synced = self._protocol.listed
        if self._was_absent and self._protocol.state is listwatch.State.WATCHING:
            self._was_absent = False
            log.info("%s: the API server serves it by now", self._requested.api)
        for version, future in self._waiting:
            if self._protocol.has_delivered(version) and not future.done():
                future.set_result(None)

    def _decode_deliveries(self, deliveries: Sequence[listwatch.Delivery]) -> list[Event[T]]:
        """Decode the objects of deliveries; one that cannot be decoded is reported and left out."""
        events: list[Event[T]] = []
        for delivery in deliveries:
            if delivery.kind in (EventKind.LIST_START, EventKind.LIST_END):
                events.append(Event(delivery.kind, None))
                continue
            try:
                decoded = self._decode_object(delivery.raw)
            except Exception as error:  # one bad object must not stop the others
                self._report_undecodable(delivery.raw, error)
                continue
            events.append(Event(delivery.kind, decoded))
        return events

    def _decode_object(self, raw: Raw) -> T:
        """Decode an object by its encoding. Raises: TypeError for protobuf that was not requested."""
        if not isinstance(raw, bytes):
            return self._decode(raw)
        if self._decode_protobuf is None:
            raise TypeError("the server sends protobuf, which was not requested")
        return self._decode_protobuf(raw)

    def _report_undecodable(self, raw: Raw, error: Exception) -> None:
        """Count and log an object that cannot be decoded."""
        self._undecodable += 1
        metadata = watch.metadata_of(raw)
        text = "a %s cannot be decoded: %s: %r; it is skipped until somebody corrects it"
        log.warning(text, self.resource.kind, _namespaced_name_of(metadata), error)

    async def _record_failure(self, error: ApiError | ApiUnreachable | watch.BrokenStream) -> None:
        """Tell the protocol of a failure, log it (again only now and then), and deliver what follows from it.

        If the server does not serve this version of the API, and there is an earlier one, that is requested at once.
        """
        error = await self._absence_or(error)
        if isinstance(error, ApiError) and error.not_found:
            self._version = (self._version + 1) % len(self._versions)
            if self._version:
                return
        first, before = not self._protocol.last_error, self._protocol.counters.failures
        deliveries = self._protocol.failed(error)
        if isinstance(error, ApiError) and error.denied and self._protocol.counters.failures > before:
            self._refuse_waiting(error)
        if self._protocol.last_error:
            now = self._clock()
            is_due = first or now - self._warned_at >= REPEAT_WARNING_SECONDS
            if is_due:
                self._warned_at = now
            text = errors.with_advice(error)
            log.log(logging.WARNING if is_due else logging.DEBUG, "%s: %s; it is tried again", self.resource.name, text)
        self._was_absent = self._was_absent or self.absent
        await self._deliver(deliveries)

    def _refuse_waiting(self, error: ApiError) -> None:
        """Raise the error to those that wait for events: they would learn only that these did not come in time."""
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(error)

    async def _absence_or(
        self, error: ApiError | ApiUnreachable | watch.BrokenStream
    ) -> ApiError | ApiUnreachable | watch.BrokenStream:
        """The error, or a 404 in its place if we may not list what the server does not serve anyway."""
        is_refusal = isinstance(error, ApiError) and error.status == FORBIDDEN
        if not is_refusal or not self.resource.optional or self._protocol.counters.lists:
            return error
        try:
            is_served = await discovery.is_served(self._api, self._requested)
        except (ApiError, ApiUnreachable):
            return error
        if is_served:
            self._protocol.note_served()
            return error
        return ApiError(NOT_FOUND, "NotFound", f"{self._requested.api} is not served")


async def fetch_newest_version(api: client.ApiClient, resource: resources.Resource, deadline: float) -> int:
    """Fetch the collection's newest resourceVersion, by a quorum read.

    Raises:
      ApiError, ApiUnreachable: the server did not say.
    """
    response = await api.read(resource.path, {"limit": 1}, deadline=deadline)
    _, metadata = pages.decode_page(response)
    return watch.version_of({"metadata": metadata})


def _namespaced_name_of(metadata: Mapping[str, Any]) -> str:
    """Return `namespace/name` for log lines."""
    if not metadata:
        return "without metadata"
    return f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}".strip("/")


async def _fetch_version_of(
    api: client.ApiClient, resource: resources.Resource, namespace: str, name: str, deadline: float
) -> int:
    """Fetch an object's resourceVersion by a quorum read; 0: it is not there. It needs no more rights than informers.

    Raises: ApiError, ApiUnreachable: the server did not say.
    """
    query = {"fieldSelector": f"metadata.name={name}"}
    items, _ = pages.decode_page(await api.read(resource.path_in(namespace), query, deadline=deadline))
    return max(map(watch.version_of, items), default=0)
