"""Plugins that follow the cluster: they get the stream that phases get, and are called by slot and generation."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from grpc import aio

from tests.contract.contract_services import (
    CYCLE,
    DEADLINE,
    FOLLOWERS,
    UNLIMITED,
    Served,
    check_columns,
    connected,
    get,
)
from trireme.remote import remote_client
from trireme.v1 import (
    core_pb2,
    cycle_pb2,
    filter_pb2,
    filter_pb2_grpc,
    plugin_pb2,
    score_copies_pb2,
    score_pb2,
    score_pb2_grpc,
    snapshot_pb2,
    snapshot_pb2_grpc,
)

# The first test of a plugin builds it.
pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]

POD_LIMIT = "example.com/pod-limit"


class Frontend:
    """A frontend's end of the stream to one plugin."""

    def __init__(self, stream: Any, stub: Any, fence: cycle_pb2.Fence, score_stub: Any = None) -> None:
        self._stream = stream
        self._stub = stub
        self._score_stub = score_stub
        self._fence = fence

    async def send(self, from_generation: int, to_generation: int, **fields: Any) -> None:
        """A delta."""
        delta = snapshot_pb2.Delta(from_generation=from_generation, to_generation=to_generation, **fields)
        await self._stream.write(snapshot_pb2.SyncRequest(delta=delta))

    async def send_unknown(self) -> None:
        """A message of a kind that no version of the contract has yet."""
        await self._stream.write(snapshot_pb2.SyncRequest.FromString(b"\x9a\x06\x02\x08\x01"))  # field 99

    async def acknowledged(self, generation: int) -> None:
        """Return once the plugin says that it has seen so much."""
        while (await self._stream.read()).applied_generation < generation:
            pass

    async def ended(self) -> grpc.StatusCode:
        """How the plugin ended the stream."""
        try:
            while await self._stream.read() is not aio.EOF:
                pass
        except aio.AioRpcError:
            pass
        code: grpc.StatusCode = await self._stream.code()
        return code

    async def capacities(self, generation: int, *slots: int, seconds: float = DEADLINE) -> list[int]:
        """How many pods the plugin lets the nodes at the slots take, as it answers within so many seconds."""
        nodes = filter_pb2.NodeSelection(slots=slots)
        request = filter_pb2.FilterRequest(cycle=self._cycle(generation), nodes=nodes)
        response = await self._stub.Filter(request, timeout=seconds)
        return _capacities(response.columns, len(slots), generation)

    async def dry_runs(self, generation: int, *runs: filter_pb2.DryRun) -> list[int]:
        """How many pods the plugin lets the nodes take, as each run has them."""
        request = filter_pb2.FilterDryRunRequest(cycle=self._cycle(generation), runs=runs)
        response = await self._stub.FilterDryRun(request, timeout=DEADLINE)
        return _capacities(response.columns, len(runs), generation)

    async def scores(self, generation: int, *slots: int) -> list[int]:
        """How the plugin scores the nodes at the slots as they are."""
        request = score_pb2.ScoreRequest(cycle=self._cycle(generation), nodes=filter_pb2.NodeSelection(slots=slots))
        return list((await self._score_stub.Score(request, timeout=DEADLINE)).scores)

    async def scores_of_copies(self, generation: int, copies: int, *slots: int) -> list[int]:
        """How the plugin scores the nodes at the slots with one pod more, with two, … with so many."""
        request = score_copies_pb2.ScoreCopiesRequest(
            cycle=self._cycle(generation), nodes=filter_pb2.NodeSelection(slots=slots), copies=copies
        )
        return list((await self._score_stub.ScoreCopies(request, timeout=DEADLINE)).scores)

    def _cycle(self, generation: int) -> cycle_pb2.Cycle:
        return cycle_pb2.Cycle(
            fence=self._fence, generation=generation, profile="default-scheduler", pod=CYCLE.pod, pod_class=1
        )


def _capacities(columns: filter_pb2.NodeColumns, count: int, generation: int) -> list[int]:
    verdicts = check_columns(columns, count, "PodLimit", generation)
    assert verdicts.capacity is not None
    return verdicts.capacity.tolist()


def limited(slot: int, limit: int) -> snapshot_pb2.NodeEntry:
    """A node that takes so many pods."""
    metadata = {"name": f"n{slot}", "labels": {POD_LIMIT: str(limit)}}
    return snapshot_pb2.NodeEntry(slot=slot, node=core_pb2.Node(metadata=metadata))


def placed(**slots: int) -> snapshot_pb2.PodColumns:
    """Pods at these slots; `p3` is in row 3."""
    rows = [int(name.removeprefix("p")) for name in slots]
    return snapshot_pb2.PodColumns(
        row=rows,
        pod_class=[1] * len(rows),
        slot=list(slots.values()),
        uid=[f"uid-{row}" for row in rows],
        name=[f"pod-{row}" for row in rows],
        start_time_s=[0] * len(rows),
        flags=[0] * len(rows),
    )


@asynccontextmanager
async def following(follower: Served, epoch: int, scheduler_id: str) -> AsyncIterator[Frontend]:
    """A frontend that has sent a full sync of generation 3, in two chunks.

    Nodes 0 and 1, which take two and three pods, and node 2 without a limit; a pod on node 0, two on node 1.
    """
    fence = cycle_pb2.Fence(epoch=epoch, scheduler_id=scheduler_id)
    async with connected(follower) as channel:
        sync: Any = snapshot_pb2_grpc.SnapshotFollowerStub(channel)
        stub: Any = filter_pb2_grpc.FilterPluginStub(channel)
        stream = sync.Sync(timeout=DEADLINE * 2)
        hello = snapshot_pb2.Hello(fence=fence, config_hash=5, configuration=snapshot_pb2.Configuration())
        await stream.write(snapshot_pb2.SyncRequest(hello=hello))
        frontend = Frontend(stream, stub, fence, score_pb2_grpc.ScorePluginStub(channel))
        bare = snapshot_pb2.NodeEntry(slot=2, node=core_pb2.Node(metadata={"name": "n2"}))
        pod_class = snapshot_pb2.PodClass(id=1, pod=CYCLE.pod)
        await frontend.send(
            0, 3, reset=True, partial=True, nodes=[limited(0, 2), limited(1, 3), bare], classes=[pod_class]
        )
        await frontend.send(3, 3, pods=placed(p0=0, p1=1, p2=1))
        await frontend.acknowledged(3)
        yield frontend
        stream.cancel()


@pytest.fixture(params=FOLLOWERS)
def follower(
    request: pytest.FixtureRequest, running: dict[str, Served], tmp_path_factory: pytest.TempPathFactory
) -> Served:
    """Each plugin that follows the cluster."""
    return get(request.param, running, tmp_path_factory)


async def test_followers_describe_themselves_so(follower: Served) -> None:
    """If this fails, the frontend opens no stream, and the plugin answers about an empty cluster."""
    info = await remote_client.handshake("PodLimit", follower.address, deadline_seconds=DEADLINE)
    assert info.node_data == plugin_pb2.NODE_DATA_SNAPSHOT
    assert info.depends_on == plugin_pb2.DEPENDENCY_NODE_PODS


async def test_a_follower_knows_the_pods_on_nodes(follower: Served) -> None:
    """If this fails, the plugin decides by another cluster than the scheduler's."""
    async with following(follower, 10, "pods on nodes") as frontend:
        assert await frontend.capacities(3, 1, 0, 2) == [1, 1, UNLIMITED]
        # One pod moves, one goes, one comes, a node is another one, and a slot gets another node.
        await frontend.send(3, 4, removed_pods=[2], pods=placed(p0=1, p3=1), nodes=[limited(0, 7)])
        assert await frontend.capacities(4, 0, 1) == [7, 0]
        await frontend.send(4, 5, removed_slots=[2], nodes=[limited(3, 4)])
        await frontend.send(5, 6, nodes=[limited(2, 5)])
        assert await frontend.capacities(6, 2, 3) == [5, 4]


async def test_a_follower_answers_dry_runs(follower: Served) -> None:
    """If this fails, preemption evicts pods that need not go, or never finds whom it may."""
    async with following(follower, 10, "dry runs") as frontend:
        runs = [
            filter_pb2.DryRun(slot=1, removed_rows=[1, 2]),
            filter_pb2.DryRun(slot=0, added_classes=[1]),
            filter_pb2.DryRun(slot=0, removed_rows=[0], added_classes=[1]),
        ]
        assert await frontend.dry_runs(3, *runs) == [3, 0, 1]


async def test_a_follower_scores_nodes_with_copies_of_the_pod(follower: Served) -> None:
    """If this fails, a batch is placed by scores that its own pods have changed."""
    info = await remote_client.handshake("PodLimit", follower.address, deadline_seconds=DEADLINE)
    assert info.score_copies
    async with following(follower, 10, "copies") as frontend:
        before = await frontend.scores_of_copies(3, 3, 1, 0, 2)
        assert before == [0, 0, 0, 0, 0, 0, 100, 100, 100]
        await frontend.send(3, 4, nodes=[limited(0, 10)])
        assert await frontend.scores(4, 0) == [90]
        assert await frontend.scores_of_copies(4, 3, 0) == [80, 70, 60]
        # The answer about pods that are not there yet is Score's answer once they are.
        await frontend.send(4, 5, pods=placed(p3=0, p4=0))
        assert await frontend.scores(5, 0) == [70]
        with pytest.raises(aio.AioRpcError) as caught:
            await frontend.scores_of_copies(5, 0, 0)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_follower_that_is_behind_refuses_the_call(follower: Served) -> None:
    """If this fails, a call is answered from a cluster in which pods are missing that the scheduler has placed."""
    async with following(follower, 10, "behind") as frontend:
        with pytest.raises(aio.AioRpcError) as caught:
            await frontend.capacities(4, 0, seconds=6)
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        # A call that is a moment ahead of its delta waits for it.
        early = asyncio.create_task(frontend.capacities(4, 0))
        await asyncio.sleep(0.05)
        await frontend.send(3, 4, pods=placed(p5=0))
        assert await early == [0]


async def test_a_follower_passes_over_messages_of_an_unknown_kind(follower: Served) -> None:
    """New kinds of messages can be added to the stream without breaking older plugins."""
    async with following(follower, 10, "unknown") as frontend:
        await frontend.send_unknown()
        await frontend.send(3, 4, pods=placed(p3=1))
        assert await frontend.capacities(4, 1) == [0]


async def test_a_follower_refuses_what_it_cannot_apply(follower: Served) -> None:
    """If this fails, a delta that was lost is never noticed."""
    async with following(follower, 10, "gaps") as frontend:
        await frontend.send(8, 9)
        assert await frontend.ended() is grpc.StatusCode.FAILED_PRECONDITION


async def test_a_follower_follows_only_the_newest_leader(follower: Served) -> None:
    """If this fails, the plugin mixes two leaders' clusters, or a deposed one takes it away from its successor."""
    async with following(follower, 10, "leaders") as old:
        async with following(follower, 11, "leaders") as new:
            # The plugin may have ended the stream already.
            with contextlib.suppress(asyncio.InvalidStateError, aio.AioRpcError):
                await old.send(3, 4)
            assert await old.ended() is grpc.StatusCode.ABORTED
            with pytest.raises(aio.AioRpcError) as caught:
                await old.capacities(3, 0, seconds=0.5)
            assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
            async with connected(follower) as channel:
                stub: Any = snapshot_pb2_grpc.SnapshotFollowerStub(channel)
                late = stub.Sync(timeout=DEADLINE)
                hello = snapshot_pb2.Hello(fence=cycle_pb2.Fence(epoch=10, scheduler_id="leaders"))
                await late.write(snapshot_pb2.SyncRequest(hello=hello))
                assert await Frontend(late, None, hello.fence).ended() is grpc.StatusCode.FAILED_PRECONDITION
            assert await new.capacities(3, 0) == [1]
        # The scheduler of another cluster has lower epochs.
        async with following(follower, 2, "rebuilt") as rebuilt:
            assert await rebuilt.capacities(3, 0) == [1]
