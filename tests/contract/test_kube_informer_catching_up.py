"""An informer is told to catch up, with its collection or with one object of it."""

import asyncio
import time

import pytest
from aiohttp import web

from tests.contract.followed_informer import THINGS, Log, following, is_watch, name_of, open_for_ever
from tests.contract.kube_fake_server import (
    Seen,
    answer,
    failure,
    line,
    listing,
    serving,
    stream,
    thing,
)
from trireme_kube.client.informers import informer, resources
from trireme_kube.client.rest import client, credentials
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable


async def test_a_collection_that_is_enabled_while_a_leader_catches_up_is_read_first() -> None:
    """If this fails, a new leader begins with no claims where there are some, and allocates their devices again."""
    served = asyncio.Event()

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        if not served.is_set():
            return web.Response(status=404, text="404 page not found\n")
        return await open_for_ever(request) if is_watch(seen) else listing(100, thing("a", 1))

    optional = resources.Resource("Thing", "/apis/x/v1/things", optional=True)
    async with following(script, optional) as (_, followed, log):
        await log.until(lambda: followed.synced)
        served.set()
        assert await followed.catch_up(10) == 100
        assert log.kinds == ["LIST_START", "LIST_END", "LIST_START", "LISTED", "LIST_END"]


async def test_a_leader_that_may_not_list_what_is_served_by_now_counts_it_as_empty() -> None:
    """If this fails, a standby with the role of an earlier version is ready, takes the Lease, and never schedules."""
    upgraded = False

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        if request.path != "/apis/x/v1":
            return failure(403, "Forbidden", "things is forbidden")
        return answer({"resources": [{"name": "things"}]}) if upgraded else failure(404, "NotFound")

    optional = resources.Resource("Thing", "/apis/x/v1/things", optional=True)
    async with following(script, optional) as (_, followed, log):
        await log.until(lambda: followed.synced)
        upgraded = True
        assert await followed.catch_up(5) == 0


@pytest.mark.parametrize("listed", [True, False])
async def test_catching_up_on_what_is_forbidden_fails_unless_it_was_absent(listed: bool) -> None:
    """If this fails, a new leader whose role has lost a right goes on at once, with devices that are allocated."""
    forbidden = asyncio.Event()
    if not listed:
        forbidden.set()

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        if request.path == "/apis/x/v1":
            return answer({"resources": [{"name": "things"}]})
        if forbidden.is_set():
            return failure(403, "Forbidden", "things is forbidden")
        return await open_for_ever(request) if is_watch(seen) else listing(100, thing("a", 1))

    optional = resources.Resource("Thing", "/apis/x/v1/things", optional=True)
    async with following(script, optional) as (_, followed, log):
        if listed:
            await log.until(lambda: followed.synced)
        forbidden.set()
        with pytest.raises(ApiError, match="things is forbidden"):
            await followed.catch_up(5)


@pytest.mark.parametrize("of_one_object", [False, True])
async def test_catching_up_fails_at_once_if_the_watch_is_forbidden(of_one_object: bool) -> None:
    """If this fails, a role with `list` and without `watch` looks like an API server that is slow."""

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        if is_watch(seen):
            return failure(403, "Forbidden", "cannot watch things")
        if "continue" in seen.query or seen.query.get("limit") == str(THINGS.page):
            return listing(100, thing("b", 100), more="" if "continue" in seen.query else "T")
        return listing(150, thing("b", 150))

    async with following(script) as (_, followed, log):
        await log.until(lambda: followed.synced)
        started = time.monotonic()
        with pytest.raises(ApiError, match="cannot watch things"):
            await (followed.catch_up_with("ns", "b", 20) if of_one_object else followed.catch_up(20))
        assert time.monotonic() - started < 10


async def test_catching_up_on_an_idle_collection_takes_a_short_watch() -> None:
    """If this fails, a new leader waits a minute for each quiet collection, or acts before it has seen everything."""
    seconds: list[str] = []
    newest = {"version": 100}

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        if not is_watch(seen):
            return listing(newest["version"], thing("b", 1), more="" if seen.query.get("continue") else "T")
        seconds.append(seen.query["timeoutSeconds"])
        if len(seconds) == 1:
            return await open_for_ever(request)
        return await open_for_ever(request, line("ADDED", thing("a", 140)), line("BOOKMARK", thing("", 150)))

    async with following(script) as (_, followed, log):
        await log.until(lambda: followed.synced)
        assert await followed.catch_up(5) == 100
        newest["version"] = 150
        assert await followed.catch_up(5) == 150
        assert ("ADDED", "a") in log.all
        assert followed.statistics().lists == 1
        with pytest.raises(TimeoutError):
            await followed.wait_for_version(999, 0.2)
    assert seconds == ["300", "3", "3"]


async def test_catching_up_on_a_small_collection_takes_one_list() -> None:
    """If this fails, becoming the leader takes seconds on the smallest cluster."""
    newest = {"version": 100}

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        return await open_for_ever(request) if is_watch(seen) else listing(newest["version"], thing("a", 1))

    async with following(script) as (_, followed, log):
        await log.until(lambda: followed.synced)
        newest["version"] = 150
        started = time.monotonic()
        await asyncio.gather(followed.catch_up(60), followed.catch_up(60))
        assert time.monotonic() - started < 20
        assert followed.version == 150
    assert log.kinds[-3:] == ["LIST_START", "LISTED", "LIST_END"]


@pytest.mark.parametrize("comes", ["by itself", "on a new watch", "not at all"])
async def test_one_object_is_waited_for_as_the_server_has_it(monkeypatch: pytest.MonkeyPatch, comes: str) -> None:
    """If this fails, devices that were written into a claim, and are not shown yet, are given to another pod."""
    monkeypatch.setattr(informer, "EVENT_SECONDS", 0.3)
    written = asyncio.Event()
    watches: list[str] = []
    read: list[str] = []

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        if seen.query.get("fieldSelector") == "metadata.name=a":
            read.append(request.path)
            written.set()
            return listing(150, *([] if comes == "not at all" else [thing("a", 140)]))
        if not is_watch(seen):
            return listing(100, thing("a", 1))
        watches.append(seen.query["resourceVersion"])
        if len(watches) == 1 and comes != "by itself":
            return await open_for_ever(request)
        response = await stream(request)
        await written.wait()
        await response.write(line("MODIFIED", thing("a", 140)))
        await asyncio.Event().wait()
        return response

    async with following(script) as (_, followed, log):
        await log.until(lambda: followed.synced)
        while not watches:  # rare, and the server has no event for it
            await asyncio.sleep(0.01)
        await followed.catch_up_with("team", "a", 10)
        assert (("MODIFIED", "a") in log.all) == (comes != "not at all")
    assert read == ["/api/v1/namespaces/team/things"]
    assert watches == ["100"] * (2 if comes == "on a new watch" else 1)


async def test_catching_up_fails_when_the_server_is_unreachable() -> None:
    """If this fails, a new leader believes to be up to date though it could not ask."""

    async def script(_request: web.Request, _seen: Seen) -> web.StreamResponse:
        return listing(100)

    async with serving(script) as server:
        settings = client.ClientSettings(credentials.Source(master=server.url), qps=-1.0)
    async with await client.connect(settings) as api:
        with pytest.raises(ApiUnreachable):
            await informer.Informer(api, THINGS, name_of, [Log().on_events]).catch_up(0.3)
