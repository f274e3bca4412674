"""The list-and-watch protocol, turn by turn."""

from collections.abc import Callable
from typing import Any

import pytest

from trireme_kube.client.informers import listwatch, resources
from trireme_kube.client.informers.listwatch import ListPage, ListWatch, OpenWatch, Pause, State, StreamList
from trireme_kube.client.informers.watch import BrokenStream, EventKind
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable

GONE = ApiError(410, "Expired", "too old")
REFUSED = ApiError(422, "Invalid", "sendInitialEvents is forbidden for watch")
SECONDS = listwatch.WATCH_SECONDS[0]
Failure = ApiError | ApiUnreachable

AWAY = ApiUnreachable("refused", sent=False, refused=True)
OPTIONAL = resources.Resource("X", "/apis/x/v1/xs", optional=True)


def _protocol(resource: resources.Resource = resources.PODS) -> ListWatch:
    return ListWatch(resource, random=lambda: 0.0)


def _paging() -> ListWatch:
    """As _protocol, on a server that does not stream lists."""
    protocol = _protocol()
    assert protocol.next_step() == StreamList("", SECONDS)
    protocol.failed(REFUSED)
    return protocol


def _end(version: int) -> dict[str, Any]:
    """The bookmark that ends the objects that a stream begins with."""
    metadata = {"resourceVersion": str(version), "annotations": {"k8s.io/initial-events-end": "true"}}
    return {"type": "BOOKMARK", "object": {"metadata": metadata}}


def _object(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version)}}


def _event(kind: str, version: int) -> dict[str, Any]:
    return {"type": kind, "object": _object("x", version)}


def _watching(version: int = 100, resource: resources.Resource = resources.PODS) -> ListWatch:
    protocol = _protocol(resource)
    protocol.page([], {"resourceVersion": str(version)})
    protocol.next_step()
    protocol.opened()
    return protocol


def _watching_many(version: int = 100) -> ListWatch:
    """As _watching, after a list of two pages."""
    protocol = _protocol()
    protocol.page([], {"continue": "T"})
    protocol.page([], {"resourceVersion": str(version)})
    protocol.next_step()
    protocol.opened()
    return protocol


def _kinds(deliveries: list[listwatch.Delivery]) -> list[EventKind]:
    return [delivery.kind for delivery in deliveries]


def test_without_streams_every_list_comes_in_pages() -> None:
    """Who switches WatchListClient off, because the API server is slow with streams, gets them all the same."""
    protocol = ListWatch(resources.PODS, random=lambda: 0.0, streams=False)
    for version in (100, 200):
        assert protocol.next_step() == ListPage(500)
        protocol.page([_object("a", 1)], {"continue": "T"})
        assert protocol.next_step() == ListPage(500)
        deliveries = protocol.page([], {"resourceVersion": str(version)})
        assert _kinds(deliveries) == [EventKind.LIST_END]
        assert protocol.next_step() == OpenWatch(str(version), SECONDS)
        protocol.opened()
        protocol.relist()


@pytest.mark.parametrize("request_list", [ListWatch.relist, lambda protocol: protocol.request_version(200)])
def test_a_watch_that_was_being_opened_when_a_list_was_requested_is_no_list(
    request_list: Callable[[ListWatch], None],
) -> None:
    """If this fails, its end is waited for: the list comes ten minutes late, and a new leader or a reload gives up."""
    protocol = _protocol(resources.NODES)
    protocol.next_step()
    protocol.opened()
    protocol.events([_event("ADDED", 1), _end(100)])
    protocol.closed(seconds=300)
    assert protocol.next_step() == OpenWatch("100", SECONDS)
    request_list(protocol)  # before the server has accepted the watch
    protocol.opened()
    assert not protocol.streaming
    deliveries, _ = protocol.events([_event("MODIFIED", 150)])
    assert _kinds(deliveries) == [EventKind.MODIFIED]
    assert isinstance(protocol.next_step(), StreamList)
    protocol.opened()
    deliveries, _ = protocol.events([_event("ADDED", 150), _end(250)])
    assert _kinds(deliveries) == [EventKind.LIST_START, EventKind.LISTED, EventKind.LIST_END]


def test_a_list_comes_in_pages_and_is_whole_at_its_end() -> None:
    """If this fails, consumers believe a half list, or the watch starts from a wrong version."""
    protocol = _paging()
    assert protocol.next_step() == ListPage(500)
    first = protocol.page([_object("a", 5)], {"resourceVersion": "90", "continue": "T"})
    assert _kinds(first) == [EventKind.LIST_START, EventKind.LISTED]
    assert not protocol.listed
    assert protocol.next_step() == ListPage(500)
    second = protocol.page([_object("b", 6)], {"resourceVersion": "90"})
    assert _kinds(second) == [EventKind.LISTED, EventKind.LIST_END]
    assert protocol.listed
    assert protocol.version == 90
    assert protocol.next_step() == OpenWatch("90", listwatch.WATCH_SECONDS[0])


def test_a_watch_that_ends_goes_on_from_the_last_version_at_once() -> None:
    """If this fails, a closed watch costs a list of the whole collection, a pause, or events."""
    protocol = _watching(100)
    deliveries, error = protocol.events([_event("ADDED", 101), _event("BOOKMARK", 150)])
    assert (_kinds(deliveries), error) == ([EventKind.ADDED], None)
    protocol.closed(seconds=0.1)
    assert protocol.next_step() == OpenWatch("150", listwatch.WATCH_SECONDS[0])


def test_a_watch_that_ends_at_once_with_nothing_is_not_hammered() -> None:
    """If this fails, a server that closes every watch at once gets thousands of requests a second."""
    protocol = _watching()
    protocol.closed(seconds=0.01)
    assert protocol.next_step() == Pause(listwatch.FIRST_PAUSE_SECONDS)
    assert isinstance(protocol.next_step(), OpenWatch)


@pytest.mark.parametrize("version", ["x", "²", "9" * 5000], ids=["word", "superscript", "endless"])
def test_a_list_whose_version_is_no_number_is_watched_from_there(version: str) -> None:
    """If this fails, one odd answer ends the informer."""
    protocol = _paging()
    protocol.page([], {"resourceVersion": version})
    assert protocol.version == 0
    assert protocol.next_step() == OpenWatch(version, SECONDS)


@pytest.mark.parametrize("in_stream", [True, False], ids=["error-event", "http-410"])
def test_a_forgotten_version_leads_to_a_new_list(in_stream: bool) -> None:
    """If this fails, the scheduler's view is frozen once the API server has compacted our version."""
    protocol = _watching()
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    deliveries, error = protocol.events([_event("MODIFIED", 101), {"type": "ERROR", "object": status}])
    assert _kinds(deliveries) == [EventKind.MODIFIED]
    assert error is not None
    assert error.expired
    protocol.failed(error if in_stream else GONE)
    assert protocol.next_step() == StreamList("101", SECONDS)
    assert protocol.listed
    protocol.opened()
    deliveries, error = protocol.events([_end(200)])
    assert (_kinds(deliveries), error) == ([EventKind.LIST_START, EventKind.LIST_END], None)


def test_a_list_whose_version_is_forgotten_at_once_is_not_repeated_without_pause() -> None:
    """If this fails, a server that compacts too eagerly is flooded with lists."""
    protocol = _watching()
    protocol.failed(GONE)
    assert isinstance(protocol.next_step(), Pause)
    assert protocol.next_step() == StreamList("100", SECONDS)


def test_pages_that_expire_start_the_list_over_and_at_last_ask_for_all_at_once() -> None:
    """If this fails, a collection too large to be paged through before compaction is never synced."""
    protocol = _paging()
    for _ in range(listwatch.PAGED_LIST_TRIES):
        assert protocol.next_step() == ListPage(500)
        protocol.page([_object("a", 5)], {"continue": "T"})
        protocol.failed(GONE)
    assert protocol.next_step() == ListPage(0)
    deliveries = protocol.page([_object("a", 5)], {"resourceVersion": "9"})
    assert _kinds(deliveries) == [EventKind.LIST_START, EventKind.LISTED, EventKind.LIST_END]


def test_failures_pause_longer_and_longer_and_a_success_resets_that() -> None:
    """If this fails, an API server that is down is hammered, or we are slow to notice that it is back."""
    protocol = _protocol()
    pauses = []
    for _ in range(8):
        protocol.failed(AWAY)
        step = protocol.next_step()
        assert isinstance(step, Pause)
        pauses.append(step.seconds)
    assert pauses == pytest.approx([0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0])
    assert protocol.last_error == "refused"
    protocol.page([], {"resourceVersion": "1"})
    assert protocol.last_error == ""
    protocol.failed(AWAY)
    assert protocol.next_step() == Pause(0.8)


def test_a_watch_that_brings_something_resets_the_pause() -> None:
    """If this fails, a network that breaks watches every few minutes makes the pauses between them longer forever."""
    protocol = _watching()
    for version in range(101, 110):
        protocol.failed(AWAY)
        assert protocol.next_step() == Pause(0.8)
        protocol.next_step()
        protocol.opened()
        assert protocol.last_error == "refused"
        protocol.events([_event("BOOKMARK", version)])
        assert protocol.last_error == ""


def test_retry_after_is_respected() -> None:
    """If this fails, Retry-After is ignored."""
    protocol = _watching()
    protocol.failed(ApiError(429, "TooManyRequests", "slow down", retry_after=20.0))
    assert protocol.next_step() == Pause(20.0)
    assert isinstance(protocol.next_step(), OpenWatch)


@pytest.mark.parametrize(
    ("error", "next_step"),
    [
        pytest.param(AWAY, OpenWatch, id="connection-lost"),
        pytest.param(ApiError(500, "InternalError", ""), OpenWatch, id="internal-error"),
        pytest.param(ApiError(403, "Forbidden", ""), OpenWatch, id="forbidden"),
        pytest.param(ApiError(400, "BadRequest", ""), StreamList, id="version-refused"),
        pytest.param(ApiError(404, "NotFound", ""), StreamList, id="api-removed"),
    ],
)
def test_next_step_after_a_failed_watch(error: Failure, next_step: type) -> None:
    """If this fails, a lost connection costs a list, or a version that the server refuses is tried forever."""
    protocol = _watching()
    protocol.failed(error)
    assert isinstance(protocol.next_step(), Pause)
    assert isinstance(protocol.next_step(), next_step)


def test_an_optional_collection_that_is_not_served_counts_as_empty() -> None:
    """If this fails, the scheduler never starts on a cluster without some optional API."""
    protocol = _protocol(OPTIONAL)
    missing = ApiError(404, "NotFound", "the server could not find the requested resource")
    assert _kinds(protocol.failed(missing)) == [EventKind.LIST_START, EventKind.LIST_END]
    assert protocol.listed
    assert protocol.state is State.ABSENT
    assert protocol.has_delivered(10**9)
    assert protocol.next_step() == Pause(listwatch.ABSENT_PAUSE_SECONDS)
    assert protocol.next_step() == StreamList("", SECONDS)
    assert protocol.failed(missing) == []
    protocol.next_step()
    protocol.opened()
    deliveries, _ = protocol.events([_event("ADDED", 1), _end(5)])
    assert _kinds(deliveries) == [EventKind.LIST_START, EventKind.LISTED, EventKind.LIST_END]
    assert protocol.state is State.WATCHING


def test_a_collection_that_stays_absent_is_looked_for_ever_less_often() -> None:
    """If this fails, an API server without some API answers thousands of requests a day with 404."""
    protocol, pauses = _protocol(OPTIONAL), []
    for _ in range(6):
        protocol.failed(ApiError(404, "", "404 page not found"))
        pauses.append(protocol.next_step())
        assert protocol.next_step() == StreamList("", SECONDS)
    assert pauses == [Pause(seconds) for seconds in (30, 60, 120, 240, 300, 300)]


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ApiError(404, "NotFound", "the server could not find the requested resource"), id="status"),
        pytest.param(ApiError(404, "", "404 page not found"), id="unserved-path"),
        pytest.param(ApiError(404, "", "<html>404 Not Found</html>"), id="proxy"),
    ],
)
@pytest.mark.parametrize("watching", [True, False], ids=["watch", "list"])
def test_an_optional_collection_that_has_been_listed_keeps_its_objects(error: ApiError, watching: bool) -> None:
    """If this fails, one API server of several, or a proxy, empties a cache: allocated devices count as free."""
    protocol = _watching(resource=OPTIONAL)
    if not watching:
        protocol.relist()
    for _ in range(5):
        assert protocol.failed(error) == []
        protocol.next_step()
    assert protocol.state is not State.ABSENT
    assert protocol.last_error == str(error)
    assert not protocol.has_delivered(10**9)
    protocol.next_step()
    protocol.opened()
    deliveries, _ = protocol.events([_event("ADDED", 1), _end(105)])
    assert _kinds(deliveries) == [EventKind.LIST_START, EventKind.LISTED, EventKind.LIST_END]
    assert protocol.last_error == ""


def test_a_404_that_is_not_the_api_servers_does_not_make_a_collection_absent() -> None:
    """If this fails, a scheduler that starts behind a broken proxy believes that no device is allocated."""
    protocol = _protocol(OPTIONAL)
    assert protocol.failed(ApiError(404, "", "<html>404 Not Found</html>")) == []
    assert not protocol.listed


def test_a_collection_that_is_served_by_now_is_listed_before_its_version_is_delivered() -> None:
    """If this fails, a new leader begins without the claims of an API that was enabled half a minute ago."""
    protocol = _protocol(OPTIONAL)
    protocol.failed(ApiError(404, "", "404 page not found"))
    protocol.next_step()
    protocol.request_version(7)
    assert not protocol.has_delivered(7)
    assert protocol.next_step() == StreamList("7", SECONDS)
    protocol.opened()
    protocol.events([_event("ADDED", 5), _end(8)])
    assert protocol.has_delivered(7)


def test_a_collection_that_is_needed_and_not_served_is_no_success() -> None:
    """If this fails, a scheduler that cannot see pods believes that there are none."""
    protocol = _protocol()
    assert protocol.failed(ApiError(404, "NotFound", "")) == []
    assert not protocol.listed


def test_a_wanted_version_of_a_small_collection_is_listed_at_once() -> None:
    """If this fails, a new leader waits for bookmarks where one request would do."""
    protocol = _watching(100)
    protocol.request_version(150)
    assert protocol.next_step() == StreamList("150", SECONDS)
    protocol.opened()
    protocol.events([_end(151)])
    assert protocol.has_delivered(150)
    assert protocol.next_step() == OpenWatch("151", listwatch.WATCH_SECONDS[0])


def test_a_list_of_all_at_once_is_not_small_because_it_is_one_answer() -> None:
    """If this fails, a hundred thousand pods are listed again at each change of leader."""
    protocol = _protocol()
    protocol.page([_object(f"p{number}", 1) for number in range(501)], {"resourceVersion": "100"})
    protocol.request_version(150)
    assert protocol.next_step() == OpenWatch("100", listwatch.CATCH_UP_WATCH_SECONDS)


def test_a_wanted_version_makes_watches_short_until_it_is_reached() -> None:
    """If this fails, a new leader waits up to a minute for the bookmark of an idle collection."""
    protocol = _watching_many(100)
    protocol.request_version(150)
    assert not protocol.has_delivered(150)
    assert protocol.next_step() == OpenWatch("100", listwatch.CATCH_UP_WATCH_SECONDS)
    protocol.opened()
    protocol.events([_event("BOOKMARK", 150)])
    assert protocol.has_delivered(150)
    protocol.closed(seconds=3)
    assert protocol.next_step() == OpenWatch("150", listwatch.WATCH_SECONDS[0])


def test_waiting_for_an_older_version_does_not_delay_waiting_for_a_newer_one() -> None:
    """If this fails, a new leader waits for minutes because somebody else was content with an older version."""
    protocol = _watching_many(100)
    protocol.request_version(200)
    protocol.request_version(150)
    protocol.events([_event("BOOKMARK", 150)])
    assert not protocol.has_delivered(200)
    assert protocol.next_step() == OpenWatch("150", listwatch.CATCH_UP_WATCH_SECONDS)


def test_a_wanted_version_that_no_watch_brings_leads_to_a_list() -> None:
    """If this fails, a new leader on a server without bookmarks waits forever."""
    protocol = _watching_many(100)
    protocol.request_version(150)
    for _ in range(listwatch.CATCH_UP_WATCHES):
        assert isinstance(protocol.next_step(), OpenWatch)
        protocol.opened()
        protocol.closed(seconds=3)
    assert protocol.next_step() == StreamList("150", SECONDS)
    protocol.opened()
    protocol.events([_end(160)])
    assert protocol.has_delivered(150)


def test_an_unknown_event_type_is_ignored() -> None:
    """If this fails, an event type that a later API server adds breaks the watch."""
    deliveries, error = _watching(100).events([_event("PROGRESS", 101), _event("DELETED", 102)])
    assert (_kinds(deliveries), error) == ([EventKind.DELETED], None)


def test_a_list_is_streamed_and_goes_on_as_a_watch() -> None:
    protocol = _protocol()
    assert protocol.next_step() == StreamList("", SECONDS)
    protocol.opened()
    first, error = protocol.events([_event("ADDED", 7), _event("ADDED", 5)])
    assert (_kinds(first), error) == ([EventKind.LIST_START, EventKind.LISTED, EventKind.LISTED], None)
    assert (protocol.listed, protocol.streaming, protocol.version) == (False, True, 0)
    # What happens while the list is sent, and a bookmark that ends nothing.
    more, _ = protocol.events([_event("MODIFIED", 91), _event("BOOKMARK", 92), _event("DELETED", 93)])
    assert _kinds(more) == [EventKind.LISTED, EventKind.DELETED]
    last, _ = protocol.events([_end(100), _event("ADDED", 101)])
    assert _kinds(last) == [EventKind.LIST_END, EventKind.ADDED]
    assert (protocol.listed, protocol.streaming, protocol.version) == (True, False, 101)
    assert (protocol.counters.lists, protocol.counters.events) == (1, 1)
    protocol.closed(seconds=0.1)
    assert protocol.next_step() == OpenWatch("101", SECONDS)


@pytest.mark.parametrize(
    "error",
    [
        REFUSED,
        ApiError(403, "Forbidden", ""),
        ApiError(500, "", ""),
        ApiUnreachable("broke", sent=True),
        BrokenStream(),
    ],
    ids=["refused", "forbidden", "internal-error", "broken", "garbled"],
)
@pytest.mark.parametrize("opened", [False, True], ids=["at-once", "midway"])
def test_a_list_that_cannot_be_streamed_is_listed_in_pages_this_time(error: Failure, opened: bool) -> None:
    protocol = _protocol()
    protocol.next_step()
    if opened:
        protocol.opened()
        protocol.events([_event("ADDED", 7)])
    assert protocol.failed(error) == []
    assert protocol.last_error == ""
    assert protocol.next_step() == ListPage(500)
    assert _kinds(protocol.page([], {"resourceVersion": "90"})) == [EventKind.LIST_START, EventKind.LIST_END]
    assert protocol.next_step() == OpenWatch("90", SECONDS)
    protocol.failed(GONE)
    assert isinstance(protocol.next_step(), Pause)
    assert protocol.next_step() == StreamList("90", SECONDS)


def test_a_stream_that_ends_before_its_list_does_is_no_list() -> None:
    protocol = _protocol()
    protocol.next_step()
    protocol.opened()
    protocol.events([_event("ADDED", 7)])
    protocol.closed(seconds=90.0)
    assert not protocol.listed
    assert protocol.next_step() == ListPage(500)


@pytest.mark.parametrize("error", [AWAY, ApiError(429, "TooManyRequests", "")], ids=["away", "busy"])
def test_a_stream_is_requested_again_from_an_unreachable_or_busy_server(error: Failure) -> None:
    """An unreachable or busy server gets the same streaming request again, not the more expensive list."""
    protocol = _protocol()
    protocol.failed(error)
    assert isinstance(protocol.next_step(), Pause)
    assert protocol.next_step() == StreamList("", SECONDS)


TOO_LARGE = ApiError(504, "Timeout", "", details={"causes": [{"reason": "ResourceVersionTooLarge"}]})


@pytest.mark.parametrize("error", [GONE, TOO_LARGE], ids=["expired", "too-large"])
def test_a_stream_that_cannot_begin_at_a_version_begins_at_the_newest(error: ApiError) -> None:
    protocol = _watching(100)
    protocol.request_version(150)
    assert protocol.next_step() == StreamList("150", SECONDS)
    protocol.failed(error)
    assert protocol.next_step() == StreamList("", SECONDS)
    protocol.failed(error)
    assert protocol.next_step() == ListPage(500)


def test_a_collection_that_is_served_by_now_is_absent_no_longer() -> None:
    """If this fails, a right that is missing since an upgrade is reported as an API that is not served."""
    protocol, missing = _protocol(OPTIONAL), ApiError(404, "", "404 page not found")
    protocol.failed(missing)
    protocol.note_served()
    assert (protocol.state, protocol.listed) == (State.LISTING, True)
    protocol.failed(missing)
    assert protocol.state is State.ABSENT
    watching = _watching(resource=OPTIONAL)
    watching.note_served()
    assert watching.state is State.WATCHING
