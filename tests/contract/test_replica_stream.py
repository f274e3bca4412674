"""The snapshot stream between the frontend's links and real followers: small deltas, chunks, resynchronisation."""

import asyncio
import contextlib
import pathlib
import time
from collections.abc import AsyncIterator, Sequence

import pytest

from tests.contract.linked_frontend import NODES, Frontend
from trireme.frontend.phase_clients import replica_link
from trireme.phases import phase_process
from trireme.rpc import follower, grpc_server, in_process, listen_flags
from trireme.scheduling import ports
from trireme.snapshot import snapshot
from trireme.v1 import plugin_pb2

MAX_CHUNK_BYTES = 5 << 18
"""A chunk is a little more than 1 MiB at most where no single object is larger."""


@contextlib.asynccontextmanager
async def replica(folder: pathlib.Path, number: int) -> AsyncIterator[tuple[str, snapshot.Snapshot]]:
    """A follower behind a real gRPC server; its address and its snapshot."""
    snap, services = _follower()
    address = f"unix:{folder}/replica-{number}.sock"
    server = grpc_server.ReplicaServer(listen_flags.make_listener(address), services)
    await server.start()
    try:
        yield address, snap
    finally:
        await server.stop(0)


def _follower() -> tuple[snapshot.Snapshot, Sequence[grpc_server.Service]]:
    snap = snapshot.Snapshot()
    follow = follower.Follower(snap, lambda configuration: None)
    hosted = phase_process.PhasePluginService("i", {plugin_pb2.EXTENSION_POINT_FILTER: dict})
    return snap, phase_process.shared_services(follow, hosted)


async def until_at(snap: snapshot.Snapshot, generation: int) -> None:
    async with asyncio.timeout(20):
        while not (snap.synced and snap.generation >= generation):
            await asyncio.sleep(0.01)


async def test_a_placed_pod_costs_each_replica_less_than_200_bytes(tmp_path: pathlib.Path) -> None:
    """Once in step, replicas get placed pods by deltas: whole snapshots would cost a thousand times as much."""
    frontend = Frontend()
    frontend.add_nodes(NODES)
    async with replica(tmp_path, 0) as (first, snap), replica(tmp_path, 1) as (second, _):
        frontend.links.set_endpoints([first, second])
        await until_at(snap, 1)
        while len(frontend.links.answering()) < 2:
            await asyncio.sleep(0.01)
        frontend.assume(0)
        frontend.publish()
        await asyncio.sleep(0.2)
        before = {link.address: link.sent_bytes for link in frontend.links.statistics()}
        pods = 400
        for number in range(1, pods + 1):
            frontend.assume(number)
            if number % 8 == 0:
                generation = frontend.publish()
        await until_at(snap, generation)
        await asyncio.sleep(0.2)
        assert snap.pods.count == pods + 1
        for link in frontend.links.statistics():
            sent = link.sent_bytes - before[link.address]
            assert 0 < sent <= 200 * pods, f"{sent / pods:.0f} bytes a pod"
            assert link.full_syncs == 1
        await frontend.links.close()


def test_a_full_sync_goes_in_chunks() -> None:
    """A large cluster is sent in pieces: one message would pass gRPC's limits, and hold up everything behind it."""
    frontend = Frontend()
    frontend.add_nodes(3000)
    for number in range(20_000):
        frontend.assume(number)
    while frontend.cache.take_delta() is not None:
        pass
    chunks = list(frontend.cache.full_sync())
    assert len(chunks) >= 4
    assert max(chunk.ByteSize() for chunk in chunks) < MAX_CHUNK_BYTES
    snap = snapshot.Snapshot()
    for chunk in chunks:
        assert not snap.synced
        snap.apply(chunk)
    assert (snap.synced, snap.nodes.count, snap.pods.count) == (True, 3000, 20_000)


async def test_a_replica_that_comes_back_gets_everything_again(tmp_path: pathlib.Path) -> None:
    """A replica that was restarted knows nothing; it is synchronised anew without anybody asking for it."""
    frontend = Frontend()
    frontend.add_nodes(5)
    async with replica(tmp_path, 0) as (address, snap):
        frontend.links.set_endpoints([address])
        await until_at(snap, 1)
    frontend.assume(1)
    generation = frontend.publish()
    async with replica(tmp_path, 0) as (_, again):
        await until_at(again, generation)
        assert (again.nodes.count, again.pods.count) == (5, 1)
        await frontend.links.close()


async def test_a_replica_that_is_added_again_is_taken_for_another_one(tmp_path: pathlib.Path) -> None:
    """A patch of a replica that came back is never applied to an answer of its former incarnation."""
    frontend = Frontend()
    frontend.add_nodes(5)
    identities = set()
    async with replica(tmp_path, 0) as (address, _):
        for _ in range(2):
            frontend.links.set_endpoints([address])
            await frontend.follows()
            (link,) = frontend.links.preferred("p", 1)
            assert link.statistics().full_syncs == 1
            identities.add(link.identity)
            frontend.links.set_endpoints([])
        await frontend.links.close()
    assert len(identities) == 2


async def test_a_call_ends_at_the_deadline_of_its_phase(tmp_path: pathlib.Path) -> None:
    """A replica that acknowledges deltas and yet never answers would hold its pods forever."""
    frontend = Frontend(deadline_seconds=0.4)

    async def unanswered(link: replica_link.ReplicaLink) -> None:
        await asyncio.Event().wait()

    async with replica(tmp_path, 0) as (address, _):
        frontend.links.set_endpoints([address])
        while not frontend.links.answering():
            await asyncio.sleep(0.01)
        began = time.monotonic()
        async with asyncio.timeout(20):
            with pytest.raises(ports.PhaseUnavailable, match="does not answer"):
                await frontend.links.call("p", 1, unanswered)
        assert time.monotonic() - began >= 0.4
        await frontend.links.close()


async def test_a_replica_that_ends_does_not_wait_for_its_stream(tmp_path: pathlib.Path) -> None:
    """A stream goes on for as long as the leader lives.

    Each pod of a rollout would take the whole grace period, and the leader would call it all the while.
    """
    frontend = Frontend()
    frontend.add_nodes(10)
    snap = snapshot.Snapshot()
    follow = follower.Follower(snap, lambda configuration: None)
    hosted = phase_process.PhasePluginService("i", {plugin_pb2.EXTENSION_POINT_FILTER: dict})
    address = f"unix:{tmp_path}/replica.sock"
    server = grpc_server.ReplicaServer(
        listen_flags.make_listener(address), phase_process.shared_services(follow, hosted)
    )
    await server.start()
    frontend.links.set_endpoints([address])
    await until_at(snap, 1)
    async with asyncio.timeout(10):
        await server.stop(60)
        while frontend.links.answering():
            await asyncio.sleep(0.01)
    await frontend.links.close()


async def test_a_follower_in_this_process_follows_as_any_other() -> None:
    """It gets deltas on one stream, and everything again where it was away."""
    frontend = Frontend()
    frontend.add_nodes(NODES)
    snap, services = _follower()
    server = in_process.InProcessServer("filter-0")
    for service in services:
        server.add(service.add_to)
    server.start()
    frontend.links.set_endpoints([server.address])
    await until_at(snap, 1)
    for number in range(1, 100):
        frontend.assume(number)
        generation = frontend.publish()
    await until_at(snap, generation)
    assert snap.pods.count == 99
    (link,) = frontend.links.statistics()
    assert (link.full_syncs, link.in_step) == (1, True)
    await server.stop(0)
    for service in services:
        service.end_streams()
    async with asyncio.timeout(20):
        while frontend.links.answering():
            await asyncio.sleep(0.01)
    frontend.assume(100)
    generation = frontend.publish()
    server.start()
    await until_at(snap, generation)
    assert (snap.nodes.count, snap.pods.count) == (NODES, 100)
    (link,) = frontend.links.statistics()
    assert link.full_syncs == 2
    await frontend.links.close()
