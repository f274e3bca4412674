"""Who leads where nobody is elected, and whether anybody may have bound before."""

import asyncio
import contextlib
import itertools
import types
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from tests.contract.followed_informer import open_for_ever
from tests.contract.kube_fake_server import Seen, answer, failure, listing, serving, without_streams
from trireme.config import trireme_configuration
from trireme.frontend import candidates_api, running, term
from trireme_kube.client.informers import discovery
from trireme_kube.client.leaderelection import lease_candidate
from trireme_kube.client.rest import client, credentials

_DISCOVERY = "/apis/coordination.k8s.io/v1beta1"
_CANDIDATES = f"{_DISCOVERY}/namespaces/kube-system/leasecandidates"
_FORBIDDEN = failure(403, "Forbidden")


@pytest.mark.parametrize(
    ("endpoints", "sole"),
    [
        pytest.param((), True, id="own-binders"),
        pytest.param(("bind.example.com:7003",), False, id="binders-of-others"),
    ],
)
async def test_without_election_only_other_binders_can_have_bound(endpoints: tuple[str, ...], sole: bool) -> None:
    """If this fails, a start waits seconds for bindings that nobody made, or places beside some that it cannot see."""
    found = await _elected(web.json_response({"metadata": {"uid": "c-1"}}), endpoints)
    assert (found.epoch, found.sole_writer, found.lease, found.predecessor_seconds) == (41, sole, None, 20.0)


@pytest.mark.parametrize(
    ("status", "body", "cluster"),
    [
        pytest.param(200, {"metadata": {"uid": "c-1"}}, "c-1", id="by-its-namespace"),
        pytest.param(403, {}, "https://c.example.com", id="by-its-address"),
    ],
)
async def test_without_election_the_epoch_is_one_of_the_cluster_and_the_scheduler(
    status: int, body: dict[str, Any], cluster: str
) -> None:
    """If this fails, plugins and phases that outlive a cluster refuse the scheduler of the next one."""
    found = await _elected(web.json_response(body, status=status))
    assert found.fence().scheduler_id == f"{cluster}/kube-system/kube-scheduler"


@pytest.mark.parametrize(
    ("discovered", "listed", "absent", "requests"),
    [
        pytest.param(failure(404, "NotFound"), None, True, [_DISCOVERY], id="no-such-version"),
        pytest.param(answer({"resources": [{"name": "others"}]}), None, True, [_DISCOVERY], id="not-served"),
        pytest.param(answer({"resources": [{"name": "leasecandidates"}]}), None, False, [_DISCOVERY], id="served"),
        pytest.param(_FORBIDDEN, listing(41), False, [_DISCOVERY, _CANDIDATES], id="no-discovery"),
        pytest.param(_FORBIDDEN, failure(404, "NotFound"), True, [_DISCOVERY, _CANDIDATES], id="no-discovery-absent"),
    ],
)
async def test_lease_candidates_that_are_not_served_are_noticed(
    discovered: web.Response, listed: web.Response | None, absent: bool, requests: list[str]
) -> None:
    """If this fails, a frontend waits to be chosen by an API server that chooses nobody, and never leads."""

    async def script(request: web.Request, _: Seen) -> web.StreamResponse:
        found = discovered if request.path == _DISCOVERY else listed
        assert found is not None
        return _copy(found)

    async with serving(script) as server, _looking(_elector(server.url)) as elector:
        expected = [lease_candidate.CANDIDATES] if absent else []
        assert await elector.find_absent() == expected
        assert await elector.find_absent() == elector.absent() == expected
    assert [seen.path for seen in server.seen] == requests


@pytest.mark.parametrize(
    ("elects", "gate"), [pytest.param(True, False, id="gate"), pytest.param(False, True, id="election")]
)
async def test_lease_candidates_that_are_not_wanted_are_not_looked_for(elects: bool, gate: bool) -> None:
    async def script(_request: web.Request, _seen: Seen) -> web.StreamResponse:
        return failure(404, "NotFound")

    async with serving(script) as server:
        elector = _elector(server.url, elects=elects, gate=gate)
        await elector.look_for_candidates()
        assert await elector.find_absent() == elector.absent() == []
    assert server.seen == []


@pytest.mark.parametrize(
    "unknown",
    [
        pytest.param(failure(503, "ServiceUnavailable"), id="busy"),
        pytest.param(None, id="silent"),
        pytest.param(failure(403, "Forbidden", "may not be read"), id="no-right"),
    ],
)
async def test_an_api_server_that_does_not_say_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, unknown: web.Response | None
) -> None:
    """If this fails, a busy moment at the start counts as a yes for the life of the process, which never leads."""
    monkeypatch.setattr(discovery, "DEADLINE_SECONDS", 0.2)
    monkeypatch.setattr(candidates_api, "UNKNOWN_PAUSE_SECONDS", 0.01)
    says = asyncio.Event()

    async def script(_request: web.Request, _seen: Seen) -> web.StreamResponse:
        if says.is_set():
            return failure(404, "NotFound")
        if unknown is None:
            await asyncio.sleep(1.0)
        return _copy(unknown or failure(404, "NotFound"))

    async with serving(script) as server, _looking(_elector(server.url)) as elector:
        async with asyncio.timeout(20):
            while len(caplog.messages) < 2:
                await asyncio.sleep(0.01)
        assert elector.absent() == []
        says.set()
        assert await elector.find_absent() == [lease_candidate.CANDIDATES]
    start = "whether the API server serves coordination.k8s.io/v1beta1/leasecandidates is unknown: "
    assert all(message.startswith(start) for message in caplog.messages)


async def test_a_standby_becomes_a_candidate_when_lease_candidates_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, an upgraded API server never chooses a frontend that started before the upgrade."""
    monkeypatch.setattr(candidates_api, "ABSENT_PAUSE_SECONDS", 0.05)
    upgraded = False
    holders, versions = ["another"], itertools.count(50)

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        if request.path == _DISCOVERY:
            return answer({"resources": [{"name": "leasecandidates"}]}) if upgraded else failure(404, "NotFound")
        if request.path == _CANDIDATES and seen.method == "POST":
            holders.append(seen.json["metadata"]["name"])
            return answer(seen.json, 201)
        if request.path == _CANDIDATES:
            return await open_for_ever(request) if "watch" in seen.query else listing(41)
        version = next(versions)
        spec = {"holderIdentity": holders[-1], "leaseDurationSeconds": 15, "strategy": "OldestEmulationVersion"}
        spec = seen.json["spec"] if seen.method == "PUT" else {**spec, "renewTime": str(version)}
        return answer({"metadata": {"uid": "l-1", "resourceVersion": str(version)}, "spec": spec})

    async with serving(without_streams(script)) as server, _looking(_elector(server.url)) as elector:
        electing = asyncio.create_task(elector.wait_until_elected())
        async with asyncio.timeout(30):
            while not server.seen or not any(seen.path.endswith("/leases/kube-scheduler") for seen in server.seen):
                await asyncio.sleep(0.01)
            assert elector.absent() == [lease_candidate.CANDIDATES]
            upgraded = True
            found = await electing
        assert elector.absent() == []
        assert found.holder == holders[-1] != "another"
        assert not elector.lost.is_set()
        await elector.stop()


def _copy(response: web.Response) -> web.Response:
    """A response can be sent once."""
    return web.Response(body=response.body, status=response.status, content_type="application/json")


def _elector(url: str, *, elects: bool = True, gate: bool = True) -> running.Elector:
    """An elector that renews fast, for the API server at `url`."""
    seconds = types.SimpleNamespace
    config = types.SimpleNamespace(
        leader_elect=elects,
        lease_duration=seconds(seconds=15.0),
        renew_deadline=seconds(seconds=10.0),
        retry_period=seconds(seconds=0.05),
        resource_namespace="kube-system",
        resource_name="kube-scheduler",
    )
    gates = types.SimpleNamespace(
        enabled=lambda name: gate and name == lease_candidate.GATE,
        effective=types.SimpleNamespace(emulated=(1, 37)),
    )
    completed: Any = types.SimpleNamespace(
        configuration=types.SimpleNamespace(leader_election=config),
        trireme=trireme_configuration.TriremeConfiguration(),
        connection=types.SimpleNamespace(host="https://c.example.com"),
        version="v1.37.0",
        gates=gates,
    )
    settings = client.ClientSettings(credentials.Source(master=url), qps=-1.0)
    return running.Elector(completed, settings, lambda holder: None)


@contextlib.asynccontextmanager
async def _looking(elector: running.Elector) -> AsyncIterator[running.Elector]:
    """The elector, which looks for LeaseCandidates meanwhile."""
    task = asyncio.create_task(elector.look_for_candidates())
    try:
        yield elector
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _elected(namespace: web.Response, endpoints: tuple[str, ...] = ()) -> term.Term:
    """The term without election in a cluster that answers so about its namespace kube-system."""

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        return namespace if request.path.endswith("/kube-system") else listing(41)

    elects = types.SimpleNamespace(
        leader_elect=False,
        lease_duration=types.SimpleNamespace(seconds=20.0),
        resource_namespace="kube-system",
        resource_name="kube-scheduler",
    )
    completed: Any = types.SimpleNamespace(
        configuration=types.SimpleNamespace(leader_election=elects),
        trireme=trireme_configuration.TriremeConfiguration(
            trireme_configuration.Phases(bind=trireme_configuration.Phase(endpoints=endpoints))
        ),
        connection=types.SimpleNamespace(host="https://c.example.com"),
        version="v1.37.0",
    )
    async with serving(script) as server:
        settings = client.ClientSettings(credentials.Source(master=server.url), qps=-1.0)
        return await running.Elector(completed, settings, lambda holder: None).wait_until_elected()
