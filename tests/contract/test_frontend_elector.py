"""Who leads where nobody is elected, and whether anybody may have bound before."""

import types
from typing import Any

import pytest
from aiohttp import web

from tests.contract.kube_fake_server import Seen, listing, serving
from trireme.config import trireme_configuration
from trireme.frontend import running, term
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
