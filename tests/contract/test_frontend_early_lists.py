"""What the frontend asks the API server for while it still loads its modules."""

import asyncio
import types
from typing import Any

import pytest
from aiohttp import web

from tests.contract.kube_fake_server import Seen, end_of_list, line, listing, serving, stream, thing, without_streams
from trireme.config import gates
from trireme.frontend import early_lists
from trireme_kube.client.informers import resources, watch


def _completed(url: str, delayed: bool, extenders: int, *, streams: bool = True) -> Any:
    connection = types.SimpleNamespace(kubeconfig="", qps=-1.0, burst=1, accept_content_types="", content_type="")
    return types.SimpleNamespace(
        configuration=types.SimpleNamespace(
            client_connection=connection, delay_cache_until_active=delayed, extenders=("one",) * extenders
        ),
        options=types.SimpleNamespace(misc=types.SimpleNamespace(master=url)),
        version="v1.37.0",
        gates=gates.FeatureGates(values={"WatchListClient": streams}),
    )


async def _script(request: web.Request, seen: Seen) -> web.StreamResponse:
    if "watch" not in seen.query:
        return listing(100, thing("any", 1))
    response = await stream(request)
    await response.write(line("ADDED", thing(seen.path.rpartition("/")[2], 1)) + end_of_list(100))
    await asyncio.Event().wait()
    return response


async def test_pods_and_nodes_are_listed_and_their_requests_counted_later() -> None:
    """If this fails, a start waits for the API server that could have listed meanwhile, or metrics miss requests."""
    async with serving(_script) as server, early_lists.request_lists(_completed(server.url, False, 0)) as early:
        names = []
        for resource in (resources.PODS, resources.NODES):
            async with early.lists[resource] as prefetched:
                events = watch.LineDecoder().feed(await prefetched.chunk())
            names.append(events[0]["object"]["metadata"]["name"])
            assert watch.ends_initial_events(events[1]["object"])
        assert names == ["pods", "nodes"]
        requests: list[tuple[str, int]] = []
        early.observe(lambda method, status, seconds, waited: requests.append((method, status)))
        assert requests == [("GET", 200)] * 2
        await early.api.get(resources.SERVICES.path)
        assert requests == [("GET", 200)] * 3


async def test_an_early_list_without_a_reader_ends_with_the_frontend() -> None:
    """If this fails, a frontend that cannot start hangs, or leaves connections behind."""
    async with serving(without_streams(_script)) as server:
        async with early_lists.request_lists(_completed(server.url, False, 0)):
            while len(server.seen) < 4:
                await asyncio.sleep(0.001)
        assert sum("sendInitialEvents" in seen.query for seen in server.seen) == 2


@pytest.mark.parametrize(
    ("delayed", "extenders", "streams"),
    [(True, 0, True), (False, 1, True), (False, 0, False)],
    ids=["delayCacheUntilActive", "extenders", "without-streams"],
)
async def test_delayed_or_differently_encoded_lists_are_not_requested(
    delayed: bool, extenders: int, streams: bool
) -> None:
    """If this fails, a standby reads the cluster against its orders.

    Or extenders get pods without their JSON, or lists are streamed though the gate for that is off.
    """
    async with serving(_script) as server:
        async with early_lists.request_lists(_completed(server.url, delayed, extenders, streams=streams)) as early:
            assert not early.lists
        assert not server.seen
