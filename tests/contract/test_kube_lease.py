"""Holding the Lease from a thread, against a server with optimistic concurrency."""

import asyncio
import itertools
import time
from typing import Any

import pytest
from aiohttp import web

from tests.contract.kube_fake_server import FakeServer, Seen, answer, failure, serving, serving_in_a_thread
from tests.helpers import polling
from trireme_kube.client.leaderelection import lease
from trireme_kube.client.leaderelection.election import ElectionSettings, Leading, Lost, Notice
from trireme_kube.client.rest import client, credentials
from trireme_kube.client.rest.errors import ApiError

PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"


class LeaseApi:
    """One Lease with resourceVersions; `away` makes it answer 500."""

    def __init__(self) -> None:
        self.stored: dict[str, Any] | None = None
        self.versions = itertools.count(100)
        self.away = False
        self.history: list[str] = []

    async def __call__(self, _request: web.Request, seen: Seen) -> web.StreamResponse:
        if self.away:
            return failure(500, "InternalError")
        if seen.method == "GET":
            return answer(self.stored) if self.stored else failure(404, "NotFound")
        body = seen.json
        if seen.method == "POST" and self.stored:
            return failure(409, "AlreadyExists")
        if seen.method == "PUT" and body["metadata"]["resourceVersion"] != self.version:
            return failure(409, "Conflict")
        body["metadata"]["resourceVersion"] = str(next(self.versions))
        self.stored = body
        self.history.append(body["spec"]["holderIdentity"])
        return answer(body, 201 if seen.method == "POST" else 200)

    @property
    def version(self) -> str:
        assert self.stored is not None
        return str(self.stored["metadata"]["resourceVersion"])


def _elector(server: FakeServer, identity: str, notices: list[Notice], **more: Any) -> lease.LeaseElector:
    """An elector that keeps its Lease on a busy machine, too; the periods of a test that waits for them are its own."""
    periods = {"lease_duration": 60.0, "renew_deadline": 40.0, "retry_period": 0.1, **more}
    settings = client.ClientSettings(credentials.Source(master=server.url), qps=-1.0, user_agent="leader-election")
    return lease.LeaseElector(ElectionSettings(identity, **periods), settings, notices.append)


async def test_a_stalled_main_loop_does_not_lose_the_lease() -> None:
    """If this fails, a large list in the main loop costs the leadership."""
    api, notices = LeaseApi(), []
    with serving_in_a_thread(api) as server:
        elector = _elector(server, "me", notices, lease_duration=3.0, renew_deadline=2.5)
        elector.start()
        await polling.until(lambda: elector.leading)
        assert elector.leading is not None
        epoch = elector.leading.epoch
        time.sleep(3.5)  # noqa: ASYNC251  (blocking the loop is what this test is about)
        assert elector.leading.epoch == epoch == 100
        assert elector.remaining_seconds > 0.0
        assert not any(isinstance(notice, Lost) for notice in notices)
        await elector.stop()
    assert elector.remaining_seconds == 0.0
    assert set(api.history) == {"me", ""}


async def test_the_lease_is_handed_over_at_once_when_the_leader_stops() -> None:
    """If this fails, a rolling update leaves the cluster without a scheduler until the Lease runs out."""
    api, first_notices, second_notices = LeaseApi(), [], []
    async with serving(api) as server:
        first, second = _elector(server, "first", first_notices), _elector(server, "second", second_notices)
        first.start()
        await polling.until(lambda: first.leading)
        second.start()
        await asyncio.sleep(0.3)
        assert second.leading is None
        await first.stop()
        await polling.until(lambda: second.leading)  # for less than the Lease is valid
        assert second.leading is not None
        assert second.leading.epoch > first_notices[1].epoch
        assert first_notices[-1] == Lost("asked to stop", requested=True)
        assert api.stored is not None
        assert api.stored["spec"]["leaseTransitions"] == 1
        await second.stop()


async def test_a_leader_whose_server_is_away_has_lost_in_time() -> None:
    """If this fails, a scheduler that cannot reach the API server believes that it leads."""
    api, notices = LeaseApi(), []
    async with serving(api) as server:
        elector = _elector(server, "me", notices, lease_duration=20.0, renew_deadline=1.5)
        elector.start()
        await polling.until(lambda: elector.leading)
        api.away = True
        gone = time.monotonic()
        await polling.until(lambda: any(isinstance(notice, Lost) for notice in notices))
        assert 1.0 < time.monotonic() - gone < 20.0
        assert elector.leading is None
        await elector.ended()
    assert [type(notice) for notice in notices if not isinstance(notice, Leading)][-1] is Lost


async def test_stopping_a_follower_returns_at_once() -> None:
    """If this fails, ending a follower takes a retry period."""
    api = LeaseApi()
    async with serving(api) as server:
        seen: list[Notice] = []
        leader, follower = _elector(server, "leader", []), _elector(server, "follower", seen, retry_period=30.0)
        leader.start()
        await polling.until(lambda: leader.leading)
        follower.start()
        await polling.until(lambda: seen)
        async with asyncio.timeout(20):
            await follower.stop()
        assert leader.leading is not None
        await leader.stop()


async def test_a_connection_that_cannot_be_made_ends_the_election() -> None:
    """If this fails, a thread dies unseen and the process waits forever to lead."""
    notices: list[Notice] = []
    settings = client.ClientSettings(credentials.Source(kubeconfig="/nowhere/config"))
    elector = lease.LeaseElector(ElectionSettings("me"), settings, notices.append)
    elector.start()
    await elector.ended()
    assert notices == [Lost("kubeconfig /nowhere/config: stat /nowhere/config: no such file or directory")]


async def test_bind_reads_the_lease_before_it_trusts_an_epoch() -> None:
    """If this fails, bind works for any process that claims to lead."""
    api = LeaseApi()
    async with serving(api) as server:
        settings = client.ClientSettings(credentials.Source(master=server.url), qps=-1.0)
        async with await client.connect(settings) as connection:

            async def verdict(epoch: int, holder: str) -> lease.ClaimVerdict:
                read = await lease.read_lease(connection, "kube-system", "kube-scheduler", 5)
                return lease.check_claim(lease.EpochClaim(epoch, holder), read)

            assert await verdict(1, "me") is lease.ClaimVerdict.VACANT
            elector = _elector(server, "me", [])
            elector.start()
            await polling.until(lambda: len(api.history) > 3)
            assert elector.leading is not None
            assert await verdict(elector.leading.epoch, "me") is lease.ClaimVerdict.IN_FORCE
            assert await verdict(elector.leading.epoch, "other") is lease.ClaimVerdict.DEPOSED
            await elector.stop()
            assert await verdict(100, "me") is lease.ClaimVerdict.VACANT
            api.away = True
            with pytest.raises(ApiError, match="500"):
                await lease.read_lease(connection, "kube-system", "kube-scheduler", 0.1)
    assert server.seen[0].path == PATH


def test_identities_are_never_the_same() -> None:
    """If this fails, two terms share an identity, and bind cannot tell them apart."""
    identities = {lease.make_identity() for _ in range(100)}
    assert len(identities) == 100
    assert all("_" in identity for identity in identities)
