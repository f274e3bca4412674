"""An elector contends in its thread, over a connection in memory, until it is stopped or fails."""

import asyncio
import contextlib
import itertools
import logging
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.helpers import polling
from tests.helpers.elections import CONFLICT, NOT_FOUND, lease_of
from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.client.leaderelection import election, lease, lease_candidate
from trireme_kube.client.leaderelection.election import ElectionSettings, Leading, Lost, Notice, Observed
from trireme_kube.client.rest import client, credentials
from trireme_kube.client.rest.errors import ApiError

Json = dict[str, Any]


class _Response:
    def __init__(self, body: Json) -> None:
        self._body = body

    def json(self) -> Json:
        return self._body


class _Api:
    """One Lease with resourceVersions. A release takes a while."""

    def __init__(self, stored: Json | None = None) -> None:
        self.stored = stored
        self.error: Exception | None = None
        self.tasks: list[int] = []
        self._versions = itertools.count(100)

    async def get(self, path: str, *_: object, deadline: float) -> _Response:
        self.tasks.append(len(asyncio.all_tasks()))
        if self.error is not None:
            raise self.error
        if self.stored is None:
            raise NOT_FOUND
        return _Response(self.stored)

    read = get

    async def post(self, path: str, body: Json, *_: object, deadline: float) -> _Response:
        return self._write(body)

    async def put(self, path: str, body: Json, *_: object, deadline: float) -> _Response:
        self.tasks.append(len(asyncio.all_tasks()))
        if not body["spec"]["holderIdentity"]:
            await asyncio.sleep(0.05)
        if self.stored is None or body["metadata"]["resourceVersion"] != self.stored["metadata"]["resourceVersion"]:
            raise CONFLICT
        return self._write(body)

    def _write(self, body: Json) -> _Response:
        self.stored = {**body, "metadata": {**body["metadata"], "resourceVersion": str(next(self._versions))}}
        return _Response(self.stored)

    @property
    def holder(self) -> str:
        return "" if self.stored is None else str(self.stored["spec"]["holderIdentity"])


def _elector(
    monkeypatch: pytest.MonkeyPatch, api: _Api | Exception, notices: list[Notice], **more: Any
) -> lease.LeaseElector:
    @contextlib.asynccontextmanager
    async def connection() -> AsyncIterator[Any]:
        yield api

    async def connect(_: object) -> Any:
        if isinstance(api, Exception):
            raise api
        return connection()

    monkeypatch.setattr(client, "connect", connect)
    settings = ElectionSettings("me", retry_period=more.pop("retry_period", 0.01), coordinated="candidacy" in more)
    return lease.LeaseElector(settings, client.ClientSettings(credentials.Source()), notices.append, **more)


async def test_an_elector_leads_until_it_is_stopped_and_has_released_the_lease_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A process that ends before the release leaves the cluster without a scheduler for the Lease's duration."""
    api, notices = _Api(), list[Notice]()
    elector = _elector(monkeypatch, api, notices, clock=lambda: 100.0)
    elector.start()
    await polling.until(lambda: len(notices) > 4, seconds=20)
    assert all(each.daemon for each in threading.enumerate() if each.name == "lease"), "no process waits for it"
    terms = [(each.epoch, each.renewal) for each in notices if isinstance(each, Leading)]
    assert (notices[0], terms[:3]) == (Observed("me"), [(100, False), (100, True), (100, True)])
    assert elector.remaining_seconds == 15.0
    async with asyncio.timeout(20):
        await elector.stop()
    assert (api.holder, elector.leading, elector.remaining_seconds) == ("", None, 0.0)
    assert [each for each in notices if isinstance(each, Lost)] == [Lost("asked to stop", requested=True)]
    await elector.stop()


async def test_an_elector_that_renews_for_long_gathers_no_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    api = _Api()
    elector = _elector(monkeypatch, api, [], retry_period=0.0)
    elector.start()
    await polling.until(lambda: len(api.tasks) > 50, seconds=20)
    await elector.stop()
    assert max(api.tasks) <= 4


async def test_an_elector_that_was_stopped_before_it_starts_takes_no_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is told to end while it starts would try to lead forever."""
    api, notices = _Api(), list[Notice]()
    elector = _elector(monkeypatch, api, notices)
    await elector.stop()
    elector.start()
    async with asyncio.timeout(20):
        await elector.ended()
    assert (api.stored, notices) == (None, [])


async def test_a_follower_stops_in_the_middle_of_its_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    api, notices = _Api(dict(lease_of("other", 5).raw)), list[Notice]()
    elector = _elector(monkeypatch, api, notices, retry_period=1000.0)
    elector.start()
    await polling.until(lambda: notices, seconds=20)
    async with asyncio.timeout(20):
        await elector.stop()
    assert len(api.tasks) == 1, "it reads the Lease once in a retry period"
    assert (notices, api.holder) == ([Observed("other")], "other")


@pytest.mark.parametrize(
    ("error", "reason", "logged"),
    [
        (ConfigurationError("no such file"), "no such file", 0),
        (RuntimeError("odd"), "the election failed: RuntimeError('odd')", 1),
    ],
    ids=["configuration", "defect"],
)
async def test_an_election_that_fails_is_over_and_says_why(
    error: Exception, reason: str, logged: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A thread that dies unseen leaves a process that waits forever to lead."""
    notices: list[Notice] = []
    elector = _elector(monkeypatch, error, notices)
    elector.start()
    async with asyncio.timeout(20):
        await elector.ended()
    assert notices == [Lost(reason)]
    assert [record.levelno for record in caplog.records] == [logging.ERROR] * logged


async def test_a_candidate_stands_while_its_elector_contends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API server chooses among candidates that stand: none would lead, or one that has ended."""
    standing: list[str] = []

    class Candidate:
        synced = False

        def __init__(self, *_: object) -> None:
            """Every candidate is as synced as the class says."""

        async def run(self) -> None:
            standing.append("begins")
            try:
                await asyncio.Event().wait()
            finally:
                standing.append("ends")

    monkeypatch.setattr(lease_candidate, "LeaseCandidate", Candidate)
    candidacy = lease.Candidate(
        lease_candidate.Candidacy("me", "1.37.0", "1.37.0"), client.ClientSettings(credentials.Source())
    )
    api = _Api(dict(lease_of("me", 5).raw))
    elector = _elector(monkeypatch, api, [], candidacy=candidacy)
    assert not elector.candidate_synced
    elector.start()
    await polling.until(lambda: elector.leading, seconds=20)
    assert (standing, elector.candidate_synced) == (["begins"], False)
    Candidate.synced = True
    assert elector.candidate_synced
    async with asyncio.timeout(20):
        await elector.stop()
    assert standing == ["begins", "ends"]


async def test_a_lease_is_read_as_none_only_where_it_does_not_exist() -> None:
    """Bind would take a server that is away for one without a leader."""
    api: Any = _Api(dict(lease_of("other", 5).raw))
    assert await lease.read_lease(api, "ns", "l", 5.0) == election.lease_record(api.stored)
    api.error = NOT_FOUND
    assert await lease.read_lease(api, "ns", "l", 5.0) is None
    api.error = ApiError(500, "InternalError", "odd")
    with pytest.raises(ApiError, match="odd"):
        await lease.read_lease(api, "ns", "l", 5.0)
