"""A LeaseCandidate is made, renewed when the API server asks, and tried again."""

import asyncio
from typing import Any

import pytest

from trireme_kube.client.informers import informer
from trireme_kube.client.informers.watch import Event, EventKind
from trireme_kube.client.leaderelection import lease_candidate
from trireme_kube.client.rest.errors import ApiUnreachable

Json = dict[str, Any]
WALL = 1_767_322_800_123_456_789


class _Api:
    """Remembers what is written; the first writes fail."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.written: list[tuple[str, str, Json]] = []
        self.wrote = asyncio.Event()

    async def post(self, path: str, body: Json) -> None:
        await self._write("POST", path, body)

    async def put(self, path: str, body: Json) -> None:
        await self._write("PUT", path, body)

    async def _write(self, verb: str, path: str, body: Json) -> None:
        if self.failures:
            self.failures -= 1
            raise ApiUnreachable("no answer", sent=True)
        self.written.append((verb, path, body))
        self.wrote.set()

    async def next_write(self) -> tuple[str, str, Json]:
        async with asyncio.timeout(5):
            await self.wrote.wait()
        self.wrote.clear()
        return self.written[-1]


def _listed(*objects: Json) -> list[Event[Json]]:
    events = [Event(EventKind.LISTED, each) for each in objects]
    return [Event(EventKind.LIST_START, None), *events, Event(EventKind.LIST_END, None)]


async def _standing(api: _Api, *objects: Json) -> tuple[lease_candidate.LeaseCandidate, "asyncio.Task[None]"]:
    candidacy = lease_candidate.Candidacy("me", "1.37.0", "1.36.0")
    client: Any = api
    candidate = lease_candidate.LeaseCandidate(client, candidacy, lambda: WALL)
    writing = asyncio.create_task(candidate._write_candidate_when_due())
    candidate.on_events(_listed(*objects))
    return candidate, writing


async def test_it_is_made_with_its_versions() -> None:
    """The candidate's object has binary and emulation version, which the API server compares to choose a leader."""
    api = _Api(failures=3)
    _, writing = await _standing(api)
    verb, path, body = await api.next_write()
    await asyncio.sleep(0)
    assert not writing.done(), "it waits for the next renewal"
    writing.cancel()
    assert (verb, path) == ("POST", "/apis/coordination.k8s.io/v1beta1/namespaces/kube-system/leasecandidates")
    assert body == {
        "apiVersion": "coordination.k8s.io/v1beta1",
        "kind": "LeaseCandidate",
        "metadata": {"name": "me", "namespace": "kube-system"},
        "spec": {
            "leaseName": "kube-scheduler",
            "binaryVersion": "1.37.0",
            "emulationVersion": "1.36.0",
            "strategy": "OldestEmulationVersion",
            "renewTime": "2026-01-02T03:00:00.123456Z",
        },
    }


async def test_a_ping_is_answered_and_our_own_renewal_is_not() -> None:
    spec = {"leaseName": "kube-scheduler", "renewTime": "2026-01-02T03:00:00.000000Z"}
    known: Json = {"metadata": {"name": "me", "resourceVersion": "7"}, "spec": spec}
    api = _Api()
    candidate, writing = await _standing(api, known)
    verb, path, body = await api.next_write()
    assert (verb, path.rpartition("/")[2]) == ("PUT", "me")
    assert body["metadata"]["resourceVersion"] == "7"
    candidate.on_events([Event(EventKind.MODIFIED, {**known, "spec": {**spec, "pingTime": spec["renewTime"]}})])
    assert not candidate._due.is_set()
    pinged = {**known, "spec": {**spec, "pingTime": "2026-01-02T03:00:01.000000Z"}}
    candidate.on_events([Event(EventKind.MODIFIED, pinged)])
    _, _, body = await api.next_write()
    writing.cancel()
    assert body["spec"]["pingTime"] == "2026-01-02T03:00:01.000000Z"
    assert body["spec"]["renewTime"] == "2026-01-02T03:00:00.123456Z"


@pytest.mark.parametrize(
    ("events", "verb"),
    [
        ([Event(EventKind.MODIFIED, {"metadata": {"name": "me"}})], "PUT"),
        ([Event(EventKind.DELETED, {"metadata": {"name": "me"}})], "POST"),
        (_listed(), "POST"),
        (_listed({"metadata": {"name": "me"}}), "PUT"),
    ],
    ids=["changed", "deleted", "gone in another list", "in another list"],
)
async def test_it_is_renewed_where_it_is_and_made_again_where_it_is_gone(events: list[Event[Json]], verb: str) -> None:
    """Whatever another client left of it: one without a spec gets a time, too."""
    api = _Api()
    candidate, writing = await _standing(api, {"metadata": {"name": "me"}, "spec": {}})
    await api.next_write()
    candidate.on_events(events)
    candidate._due.set()
    assert (await api.next_write())[0] == verb
    assert api.written[-1][2]["spec"]["renewTime"] == "2026-01-02T03:00:00.123456Z"
    writing.cancel()


async def test_nothing_is_written_before_the_list_says_whether_it_is_there() -> None:
    """A candidate that was left by an earlier process would be created again, which is refused."""
    api: Any = _Api()
    candidate = lease_candidate.LeaseCandidate(api, lease_candidate.Candidacy("me", "1.37.0", "1.36.0"), lambda: WALL)
    writing = asyncio.create_task(candidate._write_candidate_when_due())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not api.written
    candidate.on_events(_listed({"metadata": {"name": "me"}}))
    assert (await api.next_write())[0] == "PUT"
    writing.cancel()


_EARLY, _LATE = "2026-01-02T03:00:00.000000Z", "2026-01-02T03:00:01.000000Z"


@pytest.mark.parametrize(
    ("spec", "renewed"),
    [
        ({}, False),
        ({"renewTime": _EARLY}, False),
        ({"pingTime": _EARLY}, True),
        ({"pingTime": "odd"}, False),
        ({"pingTime": _LATE, "renewTime": _EARLY}, True),
        ({"pingTime": _EARLY, "renewTime": _LATE}, False),
    ],
    ids=["neither", "renewed", "pinged", "malformed", "pinged-since", "pinged-before"],
)
async def test_a_change_is_answered_if_it_is_a_ping_since_the_last_renewal(spec: Json, renewed: bool) -> None:
    """The API server takes a candidate that does not answer for dead; one that answers itself never stops."""
    api = _Api()
    candidate, writing = await _standing(api, {"metadata": {"name": "me"}})
    await api.next_write()
    candidate.on_events([Event(EventKind.MODIFIED, {"metadata": {"name": "me"}, "spec": spec})])
    for _ in range(10):
        await asyncio.sleep(0)
    writing.cancel()
    assert len(api.written) == 1 + renewed


async def test_a_write_that_fails_is_tried_again_ever_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Candidates would overload a server that has just come back."""
    pauses, timeout = list[float | None](), asyncio.timeout

    def end_at_once(seconds: float | None) -> asyncio.Timeout:
        pauses.append(seconds)
        return timeout(0)

    monkeypatch.setattr(asyncio, "timeout", end_at_once)
    _, writing = await _standing(_Api(failures=4))
    while len(pauses) < 6:
        await asyncio.sleep(0)
    writing.cancel()
    assert pauses[:6] == [0.005, 0.01, 0.02, 0.04, 300.0, 300.0]


async def test_a_candidate_follows_its_own_object_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    class Informer:
        synced = True

        def __init__(self, _api: object, followed: Any, _type: object, handlers: list[Any]) -> None:
            assert followed.field_selector == "metadata.name=me"
            self._handlers = handlers

        async def run(self) -> None:
            for handle in self._handlers:
                handle(_listed())
            await asyncio.Event().wait()

    monkeypatch.setattr(informer, "Informer", Informer)
    api: Any = _Api()
    candidate = lease_candidate.LeaseCandidate(api, lease_candidate.Candidacy("me", "1.37.0", "1.36.0"), lambda: WALL)
    running = asyncio.create_task(candidate.run())
    assert (await api.next_write())[0] == "POST"
    assert candidate.synced
    running.cancel()
