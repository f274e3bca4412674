"""Informers over a real socket, against an API server that does all that API servers do to their watchers."""

import asyncio
from collections.abc import Sequence

import pytest
from aiohttp import web

from tests.contract.followed_informer import ACCEPT, THINGS, Log, following, is_watch, name_of, open_for_ever
from tests.contract.kube_fake_server import (
    Seen,
    answer,
    end_of_list,
    failure,
    line,
    listing,
    serving,
    stream,
    thing,
    without_streams,
)
from trireme.v1 import core_pb2
from trireme_kube.client.informers import discovery, informer, list_prefetch, listwatch, resources, watch
from trireme_kube.client.informers.watch import Event, EventKind
from trireme_kube.client.rest import client, content_types, credentials, envelope
from trireme_kube.client.rest.errors import ApiError
from trireme_kube.v1 import encoding_pb2


async def test_pages_then_the_watch_with_lines_cut_anywhere() -> None:
    """If this fails, objects are missing from the cache, or events come twice, garbled or out of order."""
    events = b"".join(line("ADDED", thing(f"n{number}", 100 + number)) for number in range(1, 30))

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        if not is_watch(seen):
            if seen.query.get("continue") == "T":
                return listing(100, thing("c", 3))
            return listing(100, thing("a", 1), thing("b", 2), more="T")
        response = await stream(request)
        for at in range(0, len(events), 37):
            await response.write(events[at : at + 37])
            await asyncio.sleep(0)
        await asyncio.Event().wait()
        return response

    async with following(script) as (server, followed, log):
        await log.until(lambda: followed.version == 129)
    listed = [("LISTED", "a"), ("LISTED", "b"), ("LISTED", "c")]
    assert log.all[:5] == [("LIST_START", None), *listed, ("LIST_END", None)]
    assert log.all[5:] == [("ADDED", f"n{number}") for number in range(1, 30)]
    first, second, watch = (seen for seen in server.seen if "sendInitialEvents" not in seen.query)
    assert first.query == {"limit": "2", "fieldSelector": "a!=b"}
    assert second.query == {"limit": "2000", "continue": "T", "fieldSelector": "a!=b"}
    assert watch.query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "100",
        "timeoutSeconds": "300",
        "fieldSelector": "a!=b",
    }


async def test_the_next_page_is_made_while_one_is_worked_in() -> None:
    """If this fails, the server and we wait for each other, page for page, and a start takes the time of both."""
    many = [thing(f"n{number}", number) for number in range(1, 50 * informer.EVENTS_PER_TURN)]
    known_when_asked: list[int] = []

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        if is_watch(seen):
            return await open_for_ever(request)
        if seen.query.get("continue") == "T":
            known_when_asked.append(len(log.all))
            return listing(100, thing("last", 99))
        return listing(100, *many, more="T")

    async with following(script) as (_, followed, log):
        await log.until(lambda: followed.synced)
    assert len(known_when_asked) == 1
    assert known_when_asked[0] < len(many)
    assert len(log.all) == len(many) + 3


async def test_events_of_one_chunk_come_in_one_batch() -> None:
    """If this fails, a burst of changes costs the consumer a call for each."""
    events = b"".join(line("MODIFIED", thing("n", 100 + number)) for number in range(1, 11))

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        return await open_for_ever(request, events) if is_watch(seen) else listing(100)

    async with following(script) as (_, followed, log):
        await log.until(lambda: followed.version == 110)
    assert [len(batch) for batch in log.batches] == [2, 10]


async def test_a_closed_watch_goes_on_from_the_bookmark_at_once() -> None:
    """If this fails, each of the API server's regular closings costs a full list or a pause."""
    versions: list[str] = []

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        if not is_watch(seen):
            return listing(100)
        versions.append(seen.query["resourceVersion"])
        if len(versions) == 1:
            response = await stream(request)
            await response.write(line("BOOKMARK", thing("", 500)))
            return response
        return await open_for_ever(request, line("DELETED", thing("a", 501)))

    async with following(script) as (_, followed, log):
        await log.until(lambda: followed.version == 501)
        statistics = followed.statistics()
        # Only what failed is followed by a pause.
        assert (statistics.lists, statistics.failures) == (1, 0)
    assert versions == ["100", "500"]


@pytest.mark.parametrize("way", ["http", "event"])
async def test_a_compacted_version_leads_to_a_new_list(way: str) -> None:
    """If this fails, an informer that was cut off for long never sees the cluster again."""
    state = {"lists": 0, "watches": 0}
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        if not is_watch(seen):
            state["lists"] += 1
            return listing(100 * state["lists"], thing(f"of-list-{state['lists']}", 1))
        state["watches"] += 1
        if state["watches"] == 1 or (way == "event" and state["watches"] == 2):
            response = await stream(request)
            await response.write(line("ADDED", thing("n", 101)))
            if state["watches"] == 2 or way == "event":
                await response.write(line("ERROR", gone))
            return response
        if way == "http" and state["watches"] == 2:
            return failure(410, "Expired")
        return await open_for_ever(request)

    async with following(script) as (_, followed, log):
        await log.until(lambda: "of-list-2" in [name for _, name in log.all] and log.kinds[-1] == "LIST_END")
        assert followed.statistics().expirations >= 1
        assert followed.synced
    assert log.kinds[:4] == ["LIST_START", "LISTED", "LIST_END", "ADDED"]
    assert log.all[-2:] == [("LISTED", "of-list-2"), ("LIST_END", None)]


async def test_an_expired_page_starts_the_list_over() -> None:
    """If this fails, a list that took too long ends with objects of two different moments, or never."""
    tokens: list[str | None] = []

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        if is_watch(seen):
            return await open_for_ever(request)
        tokens.append(seen.query.get("continue"))
        if tokens[-1] == "T" and len(tokens) == 2:
            return failure(410, "Expired")
        return listing(100, thing("a", 1), more="" if tokens[-1] else "T")

    async with following(script) as (_, followed, log):
        await log.until(lambda: followed.synced)
    assert tokens == [None, "T", None, "T"]
    assert log.kinds == ["LIST_START", "LISTED", "LIST_START", "LISTED", "LISTED", "LIST_END"]


async def test_an_optional_collection_appears_when_it_is_served(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, an older cluster blocks the start, or an API enabled later is never seen."""
    monkeypatch.setattr(listwatch, "ABSENT_PAUSE_SECONDS", 0.05)
    caplog.set_level("INFO")
    served = asyncio.Event()

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        if not served.is_set():
            return failure(404, "NotFound")
        return await open_for_ever(request) if is_watch(seen) else listing(100, thing("a", 1))

    optional = resources.Resource("Thing", "/apis/x/v1/things", optional=True)
    async with following(script, optional) as (_, followed, log):
        await log.until(lambda: followed.synced)
        assert log.kinds == ["LIST_START", "LIST_END"]
        assert await followed.catch_up(5) == 0
        served.set()
        await log.until(lambda: followed.version == 100)
        assert not followed.absent
    assert log.kinds[2:] == ["LIST_START", "LISTED", "LIST_END"]
    assert "x/v1/things: the API server serves it by now" in caplog.messages


@pytest.mark.parametrize("streams", [True, False])
async def test_an_absent_collection_costs_one_request(streams: bool) -> None:
    """If this fails, an older API server is asked again and again for what it does not have."""
    requested: list[str] = []

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        requested.append(request.path)
        return failure(404, "NotFound")

    optional = resources.Resource("Thing", "/apis/x/v1/things", optional=True)
    async with following(script, optional, streams=streams) as (_, followed, log):
        await log.until(lambda: followed.synced)
        assert followed.absent
        await asyncio.sleep(0.3)
    assert requested == ["/apis/x/v1/things"]


@pytest.mark.parametrize("served", [False, True])
@pytest.mark.parametrize("discovered", [answer({"resources": [{"name": "others"}]}), failure(404, "NotFound")])
async def test_what_may_not_be_listed_is_absent_if_it_is_not_served(served: bool, discovered: web.Response) -> None:
    """If this fails, a scheduler with the role of an earlier version is never ready on a cluster of that version."""
    asked: list[str] = []

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        asked.append(request.path)
        if request.path == "/apis/x/v1":
            body = discovered if not served else answer({"resources": [{"name": "others"}, {"name": "things"}]})
            return web.Response(body=body.body, status=body.status, content_type="application/json")
        return failure(403, "Forbidden", "things is forbidden")

    optional = resources.Resource("Thing", "/apis/x/v1/things", optional=True)
    async with following(script, optional, streams=True) as (_, followed, log):
        if served:
            async with asyncio.timeout(20):
                while "forbidden" not in followed.statistics().last_error:
                    await asyncio.sleep(0.01)
            assert not followed.synced
            assert not followed.absent
        else:
            await log.until(lambda: followed.synced)
            await asyncio.sleep(0.3)
            assert followed.absent
            assert asked == ["/apis/x/v1/things", "/apis/x/v1"]
            # A new leader is not kept waiting either.
            assert await followed.catch_up(5) == 0


async def test_what_was_listed_and_is_forbidden_later_stays_until_it_may_be_read_again() -> None:
    """If this fails, a role that loses a line empties the cache of a leader, or nobody learns that it is old."""
    watched, forbidden, allowed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        if forbidden.is_set() and not allowed.is_set():
            return failure(403, "Forbidden", "things is forbidden")
        if not is_watch(seen):
            return listing(100, thing("a", 1))
        if allowed.is_set():
            return await open_for_ever(request, line("ADDED", thing("b", 101)))
        response = await stream(request)
        watched.set()
        await forbidden.wait()
        return response

    async with following(script) as (_, followed, log):
        await log.until(lambda: followed.synced)
        await watched.wait()
        forbidden.set()
        async with asyncio.timeout(20):
            while followed.statistics().last_status != 403:
                await asyncio.sleep(0.01)
        problem = (
            "things is forbidden (403 Forbidden) (https://trireme.dev/docs/troubleshooting.html#missing-permissions)"
        )
        assert (followed.synced, followed.statistics().last_error) == (True, problem)
        assert log.kinds == ["LIST_START", "LISTED", "LIST_END"]
        allowed.set()
        await log.until(lambda: followed.version == 101)
        assert followed.statistics().last_error == ""
    assert log.kinds == ["LIST_START", "LISTED", "LIST_END", "ADDED"]


@pytest.mark.parametrize(
    ("discovered", "absent"),
    [
        pytest.param(answer({"resources": [{"name": "things"}]}), False, id="served"),
        pytest.param(failure(503, "ServiceUnavailable"), True, id="unknown"),
    ],
)
async def test_what_was_absent_and_may_not_be_listed_is_an_error_once_it_is_served(
    monkeypatch: pytest.MonkeyPatch, discovered: web.Response, absent: bool
) -> None:
    """If this fails, `trireme status` shows "Not served" where a right is missing.

    The informer stays synced, as client-go's does: a frontend that was ready stays so.
    """
    monkeypatch.setattr(listwatch, "ABSENT_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(discovery, "DEADLINE_SECONDS", 1.0)  # so long is a server asked that does not say
    upgraded, allowed = asyncio.Event(), asyncio.Event()

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        if request.path == "/apis/x/v1":
            body = discovered if upgraded.is_set() else failure(404, "NotFound")
            return web.Response(body=body.body, status=body.status, content_type="application/json")
        if not allowed.is_set():
            return failure(403, "Forbidden", "things is forbidden")
        return await open_for_ever(request) if is_watch(seen) else listing(100, thing("a", 1))

    optional = resources.Resource("Thing", "/apis/x/v1/things", optional=True)
    async with following(script, optional) as (_, followed, log):
        await log.until(lambda: followed.synced)
        assert followed.absent
        upgraded.set()
        async with asyncio.timeout(20):
            while "things is forbidden" not in followed.statistics().last_error:
                await asyncio.sleep(0.01)
        assert (followed.synced, followed.absent) == (True, absent)
        allowed.set()
        await log.until(lambda: followed.version == 100)
        assert (followed.absent, followed.statistics().last_error) == (False, "")
    assert log.kinds == ["LIST_START", "LIST_END", "LIST_START", "LISTED", "LIST_END"]


@pytest.mark.parametrize("streams", [True, False])
async def test_an_earlier_version_of_the_api_is_read_where_there_is_no_other(
    monkeypatch: pytest.MonkeyPatch, streams: bool
) -> None:
    """If this fails, a server of another minor version seems to have no such objects."""
    monkeypatch.setattr(listwatch, "ABSENT_PAUSE_SECONDS", 0.05)
    served = {"path": ""}
    requested: list[str] = []

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        requested.append(request.path)
        if request.path != served["path"]:
            return failure(404, "NotFound")
        if streams and "sendInitialEvents" in seen.query:
            return await open_for_ever(request, line("ADDED", thing("a", 1)), end_of_list(100))
        return await open_for_ever(request) if is_watch(seen) else listing(100, thing("a", 1))

    new, old = "/apis/x/v1/things", "/apis/x/v1beta1/things"
    versions = resources.Resource("Thing", new, optional=True, earlier_path=old)
    async with following(script, versions, streams=streams) as (_, followed, log):
        await log.until(lambda: followed.synced)
        assert log.kinds == ["LIST_START", "LIST_END"]
        assert requested[:2] == [new, old]
        served["path"] = old
        await log.until(lambda: followed.version == 100)
    assert log.all[-2:] == [("LISTED", "a"), ("LIST_END", None)]


async def test_a_404_of_a_collection_that_was_listed_is_not_taken_for_its_end() -> None:
    """If this fails, a load balancer's page empties the cache, and counts as all that an earlier leader wrote."""
    broken = asyncio.Event()

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        if broken.is_set():
            return web.Response(status=404, text="404 page not found\n")
        if not is_watch(seen):
            return listing(100, thing("a", 1))
        broken.set()
        response = await stream(request)
        await response.write(line("ADDED", thing("b", 101)))
        await asyncio.sleep(listwatch.SHORTEST_WATCH_SECONDS)
        return response

    optional = resources.Resource("Thing", "/apis/x/v1/things", optional=True)
    async with following(without_streams(script), optional) as (_, followed, log):
        await log.until(lambda: followed.version == 101)
        with pytest.raises(ApiError, match="404 page not found"):
            await followed.catch_up(5)
        async with asyncio.timeout(20):
            while not followed.statistics().last_error:
                await asyncio.sleep(0.05)
    assert log.kinds == ["LIST_START", "LISTED", "LIST_END", "ADDED"]


async def test_a_malformed_object_does_not_stop_the_informer(caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, anybody who can create one odd object stops the scheduler."""

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        if not is_watch(seen):
            return listing(100, thing("a", 1), thing("odd", 2), thing("b", 3))
        return await open_for_ever(request, line("ADDED", thing("odd", 101)) + line("ADDED", thing("c", 102)))

    async with following(script) as (_, followed, log):
        await log.until(lambda: followed.version == 102)
        assert followed.statistics().undecodable == 2
    assert [name for _, name in log.all if name] == ["a", "b", "c"]
    assert caplog.text.count("a Thing cannot be decoded: default/odd: ") == 2


async def test_a_garbled_watch_and_a_server_that_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, an informer ends, or lists needlessly, when the API server restarts or a proxy interferes."""
    monkeypatch.setattr(listwatch, "FIRST_PAUSE_SECONDS", 0.05)
    answers = ["garbage", "500", "hang-up", "fine"]

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        if not is_watch(seen):
            return listing(100)
        match answers.pop(0):
            case "garbage":
                return web.Response(text="<html>\n")
            case "500":
                return failure(500, "InternalError")
            case "hang-up":
                response = await stream(request)
                await response.write(b'{"type":"ADD')
                await asyncio.sleep(0.05)
                assert request.transport is not None
                request.transport.abort()
                return response
        return await open_for_ever(request, line("ADDED", thing("a", 101)))

    async with following(script) as (server, followed, log):
        await log.until(lambda: followed.version == 101)
        statistics = followed.statistics()
    assert (statistics.lists, statistics.failures) == (1, 3)
    assert [seen.query["resourceVersion"] for seen in server.seen if is_watch(seen)] == ["100"] * 4


async def test_a_quiet_collection_is_watched_without_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, pauses between the watches of a quiet collection grow to a minute, and its news waits for them."""
    monkeypatch.setattr(list_prefetch, "IDLE_SECONDS", 0.1)
    monkeypatch.setattr(listwatch, "SHORTEST_WATCH_SECONDS", 0.05)
    watches = 0

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        nonlocal watches
        if not is_watch(seen):
            return listing(100)
        watches += 1
        return await open_for_ever(request, *([line("ADDED", thing("a", 140))] if watches == 5 else []))

    async with following(script) as (_, followed, log):
        await log.until(lambda: "ADDED" in log.kinds)
        statistics = followed.statistics()
    assert (statistics.lists, statistics.failures, statistics.last_error) == (1, 0, "")


async def test_a_consumer_that_raises_ends_the_informer() -> None:
    """If this fails, a defect in the cache leaves a scheduler running on a stale view."""

    def fail(events: Sequence[Event[str]]) -> None:
        assert events[0].kind is EventKind.LIST_START
        raise RuntimeError("defect")

    async def script(_request: web.Request, _seen: Seen) -> web.StreamResponse:
        return listing(100)

    async with serving(script) as server:
        settings = client.ClientSettings(credentials.Source(master=server.url), qps=-1.0)
        async with await client.connect(settings) as api:
            with pytest.raises(RuntimeError, match="defect"):
                await informer.Informer(api, THINGS, name_of, [fail]).run()


def _in_protobuf(name: str, version: int) -> bytes:
    return core_pb2.Node(metadata={"name": name, "resource_version": str(version)}).SerializeToString()


def _wrapped(raw: bytes) -> bytes:
    return envelope.MAGIC + encoding_pb2.Unknown(raw=raw).SerializeToString()


async def test_protobuf_is_requested_and_responses_are_decoded_by_content_type() -> None:
    """If this fails, a server that answers in the other encoding, as the embedded one does, is not understood."""
    event = encoding_pb2.WatchEvent(type="ADDED", object={"raw": _wrapped(_in_protobuf("d", 104))}).SerializeToString()
    frame = len(event).to_bytes(4, "big") + event

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        if not is_watch(seen):
            if seen.query.get("continue") == "T":
                return listing(100, thing("b", 2))
            page = encoding_pb2.AnyList(items=[_in_protobuf("a", 1), _in_protobuf("odd", 7)])
            page.metadata.resource_version, page.metadata.continue_token = "100", "T"
            return web.Response(body=_wrapped(page.SerializeToString()), content_type=content_types.PROTOBUF)
        if seen.query["resourceVersion"] == "100":
            response = await stream(request)
            await response.write(line("ADDED", thing("c", 103)))
            return response
        response = web.StreamResponse(headers={"Content-Type": f"{content_types.PROTOBUF};stream=watch"})
        await response.prepare(request)
        for at in range(0, len(frame), 5):
            await response.write(frame[at : at + 5])
        await asyncio.Event().wait()
        return response

    def decode_protobuf(raw: bytes) -> str:
        return name_of({"metadata": watch.metadata_of(raw)})

    async with following(script, decode_protobuf=decode_protobuf) as (server, followed, log):
        await log.until(lambda: followed.version == 104)
        assert followed.statistics().undecodable == 1
    assert log.all[1:3] == [("LISTED", "a"), ("LISTED", "b")]
    assert log.all[-2:] == [("ADDED", "c"), ("ADDED", "d")]
    assert {seen.headers["Accept"] for seen in server.seen} == {ACCEPT}


async def test_a_list_is_streamed_and_watched_on_one_connection() -> None:
    """If this fails, each informer costs the API server a list and a watch, or misses what happens between the two."""
    objects = b"".join(line("ADDED", thing(f"n{number}", number)) for number in range(1, 700))

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        response = await stream(request)
        for part in (objects[:5000], objects[5000:], end_of_list(900) + line("ADDED", thing("new", 901))):
            await response.write(part)
            await asyncio.sleep(0.01)
        await asyncio.Event().wait()
        return response

    async with following(script, streams=True) as (server, followed, log):
        assert await asyncio.gather(log.until(lambda: followed.version == 901), followed.wait_for_version(900, 20))
        statistics = followed.statistics()
    assert (statistics.lists, statistics.pages, statistics.watches, statistics.events) == (1, 0, 1, 1)
    assert log.kinds == ["LIST_START", *["LISTED"] * 699, "LIST_END", "ADDED"]
    (only,) = server.seen
    assert only.query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "timeoutSeconds": "300",
        "fieldSelector": "a!=b",
    }


@pytest.mark.parametrize("where", ["first", "middle"])
async def test_a_stream_that_breaks_off_is_listed_in_pages(where: str) -> None:
    """If this fails, a proxy that cuts long answers keeps the scheduler from ever seeing the cluster."""

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        if "sendInitialEvents" in seen.query:
            response = await stream(request)
            if where == "middle":
                await response.write(line("ADDED", thing("of-the-stream", 1)))
            await asyncio.sleep(0.01)
            assert request.transport is not None
            request.transport.abort()
            return response
        return await open_for_ever(request) if is_watch(seen) else listing(100, thing("a", 1))

    async with following(script, streams=True) as (server, followed, log):
        await log.until(lambda: followed.synced)
    assert log.all[-3:] == [("LIST_START", None), ("LISTED", "a"), ("LIST_END", None)]
    assert ["sendInitialEvents" in seen.query for seen in server.seen][:2] == [True, False]


@pytest.mark.parametrize("streams", [True, False], ids=["streamed", "in-pages"])
async def test_a_list_that_was_begun_is_taken_up(streams: bool) -> None:
    """If this fails, what was read while modules were loaded is lost, or asked for again."""

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        if "sendInitialEvents" in seen.query:
            return await open_for_ever(request, line("ADDED", thing("a", 1)), end_of_list(100))
        return await open_for_ever(request) if is_watch(seen) else listing(100, thing("a", 1))

    async with serving(script if streams else without_streams(script)) as server:
        settings = client.ClientSettings(credentials.Source(master=server.url), qps=-1.0)
        async with await client.connect(settings) as api:
            begun = list_prefetch.ListPrefetch(api, THINGS, content_types.JSON, 300)
            while len(server.seen) < 2 - streams:
                await asyncio.sleep(0.001)
            log = Log()
            followed = informer.Informer(api, THINGS, name_of, [log.on_events], prefetch=begun)
            task = asyncio.create_task(followed.run())
            await log.until(lambda: followed.synced)
            task.cancel()
            await asyncio.wait([task], timeout=20)
    assert log.all == [("LIST_START", None), ("LISTED", "a"), ("LIST_END", None)]
    assert sum("sendInitialEvents" in seen.query for seen in server.seen) == 1
    assert sum("watch" not in seen.query for seen in server.seen) == (not streams)


async def test_json_is_requested_from_then_on() -> None:
    """If this fails, a plugin that comes late and wants nodes as JSON gets none of those that were read before."""

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        return await open_for_ever(request) if is_watch(seen) else listing(100, thing("a", 1))

    async with following(script, decode_protobuf=lambda raw: "never") as (server, followed, log):
        await log.until(lambda: followed.synced)
        while not followed.statistics().watches:  # a watch that brings nothing is not reported
            await asyncio.sleep(0.01)
        followed.request_json()
        before = len(server.seen)
        await followed.relist()
        assert log.kinds.count("LISTED") == 2
    assert {seen.headers["Accept"] for seen in server.seen[:before]} == {ACCEPT}
    assert {seen.headers["Accept"] for seen in server.seen[before:]} == {content_types.JSON}


async def test_a_list_that_was_requested_is_made_though_the_caller_gave_up() -> None:
    """A reload gives up after two minutes; pods of its new profile must be listed, or none is scheduled."""
    first_list = asyncio.Event()

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        if is_watch(seen):
            return await open_for_ever(request)
        await first_list.wait()
        return listing(100, thing("a", 1))

    async with following(without_streams(script)) as (server, followed, log):
        while not server.seen:
            await asyncio.sleep(0.001)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await followed.relist()  # waits for the first list, which does not end
        first_list.set()
        await log.until(lambda: log.kinds.count("LIST_END") == 2)
