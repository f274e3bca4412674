"""Who leads where nobody is elected, and whether anybody may have bound before."""

import types
from typing import Any

import pytest
from aiohttp import web

from tests.contract.kube_fake_server import Seen, answer, failure, listing, serving
from trireme.config import trireme_configuration
from trireme.frontend import running, term
from trireme_kube.client.leaderelection import lease_candidate
from trireme_kube.client.rest import client, credentials


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
    ("elects", "gate", "discovered", "absent", "requests"),
    [
        pytest.param(True, True, failure(404, "NotFound"), True, 1, id="no-such-version"),
        pytest.param(True, True, answer({"resources": [{"name": "others"}]}), True, 1, id="not-served"),
        pytest.param(True, True, answer({"resources": [{"name": "leasecandidates"}]}), False, 1, id="served"),
        pytest.param(True, True, failure(403, "Forbidden"), False, 1, id="no-right"),
        pytest.param(True, False, failure(404, "NotFound"), False, 0, id="gate-off"),
        pytest.param(False, True, failure(404, "NotFound"), False, 0, id="no-election"),
    ],
)
async def test_lease_candidates_that_are_not_served_are_noticed(
    elects: bool, gate: bool, discovered: web.Response, absent: bool, requests: int
) -> None:
    """If this fails, a frontend waits to be chosen by an API server that chooses nobody, and never leads."""
    seen: list[str] = []

    async def script(request: web.Request, _: Seen) -> web.StreamResponse:
        seen.append(request.path)
        return discovered

    completed: Any = types.SimpleNamespace(
        configuration=types.SimpleNamespace(leader_election=types.SimpleNamespace(leader_elect=elects)),
        trireme=trireme_configuration.TriremeConfiguration(),
        connection=types.SimpleNamespace(host="https://c.example.com"),
        version="v1.37.0",
        gates=types.SimpleNamespace(enabled=lambda name: gate and name == lease_candidate.GATE),
    )
    async with serving(script) as server:
        settings = client.ClientSettings(credentials.Source(master=server.url), qps=-1.0)
        elector = running.Elector(completed, settings, lambda holder: None)
        expected = [lease_candidate.CANDIDATES] if absent else []
        assert await elector.find_absent() == expected
        assert await elector.find_absent() == elector.absent() == expected
    assert seen == ["/apis/coordination.k8s.io/v1beta1"] * requests


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
