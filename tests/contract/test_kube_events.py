"""Events as they reach the API server."""

import asyncio
import contextlib
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from tests.contract.kube_fake_server import FakeServer, Script, Seen, answer, failure, serving
from trireme_kube.apimachinery import api_writes
from trireme_kube.client.events import event_recorder, event_series
from trireme_kube.client.events.event_series import ObjectReference
from trireme_kube.client.rest import client, credentials

POD = event_series.pod_reference("default", "web", "u1", "7")
NODE_LEASE = ObjectReference("Lease", "kube-system", "kube-scheduler", "u2", "coordination.k8s.io/v1", "9")
WALL = 1_767_322_800_123_456_789
NAME = f"web.{WALL:x}"
DEFAULT = "/apis/events.k8s.io/v1/namespaces/default/events"


class Clock:
    """Both clocks; the wall clock stands still but for what a test adds."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def wall(self) -> int:
        return WALL + int(self.seconds * 1e9)


async def _accept(_request: web.Request, seen: Seen) -> web.StreamResponse:
    return answer({}, 201 if seen.method == "POST" else 200)


@contextlib.asynccontextmanager
async def _recording(
    script: Script, run: bool = True, qps: float = -1.0, **more: Any
) -> AsyncIterator[tuple[FakeServer, event_recorder.EventRecorder, Clock, list[float]]]:
    clock, slept = Clock(), []

    async def sleep(seconds: float) -> None:
        if seconds == event_recorder.HOUSEKEEPING_SECONDS:
            await asyncio.Event().wait()  # the tests keep house themselves
        slept.append(seconds)
        await asyncio.sleep(0)

    async with serving(script) as server:
        settings = client.ClientSettings(credentials.Source(master=server.url), qps=qps, burst=1)
        async with await client.connect(settings) as api:
            recorder = event_recorder.EventRecorder(
                api,
                hostname="host",
                clock=clock.monotonic,
                wall=clock.wall,
                rng=lambda: 0.0,
                sleep=more.pop("sleep", sleep),
                **more,
            )
            await recorder.discover()
            task = asyncio.create_task(recorder.run()) if run else None
            try:
                yield server, recorder, clock, slept
            finally:
                if task is not None:
                    task.cancel()
                    await asyncio.wait([task])


async def test_a_scheduled_event_is_one_post_as_kube_scheduler_writes_it() -> None:
    """If this fails, `kubectl describe pod` shows no or another event than with kube-scheduler."""
    async with _recording(_accept) as (server, recorder, _, _):
        recorder.record_scheduled(POD, "node-a", "default-scheduler")
        assert await recorder.flush(10)
        (post,) = server.of("POST")
    assert post.path == DEFAULT
    assert post.json == {
        "kind": "Event",
        "apiVersion": "events.k8s.io/v1",
        "metadata": {"name": NAME, "namespace": "default"},
        "eventTime": "2026-01-02T03:00:00.123456Z",
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-host",
        "action": "Binding",
        "reason": "Scheduled",
        "regarding": {
            "kind": "Pod",
            "namespace": "default",
            "name": "web",
            "uid": "u1",
            "apiVersion": "v1",
            "resourceVersion": "7",
        },
        "note": "Successfully assigned default/web to node-a",
        "type": "Normal",
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
    }


def _fail(recorder: event_recorder.EventRecorder, pod: ObjectReference = POD, message: str = "0/3 nodes") -> None:
    recorder.record(pod, event_recorder.WARNING, "FailedScheduling", "Scheduling", message, "default-scheduler")


async def test_a_repeated_event_is_patched_once_into_a_series() -> None:
    """If this fails, a pod that waits writes an event a second, or its event never shows that it repeats."""
    async with _recording(_accept) as (server, recorder, clock, _):
        for second in (0.0, 1.0, 2.0, 3.0):
            clock.seconds = second
            _fail(recorder, message=f"attempt {second}")
            await recorder.flush(10)
        _fail(recorder, POD._replace(resource_version="8"))
        await recorder.flush(10)
        assert recorder.statistics().recorded == 5
        first, other = server.of("POST")
        (patch,) = server.of("PATCH")
    assert first.json["note"] == "attempt 0.0"
    assert (patch.path, patch.headers["Content-Type"]) == (f"{DEFAULT}/{NAME}", api_writes.STRATEGIC_MERGE)
    assert patch.json == {"series": {"count": 2, "lastObservedTime": "2026-01-02T03:00:01.123456Z"}}
    assert other.json["regarding"]["resourceVersion"] == "8"


async def test_a_series_is_written_again_every_half_hour_and_when_it_ends() -> None:
    """If this fails, a long series expires on the server, or its last count is never written."""
    turns: asyncio.Queue[None] = asyncio.Queue()

    async def sleep(_seconds: float) -> None:
        asleep.set()
        await turns.get()

    asleep = asyncio.Event()
    async with _recording(_accept, sleep=sleep) as (server, recorder, clock, _):

        async def wake_at(second: float) -> None:
            await asleep.wait()
            asleep.clear()
            clock.seconds = second
            turns.put_nowait(None)
            await asleep.wait()
            await recorder.flush(10)

        for second in range(0, 1801, 100):
            clock.seconds = float(second)
            _fail(recorder)
            await recorder.flush(10)
        await wake_at(1801)
        await wake_at(1860)
        await wake_at(1801 + event_series.FINISH_SECONDS)
        assert recorder.statistics().series == 0
        counts = [patch.json["series"]["count"] for patch in server.of("PATCH")]
    assert counts == [2, 19, 19]


async def test_a_series_whose_event_is_gone_is_created_again() -> None:
    """If this fails, the events of a pod that waits for longer than an hour disappear for good."""

    async def script(_request: web.Request, seen: Seen) -> web.StreamResponse:
        return failure(404, "NotFound") if seen.method == "PATCH" else answer({}, 201)

    async with _recording(script) as (server, recorder, _, _):
        _fail(recorder)
        await recorder.flush(10)
        _fail(recorder)
        await recorder.flush(10)
        first, again = server.of("POST")
    assert again.json == {**first.json, "series": {"count": 2, "lastObservedTime": "2026-01-02T03:00:00.123456Z"}}


async def test_the_event_on_the_lease_is_a_core_event() -> None:
    """If this fails, leader changes are not visible as events on the Lease."""
    async with _recording(_accept) as (server, recorder, _, _):
        recorder.record_legacy(
            NODE_LEASE, event_recorder.NORMAL, "LeaderElection", "me became leader", "default-scheduler"
        )
        await recorder.flush(10)
        (post,) = server.of("POST")
    assert post.path == "/api/v1/namespaces/kube-system/events"
    assert post.json == {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": f"kube-scheduler.{WALL:x}", "namespace": "kube-system"},
        "involvedObject": {
            "kind": "Lease",
            "namespace": "kube-system",
            "name": "kube-scheduler",
            "uid": "u2",
            "apiVersion": "coordination.k8s.io/v1",
            "resourceVersion": "9",
        },
        "reason": "LeaderElection",
        "message": "me became leader",
        "source": {"component": "default-scheduler"},
        "firstTimestamp": "2026-01-02T03:00:00Z",
        "lastTimestamp": "2026-01-02T03:00:00Z",
        "count": 1,
        "type": "Normal",
        "eventTime": None,
        "reportingComponent": "default-scheduler",
        "reportingInstance": "",
    }


async def test_without_the_events_api_all_events_are_core_events() -> None:
    """If this fails, a server without events.k8s.io gets no events at all."""

    async def script(_request: web.Request, seen: Seen) -> web.StreamResponse:
        return failure(404, "NotFound") if seen.method == "GET" else answer({}, 201)

    async with _recording(script) as (server, recorder, _, _):
        recorder.record_scheduled(POD, "node-a", "default-scheduler")
        _fail(recorder)
        await recorder.flush(10)
        _fail(recorder)
        await recorder.flush(10)
        posts, patches = server.of("POST"), server.of("PATCH")
    assert {post.path for post in posts} == {"/api/v1/namespaces/default/events"}
    assert [post.json["reason"] for post in posts] == ["Scheduled", "FailedScheduling"]
    message = posts[1].json["message"]
    again = {"count": 2, "lastTimestamp": "2026-01-02T03:00:00Z", "message": message}
    assert [patch.json for patch in patches] == [again]


async def test_core_events_about_one_object_are_combined_and_limited() -> None:
    """If this fails, a server without events.k8s.io gets every event of a pod that fails anew each time."""

    async def script(_request: web.Request, seen: Seen) -> web.StreamResponse:
        return failure(404, "NotFound") if seen.method == "GET" else answer({}, 201)

    async with _recording(script) as (server, recorder, _, _):
        for number in range(30):
            changed = POD._replace(resource_version=str(number))
            recorder.record(changed, event_recorder.WARNING, "FailedScheduling", "Scheduling", f"why {number}", "s")
            await recorder.flush(10)
        posts, patches = server.of("POST"), server.of("PATCH")
    combined = "(combined from similar events): why "
    assert [post.json["message"] for post in posts] == [*(f"why {number}" for number in range(9)), f"{combined}9"]
    assert [patch.json["message"] for patch in patches] == [f"{combined}{number}" for number in range(10, 25)]
    assert [patch.json["count"] for patch in patches] == list(range(2, 17))


async def test_a_full_queue_drops_the_oldest_and_counts_them() -> None:
    """If this fails, a slow API server fills the memory, or the newest events are lost unseen."""
    async with _recording(_accept, run=False, queue_limit=3) as (server, recorder, _, _):
        for number in range(5):
            recorder.record_scheduled(POD._replace(name=f"web-{number}"), "n", "default-scheduler")
        assert not await recorder.flush(0.05)
        assert (recorder.statistics().dropped, recorder.statistics().queued) == (2, 3)
        task = asyncio.create_task(recorder.run())
        assert await recorder.flush(10)
        task.cancel()
        await asyncio.wait([task])
        names = sorted(post.json["regarding"]["name"] for post in server.of("POST"))
    assert names == ["web-2", "web-3", "web-4"]


@pytest.mark.parametrize(
    ("way", "tries", "counter"),
    [
        pytest.param("refuse", 1, "refused", id="refused-by-the-server"),
        pytest.param("hang-up", event_recorder.MAX_TRIES, "unsent", id="no-server"),
        pytest.param("busy", 3, "written", id="busy-server"),
    ],
)
async def test_events_are_retried_or_dropped_by_the_kind_of_error(way: str, tries: int, counter: str) -> None:
    """If this fails, events are lost in a restart of the API server, or a bad one is tried forever."""
    posts = 0

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        nonlocal posts
        if seen.method == "GET":
            return answer({})
        posts += 1
        if way == "refuse":
            return failure(422, "Invalid")
        if way == "busy":
            return answer({}, 201) if posts == 3 else failure(429, "TooManyRequests", headers={"Retry-After": "4"})
        assert request.transport is not None
        request.transport.abort()
        return answer({})

    async with _recording(script) as (_, recorder, _, slept):
        recorder.record_scheduled(POD, "n", "default-scheduler")
        assert await recorder.flush(10)
        assert getattr(recorder.statistics(), counter) == 1
    assert posts == tries
    assert slept == [4.0 if way == "busy" else event_recorder.RETRY_SECONDS] * (tries - 1)


async def test_a_slow_write_does_not_hold_up_the_events_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, one event that an admission webhook looks at for half a minute delays all others by as much."""
    monkeypatch.setattr(event_recorder, "SLOW_SECONDS", 0.01)
    arrived = 0
    enough = asyncio.Event()

    async def script(_request: web.Request, seen: Seen) -> web.StreamResponse:
        nonlocal arrived
        if seen.method == "POST":
            arrived += 1
            if arrived == 4:
                enough.set()
            await enough.wait()
        return answer({}, 201)

    async with _recording(script) as (_, recorder, _, _):
        for number in range(4):
            recorder.record_scheduled(POD._replace(name=f"web-{number}"), "n", "default-scheduler")
        await _written(recorder, 4)


@pytest.mark.parametrize(
    ("late", "at_once"),
    [
        pytest.param(0.0, 1, id="in-time"),
        pytest.param(2 * event_recorder.LATE_SECONDS, 3, id="late"),
        pytest.param(20 * event_recorder.LATE_SECONDS, 8, id="very-late"),
    ],
)
async def test_events_are_written_one_at_a_time_and_more_only_as_they_get_late(late: float, at_once: int) -> None:
    """If this fails, the events of a burst take the API server from the bindings, or fall behind without end."""
    writes = _Writes()
    async with _recording(writes.script, writers=8) as (_, recorder, clock, _):
        for number in range(40):
            recorder.record_scheduled(POD._replace(name=f"web-{number}"), "n", "default-scheduler")
        clock.seconds += late
        await _written(recorder, 40)
    assert writes.most == at_once


async def test_all_write_when_the_end_is_near() -> None:
    """If this fails, the events of a burst are lost when the frontend is stopped after it."""
    writes = _Writes()
    async with _recording(writes.script, writers=8) as (_, recorder, _, _):
        for number in range(40):
            recorder.record_scheduled(POD._replace(name=f"web-{number}"), "n", "default-scheduler")
        assert await recorder.flush(30)
        assert recorder.statistics().written == 40
    assert writes.most == 8


async def test_no_more_writes_wait_for_a_low_rate_limit_than_it_lets_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, writes wait in the client until their deadline, are tried again, and in the end given up."""
    monkeypatch.setattr(event_recorder, "WRITE_DEADLINE_SECONDS", 2.0)
    async with _recording(_accept, qps=20.0) as (_, recorder, clock, _):
        for number in range(60):
            recorder.record_scheduled(POD._replace(name=f"web-{number}"), "n", "default-scheduler")
        clock.seconds += 100 * event_recorder.LATE_SECONDS
        await _written(recorder, 60)
        assert recorder.statistics().unsent == 0


async def test_events_that_wait_take_little_memory() -> None:
    """If this fails, the events of a burst take hundreds of megabytes of a process that is limited to that."""
    async with _recording(_accept, run=False) as (_, recorder, _, _):
        recorder.record_scheduled(POD, "n", "default-scheduler")  # loads what is loaded once
        tracemalloc.start()
        try:
            for number in range(1000):
                recorder.record_scheduled(POD._replace(name=f"web-{number}"), "n", "default-scheduler")
            used, _peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert used / 1000 < 1500


class _Writes:
    """An API server that takes a millisecond for each event."""

    def __init__(self) -> None:
        self.most = 0  # at the same time
        self._under_way = 0

    async def script(self, _request: web.Request, seen: Seen) -> web.StreamResponse:
        """Take one request."""
        if seen.method == "POST":
            self._under_way += 1
            self.most = max(self.most, self._under_way)
            await asyncio.sleep(0.001)
            self._under_way -= 1
        return answer({}, 201)


async def _written(recorder: event_recorder.EventRecorder, count: int) -> None:
    async with asyncio.timeout(30):
        while recorder.statistics().written < count:
            await asyncio.sleep(0.001)
