"""Who leads where nobody is elected, and whether anybody may have bound before."""

import types
from typing import Any

import pytest
from aiohttp import web
from kube_fake_server import Seen, listing, serving

from trireme.config import own
from trireme.frontend import running
from trireme.kube import client, credentials


@pytest.mark.parametrize(
    ("endpoints", "sole"),
    [
        pytest.param((), True, id="own-binders"),
        pytest.param(("bind.example.com:7003",), False, id="binders-of-others"),
    ],
)
async def test_without_election_only_other_binders_can_have_bound(endpoints: tuple[str, ...], sole: bool) -> None:
    """If this fails, a start waits seconds for bindings that nobody made, or places beside some that it cannot see."""

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        return listing(41)

    elects = types.SimpleNamespace(leader_elect=False, lease_duration=types.SimpleNamespace(seconds=20.0))
    completed: Any = types.SimpleNamespace(
        configuration=types.SimpleNamespace(leader_election=elects),
        trireme=own.TriremeConfiguration(bind=own.Phase(endpoints=endpoints)),
        version="v1.37.0",
    )
    async with serving(script) as server:
        settings = client.ClientSettings(credentials.Source(master=server.url), qps=-1.0)
        term = await running.Elector(completed, settings, lambda holder: None).elected()
    assert (term.epoch, term.sole_writer, term.lease, term.predecessor_seconds) == (41, sole, None, 20.0)
