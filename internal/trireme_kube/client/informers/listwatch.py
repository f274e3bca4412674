"""The list-and-watch protocol as a pure state machine: the next step, and the effect of each response.

The shell (`informer.Informer`) takes a step from `next_step`, executes it and reports the result. Clock, network and
randomness are arguments, so every transition of the protocol is one line in a test.

The protocol is client-go 1.37's. A streaming list (`StreamList`) is a watch whose first events are the existing
objects; after the bookmark that ends them it continues as any watch. The server responds only once it is at least as
new as the last version seen, or at the newest version if there is none, so a list never goes back in time. If the
server refuses a streaming list, or the stream ends early, this one list is read in pages at the newest version (no
resourceVersion: a quorum read) and watched from there. A watch that ends is reopened at once from the last version
seen, bookmarks included: API servers close watches on a timer and when a client falls behind. Only after a 410 (the
version is compacted) is everything listed again. Failures are retried with growing, jittered pauses.
An optional collection that has never been listed and is not served counts as empty, and is looked for again now and
then. Once it has been listed a 404 is a failure as any other, and its objects stay: it comes from one of several API
servers, in the middle of an upgrade, more often than from a collection that is gone.
Source: client-go v0.37.0, tools/cache/reflector.go.

Catching up. A new leader must have seen everything up to some version before it acts, but the watch of a quiet
collection may be silent for a minute. A collection of at most one page, or of STREAMED_AGAIN objects if they are
streamed, is listed again. A larger one gets three-second watches until it reaches the version: an API server sends a
bookmark two seconds before a watch times out. If that does not help either, it is listed again.

Invariants: between LIST_START and LIST_END come only LISTED events, and DELETED ones for objects deleted during the
list; `listed` never becomes false again.
"""

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from trireme_kube.apimachinery import resource_versions
from trireme_kube.client.informers import resources, watch
from trireme_kube.client.informers.watch import EventKind, Raw, RawEvent
from trireme_kube.client.rest import errors
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable

STREAMS_GATE = "WatchListClient"

FIRST_PAUSE_SECONDS = 0.8
LONGEST_PAUSE_SECONDS = 30.0
# How long until the first check again for a collection that is not served, plus up to half of that at random; each
# further one takes twice as long, up to the second: an API server is upgraded within minutes, or not for months.
ABSENT_PAUSE_SECONDS = 30.0
LONGEST_ABSENT_PAUSE_SECONDS = 300.0
# The limits of a watch's random timeout; random, so that watches do not all restart at once.
WATCH_SECONDS = (300, 600)
CATCH_UP_WATCH_SECONDS = 3
CATCH_UP_WATCHES = 2
# Streaming this many objects again takes less time than waiting for a bookmark.
STREAMED_AGAIN = 10_000
# Pages expire if the server compacts during the list. After this many expirations the list is requested in one page.
PAGED_LIST_TRIES = 2
# More would be longer than the longest pause.
_MOST_DOUBLINGS = 16
# A watch that ends sooner, without events, counts as a failure and not as the server's timer.
SHORTEST_WATCH_SECONDS = 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class ListPage:
    """Step: get the next page of the list, or its first with at most `limit` objects (0: all in one page)."""

    limit: int


@dataclasses.dataclass(frozen=True, slots=True)
class StreamList:
    """Step: open a streaming list no older than `version` ("": the newest) that watches for `seconds`."""

    version: str
    seconds: int


@dataclasses.dataclass(frozen=True, slots=True)
class OpenWatch:
    """Step: open a watch from the version on."""

    version: str
    seconds: int


@dataclasses.dataclass(frozen=True, slots=True)
class Pause:
    """Step: wait."""

    seconds: float


Step = ListPage | StreamList | OpenWatch | Pause


class Delivery(NamedTuple):
    """One event with the object as the API sent it; {} with LIST_START and LIST_END."""

    kind: EventKind
    raw: Raw


class State(enum.Enum):
    """The state of the protocol."""

    LISTING = "listing"
    WATCHING = "watching"
    ABSENT = "absent"  # the server does not serve the collection, and it is optional


@dataclasses.dataclass(slots=True)
class Counters:
    """Counts of responses."""

    lists: int = 0
    pages: int = 0
    watches: int = 0
    events: int = 0
    bookmarks: int = 0
    expirations: int = 0
    failures: int = 0


class ListWatch:
    """The protocol for one collection.

    `random` returns numbers in [0, 1). `streams`: lists come as streams where the server has them (gate
    WatchListClient); else always in pages.
    """

    def __init__(self, resource: resources.Resource, random: Callable[[], float], *, streams: bool = True) -> None:
        self._streams = streams
        self._resource = resource
        self._random = random
        self._fresh = True  # the next page, or the next event of a stream, is the first of a list
        self._served = False  # the collection has been listed
        self._paging = False  # the list under way comes in pages, because a stream was refused
        self._streaming = False  # the open stream has not reached the end of the list
        self._watch_requested = False  # the last step was a watch, and not a list
        self._streamed = 0  # its objects so far
        self._newest = False  # the server cannot list at the requested version
        self._page_expirations = 0
        self._pages_of_list = 0
        self._small = False  # the last list had one page
        self._pause = 0.0
        self._absences = 0  # how often it was found to be absent, one after the other
        self._growing = FIRST_PAUSE_SECONDS
        self._version_text = ""
        self._requested_version = 0
        self._short_watches = 0
        self._events_in_watch = 0
        self.state = State.LISTING
        self.listed = False
        self.version = 0
        self.last_error = ""
        self.last_status = 0
        self.counters = Counters()

    def next_step(self) -> Step:
        """Return the next step. A Pause is returned once: a shell that cuts it short takes the next step."""
        self._watch_requested = False
        if self._pause > 0:
            seconds, self._pause = self._pause, 0.0
            return Pause(seconds)
        if self.state is not State.WATCHING and not self._streams:
            self._paging = True
        if self._paging:
            return ListPage(0 if self._page_expirations >= PAGED_LIST_TRIES else self._resource.page)
        if self.state is not State.WATCHING:
            version = str(self._requested_version) if self.is_behind and not self._newest else self._version_text
            return StreamList(version, watch_seconds(self._random))
        self._watch_requested = True
        if self.is_behind:
            return OpenWatch(self._version_text, CATCH_UP_WATCH_SECONDS)
        return OpenWatch(self._version_text, watch_seconds(self._random))

    @property
    def is_behind(self) -> bool:
        """Whether a requested version has not been reached."""
        return self._requested_version > self.version

    @property
    def streaming(self) -> bool:
        """Whether the open stream has not reached the end of the list."""
        return self._streaming

    def has_delivered(self, version: int) -> bool:
        """Whether every event up to `version` was delivered. An absent collection has no events."""
        return self.listed and (self.state is State.ABSENT or self.version >= version)

    def request_version(self, version: int) -> None:
        """Request all events up to `version` soon. The shell must abort the current step."""
        self._requested_version = max(self._requested_version, version)
        self._short_watches = 0
        self.note_served()  # what has a version is served by now
        if self._small and self.state is State.WATCHING:
            self._start_list()

    def note_served(self) -> None:
        """The server serves the collection: it is absent no longer, and has yet to be listed."""
        if self.state is State.ABSENT:
            self.state = State.LISTING

    def relist(self) -> None:
        """List the collection again. The shell must abort the current watch, also one that it is opening."""
        self._start_list()

    def page(self, items: Sequence[Raw], metadata: Mapping[str, object]) -> list[Delivery]:
        """Take a page; return what to deliver."""
        self.counters.pages += 1
        self._pages_of_list = 1 if self._fresh else self._pages_of_list + 1
        deliveries = [Delivery(EventKind.LIST_START, {})] if self._fresh else []
        self._fresh = False
        deliveries.extend(Delivery(EventKind.LISTED, item) for item in items)
        if metadata.get("continue"):
            return deliveries
        self._small = self._pages_of_list == 1 and len(items) <= self._resource.page
        self._version_text = str(metadata.get("resourceVersion") or "")
        self.version = resource_versions.number_of(self._version_text) or 0
        deliveries.append(self._end_list())
        return deliveries

    def _end_list(self) -> Delivery:
        """Go on to watching; return the delivery that ends the list."""
        self.counters.lists += 1
        self.state = State.WATCHING
        self.listed = self._served = True
        self._page_expirations = self._short_watches = 0
        self._fresh, self._paging, self._streaming, self._newest = True, False, False, False
        self._forget_failures()
        return Delivery(EventKind.LIST_END, {})

    def opened(self) -> None:
        """Record that the server accepted the watch or stream of the last step.

        A list that was requested since then is another step: a watch never brings the bookmark that ends one.
        """
        self.counters.watches += 1
        self._events_in_watch = self._streamed = 0
        self._streaming = self.state is not State.WATCHING and not self._watch_requested
        self._fresh = True

    def events(self, raws: Sequence[RawEvent]) -> tuple[list[Delivery], ApiError | None]:
        """Take events of the watch; return what to deliver, and the error (for `failed`) if the server sent one."""
        deliveries: list[Delivery] = []
        listed = 0
        if self._streaming:
            listed, error = self._take_initial_events(raws, deliveries)
            if error is not None:
                return deliveries, error
        of_list = len(deliveries)
        for raw in raws[listed:] if listed else raws:
            kind = watch.KINDS.get(raw["type"])
            item = raw["object"]
            if kind is not None:
                self._advance_version(item)
                deliveries.append(Delivery(kind, item))
            elif raw["type"] == "BOOKMARK":
                self.counters.bookmarks += 1
                self._advance_version(item)
            elif raw["type"] == "ERROR":
                return deliveries, errors.from_status(item)
        if self._events_in_watch:
            # The watch works: if it breaks, back-off restarts, however often watches have broken before.
            self._forget_failures()
        self.counters.events += len(deliveries) - of_list
        return deliveries, None

    def _take_initial_events(self, raws: Sequence[RawEvent], deliveries: list[Delivery]) -> tuple[int, ApiError | None]:
        """Take the events up to the end of the list, or all if that is not among them; return how many."""
        if self._fresh and raws:
            deliveries.append(Delivery(EventKind.LIST_START, {}))
            self._fresh = False
        for number, raw in enumerate(raws, start=1):
            kind, item = raw["type"], raw["object"]
            if kind in ("ADDED", "MODIFIED"):
                self._streamed += 1
                deliveries.append(Delivery(EventKind.LISTED, item))
            elif kind == "DELETED":
                deliveries.append(Delivery(EventKind.DELETED, item))
            elif kind == "ERROR":
                return number, errors.from_status(item)
            elif kind == "BOOKMARK" and watch.ends_initial_events(item):
                self.counters.bookmarks += 1
                self._small = self._streamed <= STREAMED_AGAIN
                self._advance_version(item)
                deliveries.append(self._end_list())
                return number, None
        return len(raws), None

    def closed(self, seconds: float) -> None:
        """Record the regular end of a watch that lasted `seconds`."""
        if self._streaming:
            self._list_in_pages()
            return
        if not self._events_in_watch and seconds < SHORTEST_WATCH_SECONDS:
            self._note_failure("the server ended a watch at once")
            return
        self._forget_failures()
        if self._requested_version > self.version:
            self._short_watches += 1
            if self._short_watches >= CATCH_UP_WATCHES:
                self._start_list()

    def failed(self, error: ApiError | ApiUnreachable | watch.BrokenStream) -> list[Delivery]:
        """The step failed. Answers what to deliver: of a collection that is found to be absent, that it is empty."""
        listing = self.state is not State.WATCHING
        not_found = isinstance(error, ApiError) and error.not_found
        if not_found and self._resource.optional and not self._served:
            return self._deliver_absence()
        if listing and not self._paging:
            self._stream_failed(error)
            return []
        if isinstance(error, ApiError) and error.expired:
            self.counters.expirations += 1
            if listing:
                self._page_expirations += 1
            if listing or self._events_in_watch:
                self._start_list()  # at once
                return []
        self._note_failure(errors.with_advice(error), error if isinstance(error, ApiError) else None)
        if listing or _requires_relist(error):
            self._paging = False
            self._start_list()
        return []

    def _stream_failed(self, error: ApiError | ApiUnreachable | watch.BrokenStream) -> None:
        """Choose the next try after a streaming list failed: the newest version, a pause, or a list in pages."""
        self._streaming, self._fresh = False, True
        no_version = isinstance(error, ApiError) and (error.expired or error.unknown_version)
        if no_version and not self._newest:
            # The server cannot list at that version; its newest is no older.
            self.counters.expirations += 1
            self._version_text, self._newest = "", True
        elif isinstance(error, ApiError) and error.status == errors.TOO_MANY_REQUESTS:
            self._note_failure(str(error), error)
        elif isinstance(error, ApiUnreachable) and error.refused:
            self._note_failure(str(error))
        else:
            self._list_in_pages()

    def _list_in_pages(self) -> None:
        """List in pages without a pause: a server that cannot stream a list can usually still page it."""
        self._streaming, self._paging, self._fresh = False, True, True

    def _advance_version(self, item: Raw) -> None:
        """Note the version that an event brings."""
        self._events_in_watch += 1
        version = watch.version_of(item)
        if version:
            self.version = version
            self._version_text = str(version)

    def _start_list(self) -> None:
        """Begin a new list with the next step; a collection known as absent stays so until it is found."""
        self.state = State.LISTING if self.state is not State.ABSENT else State.ABSENT
        self._fresh = True
        self._streaming = False

    def _deliver_absence(self) -> list[Delivery]:
        """Note that the server does not serve the collection; return an empty list to deliver, if that is news."""
        news = self.state is not State.ABSENT
        self._start_list()
        self.state = State.ABSENT
        self.listed = True
        self.version = 0
        self._version_text = ""
        self._paging = False
        self._forget_failures()
        seconds = min(ABSENT_PAUSE_SECONDS * 2**self._absences, LONGEST_ABSENT_PAUSE_SECONDS)
        self._absences = min(self._absences + 1, _MOST_DOUBLINGS)
        self._pause = seconds * (1 + self._random() / 2)
        return [Delivery(EventKind.LIST_START, {}), Delivery(EventKind.LIST_END, {})] if news else []

    def _forget_failures(self) -> None:
        """Forget the last error, and begin with short pauses again."""
        self._growing = FIRST_PAUSE_SECONDS
        self.last_error, self.last_status = "", 0

    def _note_failure(self, text: str, answer: ApiError | None = None) -> None:
        """Record the error, and set the pause, which doubles with each failure; the server may ask for a longer one."""
        self.counters.failures += 1
        self.last_error, self.last_status = text, answer.status if answer else 0
        self._pause = max(self._growing * (1 + self._random()), (answer and answer.retry_after) or 0.0)
        self._growing = min(self._growing * 2, LONGEST_PAUSE_SECONDS)


def watch_seconds(random: Callable[[], float]) -> int:
    """Pick a watch's timeout at random. Units: seconds."""
    shortest, longest = WATCH_SECONDS
    return shortest + int(random() * (longest - shortest))


def _requires_relist(error: Exception) -> bool:
    """Whether a watch refused with this error should restart from a list, for example for an invalid version."""
    return (
        isinstance(error, ApiError)
        and 400 <= error.status < 500
        and error.status not in (errors.UNAUTHORIZED, errors.FORBIDDEN, errors.TOO_MANY_REQUESTS)
    )
