"""The list-and-watch protocol as a pure state machine: what to do next, and what each answer means.

The shell (`informer.Informer`) asks `next_step`, does it, and reports what came of it. No clock, no network and no
randomness in here but what is passed in, so every turn of the protocol is a line in a test.

The protocol. List in pages at the newest version (no resourceVersion: a quorum read, so a list never goes back behind
what was seen before); then watch from the list's version. A watch that ends is opened again at once from the last
version seen, bookmarks included: an API server closes watches on a timer and where a client falls behind. Only when
it answers 410 (the version is compacted) is everything listed again. Whatever fails is tried again with growing,
jittered pauses.

Catching up. A new leader must have seen everything up to some version before it acts, but the watch of a quiet
collection says nothing for a minute at a time. A collection that fits in one page is listed again. For a larger one,
watches are opened for three seconds while a version is wanted: an API server sends a bookmark two seconds before a
watch times out. Should that not help, it is listed all the same.

Invariants: between LIST_START and LIST_END no event of a watch is delivered; `listed` never becomes false again.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from trireme.kube import errors, resources, watch
from trireme.kube.errors import ApiError, ApiUnreachable
from trireme.kube.watch import EventKind, Raw, RawEvent

FIRST_PAUSE_SECONDS = 0.8
LONGEST_PAUSE_SECONDS = 30.0
# A collection that is not served is looked for again so often, and up to half as much later.
ABSENT_PAUSE_SECONDS = 30.0
# How long a watch may last at most; at random in between, so that not all start over at once.
WATCH_SECONDS = (300, 600)
CATCH_UP_WATCH_SECONDS = 3
CATCH_UP_WATCHES = 2
# Pages expire if the server compacts while we list. After so many times the list is asked for in one piece.
PAGED_LIST_TRIES = 2
# A watch that ends sooner than this, with nothing in it, is a failure and not a server's timer.
SHORTEST_WATCH_SECONDS = 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class ListPage:
    """Get the next page of the list under way, or begin one, with so many objects at first. `limit` 0: in one page."""

    limit: int


@dataclasses.dataclass(frozen=True, slots=True)
class OpenWatch:
    """Watch from the version on, for so long."""

    version: str
    seconds: int


@dataclasses.dataclass(frozen=True, slots=True)
class Pause:
    """Wait so long."""

    seconds: float


Step = ListPage | OpenWatch | Pause


class Delivery(NamedTuple):
    """One event with the object as the API sent it; {} with LIST_START and LIST_END."""

    kind: EventKind
    raw: Raw


class State(enum.Enum):
    """Where the protocol stands."""

    LISTING = "listing"
    WATCHING = "watching"
    ABSENT = "absent"  # the server does not serve the collection, and it is optional


@dataclasses.dataclass(slots=True)
class Counters:
    """What happened so far."""

    lists: int = 0
    pages: int = 0
    watches: int = 0
    events: int = 0
    bookmarks: int = 0
    expirations: int = 0
    failures: int = 0


class ListWatch:
    """The protocol for one collection. `random` answers numbers in [0, 1)."""

    def __init__(self, resource: resources.Resource, random: Callable[[], float]) -> None:
        self._resource = resource
        self._random = random
        self._fresh = True  # the next page is the first of a list
        self._page_expirations = 0
        self._pages_of_list = 0
        self._small = False  # the last list was of one page
        self._pause = 0.0
        self._growing = FIRST_PAUSE_SECONDS
        self._version_text = ""
        self._wanted = 0
        self._short_watches = 0
        self._seen_in_watch = 0
        self.state = State.LISTING
        self.listed = False
        self.version = 0
        self.last_error = ""
        self.counters = Counters()

    def next_step(self) -> Step:
        """What to do now. A Pause is given once: whoever breaks it off goes on with the step after it."""
        if self._pause > 0:
            seconds, self._pause = self._pause, 0.0
            return Pause(seconds)
        if self.state is not State.WATCHING:
            return ListPage(0 if self._page_expirations >= PAGED_LIST_TRIES else self._resource.page)
        if self._wanted > self.version:
            return OpenWatch(self._version_text, CATCH_UP_WATCH_SECONDS)
        shortest, longest = WATCH_SECONDS
        return OpenWatch(self._version_text, shortest + int(self._random() * (longest - shortest)))

    def reached(self, version: int) -> bool:
        """Whether every event up to `version` was delivered. What is absent has no events."""
        return self.listed and (self.state is State.ABSENT or self.version >= version)

    def want(self, version: int) -> None:
        """Somebody needs all events up to `version`: the next steps hurry; break off the one under way."""
        self._wanted = max(self._wanted, version)
        self._short_watches = 0
        if self._small and self.state is State.WATCHING:
            self._start_list()

    def relist(self) -> None:
        """Read the whole collection again: break off the watch under way."""
        self._start_list()

    def page(self, items: Sequence[Raw], metadata: Mapping[str, object]) -> list[Delivery]:
        """A page came."""
        self.counters.pages += 1
        self._pages_of_list = 1 if self._fresh else self._pages_of_list + 1
        deliveries = [Delivery(EventKind.LIST_START, {})] if self._fresh else []
        self._fresh = False
        deliveries.extend(Delivery(EventKind.LISTED, item) for item in items)
        if metadata.get("continue"):
            return deliveries
        self.counters.lists += 1
        self._small = self._pages_of_list == 1 and len(items) <= self._resource.page
        self._version_text = str(metadata.get("resourceVersion") or "")
        self.version = int(self._version_text) if self._version_text.isdigit() else 0
        self.state = State.WATCHING
        self.listed = True
        self._page_expirations = self._short_watches = 0
        self._fresh = True
        self._succeeded()
        deliveries.append(Delivery(EventKind.LIST_END, {}))
        return deliveries

    def opened(self) -> None:
        """The server accepted the watch."""
        self.counters.watches += 1
        self._seen_in_watch = 0

    def events(self, raws: Sequence[RawEvent]) -> tuple[list[Delivery], ApiError | None]:
        """Lines of the watch came. Answers what to deliver, and the error (for `failed`) if the server sent one."""
        deliveries: list[Delivery] = []
        for raw in raws:
            kind = watch.KINDS.get(raw["type"])
            item = raw["object"]
            if kind is not None:
                self._advance(item)
                deliveries.append(Delivery(kind, item))
            elif raw["type"] == "BOOKMARK":
                self.counters.bookmarks += 1
                self._advance(item)
            elif raw["type"] == "ERROR":
                return deliveries, errors.from_status(item)
        if self._seen_in_watch:
            # It works: should it break, the pause is a first one, however often watches have broken before.
            self._succeeded()
        self.counters.events += len(deliveries)
        return deliveries, None

    def closed(self, seconds: float) -> None:
        """The watch ended, as watches do, after so long."""
        if not self._seen_in_watch and seconds < SHORTEST_WATCH_SECONDS:
            self._failed("the server ended a watch at once")
            return
        self._succeeded()
        if self._wanted > self.version:
            self._short_watches += 1
            if self._short_watches >= CATCH_UP_WATCHES:
                self._start_list()

    def failed(self, error: ApiError | ApiUnreachable | watch.BrokenStream) -> list[Delivery]:
        """The step failed. Answers what to deliver: of a collection that is found to be absent, that it is empty."""
        listing = self.state is not State.WATCHING
        if isinstance(error, ApiError) and error.not_found and self._resource.optional:
            return self._absent()
        if isinstance(error, ApiError) and error.expired:
            self.counters.expirations += 1
            if listing:
                self._page_expirations += 1
            if listing or self._seen_in_watch:
                self._start_list()  # at once
                return []
        self._failed(str(error), error.retry_after if isinstance(error, ApiError) else None)
        if listing or _calls_for_a_list(error):
            self._start_list()
        return []

    def _advance(self, item: Raw) -> None:
        self._seen_in_watch += 1
        version = watch.version_of(item)
        if version:
            self.version = version
            self._version_text = str(version)

    def _start_list(self) -> None:
        self.state = State.LISTING if self.state is not State.ABSENT else State.ABSENT
        self._fresh = True

    def _absent(self) -> list[Delivery]:
        news = self.state is not State.ABSENT
        self._start_list()
        self.state = State.ABSENT
        self.listed = True
        self.version = 0
        self._succeeded()
        self._pause = ABSENT_PAUSE_SECONDS * (1 + self._random() / 2)
        return [Delivery(EventKind.LIST_START, {}), Delivery(EventKind.LIST_END, {})] if news else []

    def _succeeded(self) -> None:
        self._growing = FIRST_PAUSE_SECONDS
        self.last_error = ""

    def _failed(self, text: str, retry_after: float | None = None) -> None:
        self.counters.failures += 1
        self.last_error = text
        self._pause = max(self._growing * (1 + self._random()), retry_after or 0.0)
        self._growing = min(self._growing * 2, LONGEST_PAUSE_SECONDS)


def _calls_for_a_list(error: Exception) -> bool:
    """Whether a watch that was refused so had better start from a list: its version is no good, for one."""
    return isinstance(error, ApiError) and 400 <= error.status < 500 and error.status not in (401, 403, 429)
