"""Records events about objects and writes them to the API in the background.

An event never delays scheduling: `record` puts it into a bounded queue and returns; writers with their own rate limit
and connection pool drain the queue. Bindings and evictions use the same API server and have priority: one event is
written at a time, plus one for each `LATE_SECONDS` that the oldest has waited. So an idle API server gets events as
they come, and in a burst of pods, where bindings alone would keep it busy, events are written as fast as bindings once
they are a second late. If the API server cannot keep up, the oldest events are dropped and counted. The frequent one,
`Scheduled`, costs one POST and one dictionary.

Events are objects of events.k8s.io/v1 if the server serves it (checked once, at start), else of core/v1; the event on
the Lease is always core/v1, as kube-scheduler's is. Repeated events become a series (`event_series`); similar core/v1
events are aggregated and limited per object (`event_correlation`). A write that reached no server is retried up to 12
times, about ten seconds apart; a refusal by the server is final.
Source: client-go tools/events and tools/record.

Also change: internal/trireme_kube/embedded/controllers/event_recorder.py (the events of pods).
Also change: tools/bench/limit/main.go, internal/trireme/scheduling/attempt_reporter.py,
internal/trireme/framework/pod_conditions.py (how the scheduler's writes look).

Tests: tests/contract/test_kube_events.py.
"""

import asyncio
import collections
import dataclasses
import functools
import logging
import random
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson

from trireme_kube.apimachinery import event_text, timestamps
from trireme_kube.client.events import event_correlation, event_series
from trireme_kube.client.events.event_series import ObjectReference, Series, SeriesCache, SeriesKey
from trireme_kube.client.rest import client
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable
from trireme_kube.componentbase import clocks, supervision

log = logging.getLogger(__name__)

NORMAL = "Normal"
WARNING = "Warning"

EVENTS_GROUP = "/apis/events.k8s.io/v1"
MAX_TRIES = 12
RETRY_SECONDS = 10.0
RETRY_JITTER = 0.25
WRITE_DEADLINE_SECONDS = 30.0
# Some 80 MB. At the default rate limit of 50 a second the events of so many pods take half an hour.
QUEUE_LIMIT = 100_000
# The most writes in flight: as many as bind has bindings in flight. With fewer, bindings would get the larger part of a
# busy API server for as long as a burst lasts. LATE_SECONDS is the delay that admits one more write.
WRITERS = 64
# How often dropping events is a warning, while it goes on.
REPEAT_WARNING_SECONDS = 60.0
LATE_SECONDS = 1.0 / WRITERS
# Writes waiting for the rate limit count against their deadline: start no more than it admits within this time.
MAX_DELAY_SECONDS = 1.0
# A write that takes longer no longer blocks the next ones.
SLOW_SECONDS = 0.25
HOUSEKEEPING_SECONDS = 60.0


@dataclasses.dataclass(slots=True)
class Write:
    """A queued write: the latest state of `series` if set, else the new object in `body`."""

    collection: str
    body: bytes
    series: Series | None = None
    legacy: bool = False
    since: float = 0.0  # when it was queued, by the recorder's clock


@dataclasses.dataclass(frozen=True, slots=True)
class EventStatistics:
    """Counters of a recorder."""

    recorded: int = 0  # events recorded
    written: int = 0  # writes that the server accepted
    refused: int = 0  # writes that the server refused for good
    unsent: int = 0  # writes that reached no server in any try
    dropped: int = 0  # events dropped from a full queue
    queued: int = 0  # writes in the queue
    series: int = 0  # series in memory


class EventRecorder:
    """Writes events. `run` must be running for anything to be sent. Single-threaded."""

    def __init__(
        self,
        api: client.ApiClient,
        *,
        hostname: str | None = None,
        queue_limit: int = QUEUE_LIMIT,
        writers: int = WRITERS,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], int] = clocks.wall_ns,
        rng: Callable[[], float] = random.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api = api
        self._hostname = hostname if hostname is not None else socket.gethostname()
        self._queue_limit = queue_limit
        self._writers = writers
        self._clock = clock
        self._wall = wall
        self._rng = rng
        self._sleep = sleep
        self._queue: collections.deque[Write] = collections.deque()
        self._idle = asyncio.Event()
        self._idle.set()
        self._waiting: collections.deque[asyncio.Future[None]] = collections.deque()  # idle writers
        self._writing: set[int] = set()  # busy writers, except those whose write exceeds SLOW_SECONDS
        self._unfinished = 0  # writes queued or in flight
        self._in_a_hurry = False
        self._legacy_only: bool | None = None  # None until `discover`
        self._series = SeriesCache()
        self._legacy_series = SeriesCache(event_correlation.MAX_ENTRIES)
        self._correlator = event_correlation.Correlator()
        self._warned_at = 0.0  # when dropped events were last a warning
        self._recorded = self._written = self._refused = self._unsent = self._dropped = 0
        self._last_name_time = 0

    def statistics(self) -> EventStatistics:
        """A snapshot of the counters."""
        return EventStatistics(
            self._recorded,
            self._written,
            self._refused,
            self._unsent,
            self._dropped,
            len(self._queue),
            len(self._series),
        )

    def record_scheduled(self, pod: ObjectReference, node: str, controller: str) -> None:
        """Record that a pod was bound: the one event that every pod gets, and that never repeats."""
        message = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        if self._legacy_only:
            self.record_legacy(pod, NORMAL, "Scheduled", message, controller)
            return
        self._recorded += 1
        _, _, body = self._new_event(pod, NORMAL, "Scheduled", "Binding", message, controller)
        self._enqueue(Write(_collection_path(pod.namespace), _encode_body(body)))

    def record(
        self, regarding: ObjectReference, event_type: str, reason: str, action: str, message: str, controller: str
    ) -> None:
        """Record an event about an object; `controller` is the profile's scheduler name.

        The message is cut to the API's limit, and a `%` in it comes out as Go's Sprintf formats it.
        """
        text = event_text.format_without_arguments(event_text.cut_to_bytes(message))
        if self._legacy_only:
            self.record_legacy(regarding, event_type, reason, text, controller)
            return
        self._recorded += 1
        key = SeriesKey(event_type, action, reason, controller, regarding)
        series = self._series.count_if_repeated(key, self._clock(), timestamps.rfc3339_micros(self._wall()))
        if series is not None:
            if series.count == 2:
                self._enqueue(Write(_collection_path(series.namespace), b"", series))
            return
        name, time_text, body = self._new_event(regarding, event_type, reason, action, text, controller)
        namespace = regarding.namespace or "default"
        self._series.begin(key, Series(name, namespace, body, self._clock(), time_text))
        self._enqueue(Write(_collection_path(namespace), _encode_body(body)))

    def record_legacy(
        self, regarding: ObjectReference, event_type: str, reason: str, message: str, controller: str
    ) -> None:
        """Record a core/v1 event: for the Lease, and for all objects if the server serves nothing newer."""
        self._recorded += 1
        key, text = self._correlator.aggregate(
            SeriesKey(event_type, "", reason, controller, regarding, message), self._clock()
        )
        spam = self._correlator.is_spam(key, self._clock())
        series = self._legacy_series.count_if_repeated(key, self._clock(), timestamps.rfc3339_seconds(self._wall()))
        if series is not None:
            series.body = {**series.body, "message": text}
            if not spam:
                self._enqueue(Write(_legacy_collection_path(series.namespace), b"", series, legacy=True))
            return
        name, time_text, body = self._new_legacy_event(regarding, event_type, reason, text, controller)
        namespace = regarding.namespace or "default"
        self._legacy_series.begin(key, Series(name, namespace, body, self._clock(), time_text))
        if not spam:
            self._enqueue(Write(_legacy_collection_path(namespace), _encode_body(body), legacy=True))

    async def run(self) -> None:
        """Write events until cancelled."""
        await self.discover()
        async with asyncio.TaskGroup() as group:
            for number in range(self._writers):
                name = f"event writer {number}"
                group.create_task(
                    supervision.supervise(name, functools.partial(self._write_forever, number)), name=name
                )
            group.create_task(supervision.supervise("event series", self._end_and_refresh_series), name="event series")

    async def discover(self) -> None:
        """Find out which API the server serves; call it before the first event. Waits for an unreachable server."""
        if self._legacy_only is None:
            self._legacy_only = not await self._serves_events_group()

    async def flush(self, deadline: float) -> bool:
        """Waits until every event is written (True) or the deadline has passed (False).

        From now on all writers work at once.
        """
        self._in_a_hurry = True
        for _ in range(self._writers):
            self._wake_writer()
        try:
            async with asyncio.timeout(deadline):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    def _new_event(
        self, regarding: ObjectReference, event_type: str, reason: str, action: str, message: str, controller: str
    ) -> tuple[str, str, dict[str, Any]]:
        """Return name, time and body of a new event, with fields in the order of Kubernetes' own clients."""
        now = self._unique_time()
        name = event_text.event_name(regarding.name, now)
        time_text = timestamps.rfc3339_micros(now)
        body = {
            "kind": "Event",
            "apiVersion": "events.k8s.io/v1",
            "metadata": {"name": name, "namespace": regarding.namespace or "default"},
            "eventTime": time_text,
            "reportingController": controller,
            "reportingInstance": f"{controller}-{self._hostname}",
            "action": action,
            "reason": reason,
            "regarding": regarding.as_json(),
            "note": message,
            "type": event_type,
            "deprecatedSource": {},
            "deprecatedFirstTimestamp": None,
            "deprecatedLastTimestamp": None,
        }
        return name, time_text, body

    def _new_legacy_event(
        self, regarding: ObjectReference, event_type: str, reason: str, message: str, controller: str
    ) -> tuple[str, str, dict[str, Any]]:
        """Return name, time and body of a new core/v1 event."""
        now = self._unique_time()
        name = event_text.event_name(regarding.name, now)
        time_text = timestamps.rfc3339_seconds(now)
        body = {
            "kind": "Event",
            "apiVersion": "v1",
            "metadata": {"name": name, "namespace": regarding.namespace or "default"},
            "involvedObject": regarding.as_json(),
            "reason": reason,
            "message": message,
            "source": {"component": controller},
            "firstTimestamp": time_text,
            "lastTimestamp": time_text,
            "count": 1,
            "type": event_type,
            "eventTime": None,
            "reportingComponent": controller,
            "reportingInstance": "",
        }
        return name, time_text, body

    def _unique_time(self) -> int:
        """Return the time in nanoseconds; never the same twice, since names contain it."""
        self._last_name_time = max(self._wall(), self._last_name_time + 1)
        return self._last_name_time

    def _enqueue(self, write: Write) -> None:
        """Queue a write and wake a writer; if the queue is full, drop the oldest, with a warning now and then."""
        if len(self._queue) >= self._queue_limit:
            self._queue.popleft()
            self._unfinished -= 1
            self._dropped += 1
            if self._dropped == 1 or self._clock() - self._warned_at >= REPEAT_WARNING_SECONDS:
                self._warned_at = self._clock()
                text = "the event queue is full, %d events dropped so far; check how fast the API server answers"
                log.warning(text, self._dropped)
        write.since = self._clock()
        self._queue.append(write)
        self._unfinished += 1
        self._idle.clear()
        self._wake_writer()

    async def _serves_events_group(self) -> bool:
        """Return whether the server has the group events.k8s.io.

        An error other than 404 is logged, and the request is repeated.
        """
        delay = 0.5
        while True:
            try:
                await self._api.read(EVENTS_GROUP, deadline=WRITE_DEADLINE_SECONDS)
            except ApiError as error:
                if error.not_found:
                    return False
                log.warning("cannot tell whether events.k8s.io/v1 is served: %s; the request is sent again", error)
            except ApiUnreachable as error:
                log.warning("cannot tell whether events.k8s.io/v1 is served: %s; the request is sent again", error)
            else:
                return True
            await self._sleep(delay * (1 + self._rng()))
            delay = min(delay * 2, RETRY_SECONDS)

    def _has_room_for_write(self) -> bool:
        """Whether one more write may begin: the longer the next event has waited, the more there may be at once."""
        if not self._queue:
            return False
        if self._writing and self._api.rate_limit_delay() > MAX_DELAY_SECONDS:
            return False
        late = self._clock() - self._queue[0].since
        return self._in_a_hurry or len(self._writing) <= late / LATE_SECONDS

    def _wake_writer(self) -> None:
        """Let the writer that has waited longest begin, if one more write may."""
        if self._waiting and self._has_room_for_write():
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)

    def _replace_slow_writer(self, number: int) -> None:
        """Let another writer start: this one's write is slow."""
        self._writing.discard(number)
        self._wake_writer()

    async def _write_forever(self, number: int) -> None:
        """Write queued events one after another; wait while no further write may begin."""
        loop = asyncio.get_running_loop()
        while True:
            if not self._has_room_for_write():
                turn = loop.create_future()
                self._waiting.append(turn)
                await turn
                continue
            self._writing.add(number)
            write = self._queue.popleft()
            self._wake_writer()
            slow = loop.call_later(SLOW_SECONDS, self._replace_slow_writer, number)
            try:
                await self._write_in_time(write)
            finally:
                slow.cancel()
                self._writing.discard(number)
            self._unfinished -= 1
            if not self._unfinished:
                self._idle.set()

    async def _write_in_time(self, write: Write) -> None:
        """Write the event in at most MAX_TRIES tries; one that is refused, or runs out of tries, is dropped."""
        for attempt in range(1, MAX_TRIES + 1):
            wait = RETRY_SECONDS * (1 + RETRY_JITTER * self._rng())
            try:
                await self._create_or_count_event(write)
            except ApiError as error:
                race = error.already_exists and write.series is not None
                if not race and not (error.transient and error.retry_after is not None):
                    self._refused += 1
                    log.debug("the server refused an event: %s", error)
                    return
                wait = error.retry_after or wait
            except ApiUnreachable as error:
                log.debug("an event could not be written (try %d): %s", attempt, error)
            else:
                self._written += 1
                return
            if attempt < MAX_TRIES:
                await self._sleep(wait)
        self._unsent += 1
        log.error("an event is dropped after %d tries; check that the API server answers", MAX_TRIES)

    async def _create_or_count_event(self, write: Write) -> None:
        """Write one event: create it, or count it in the series of an earlier one.

        Where the earlier event is gone, the series is created with this one as its start.
        """
        series = write.series
        if series is None:
            await self._api.post(write.collection, write.body, deadline=WRITE_DEADLINE_SECONDS)
            return
        state = _legacy_series_patch(series) if write.legacy else _series_patch(series)
        try:
            await self._api.patch(
                f"{write.collection}/{series.name}", orjson.dumps(state), deadline=WRITE_DEADLINE_SECONDS
            )
        except ApiError as error:
            if not error.not_found:
                raise
            # The first event expired or is being written: then this one exists a moment later (see `_write_in_time`).
            body = orjson.dumps({**series.body, **state})
            await self._api.post(write.collection, body, deadline=WRITE_DEADLINE_SECONDS)

    async def _end_and_refresh_series(self) -> None:
        """Now and then end series that have not repeated, and write those that go on, until cancelled."""
        refresh_at = self._clock() + event_series.REFRESH_SECONDS
        while True:
            await self._sleep(HOUSEKEEPING_SECONDS)
            now = self._clock()
            due = list(self._series.drop_finished(now))
            if now >= refresh_at:
                refresh_at = now + event_series.REFRESH_SECONDS
                due.extend(self._series.repeating())
            for series in due:
                self._enqueue(Write(_collection_path(series.namespace), b"", series))


def _encode_body(body: Mapping[str, Any]) -> bytes:
    """Encode the body as JSON, copied to its exact size: orjson's buffer holds 8 KB, and thousands may be queued."""
    return bytes(memoryview(orjson.dumps(body)))


def _series_patch(series: Series) -> Mapping[str, Any]:
    """Return the patch that counts one more event of a series."""
    return {"series": {"count": series.count, "lastObservedTime": series.last_seen_text}}


def _legacy_series_patch(series: Series) -> Mapping[str, Any]:
    """Return the patch that counts one more event of a series in core/v1."""
    return {"count": series.count, "lastTimestamp": series.last_seen_text, "message": series.body["message"]}


def _collection_path(namespace: str) -> str:
    """Return the API path of a namespace's events; those of cluster-wide objects are in `default`."""
    return f"{EVENTS_GROUP}/namespaces/{namespace or 'default'}/events"


def _legacy_collection_path(namespace: str) -> str:
    """Return the API path of a namespace's events in core/v1."""
    return f"/api/v1/namespaces/{namespace or 'default'}/events"
