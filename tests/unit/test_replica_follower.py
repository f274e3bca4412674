"""Whose snapshot a follower answers from when the leader changes."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from phase_calls import Aborted, context

from trireme.replica import follower
from trireme.snapshot import snapshot
from trireme.v1 import cycle_pb2, snapshot_pb2

# No time to wait.
SECONDS = 0.05


class Stream:
    """A snapshot stream that the test feeds."""

    def __init__(self, follow: follower.Follower) -> None:
        self._queue: asyncio.Queue[snapshot_pb2.SyncRequest] = asyncio.Queue()
        self._follow = follow
        self.task = asyncio.create_task(follow.Sync(self._requests(), context(SECONDS)))

    async def _requests(self) -> AsyncIterator[snapshot_pb2.SyncRequest]:
        while True:
            yield await self._queue.get()
            self._queue.task_done()

    async def send(self, *requests: snapshot_pb2.SyncRequest) -> None:
        """Returns once they are taken in."""
        for request in requests:
            self._queue.put_nowait(request)
        await self._queue.join()


def hello(epoch: int) -> snapshot_pb2.SyncRequest:
    greeting = snapshot_pb2.Hello(fence=cycle_pb2.Fence(epoch=epoch))
    return snapshot_pb2.SyncRequest(hello=greeting)


def full(generation: int, *, partial: bool = False) -> snapshot_pb2.SyncRequest:
    delta = snapshot_pb2.Delta(reset=True, to_generation=generation, partial=partial)
    return snapshot_pb2.SyncRequest(delta=delta)


async def answers(follow: follower.Follower, epoch: int, generation: int) -> bool:
    """Whether a call of this leader, for this generation, is answered."""
    cycle = cycle_pb2.Cycle(fence=cycle_pb2.Fence(epoch=epoch), generation=generation)
    try:
        await follow.ready_for(cycle, context(SECONDS))
    except Aborted:
        return False
    return True


@pytest.mark.parametrize("greeted", [True, False], ids=["after its hello", "before its hello"])
async def test_a_new_leader_is_not_answered_from_the_state_of_its_predecessor(greeted: bool) -> None:
    """Else a pod is placed on a snapshot that lacks what the new leader knows: generations are each leader's own."""
    follow = follower.Follower(snapshot.Snapshot(), lambda configuration: None)
    first = Stream(follow)
    await first.send(hello(7), full(100))
    assert await answers(follow, 7, 100)
    second = Stream(follow)
    if greeted:
        await second.send(hello(9))
    assert not await answers(follow, 9, 50)
    await second.send(hello(9), full(30, partial=True))
    assert not await answers(follow, 9, 30)
    await second.send(full(50))
    assert await answers(follow, 9, 50)
    assert not await answers(follow, 7, 50)
    for stream in (first, second):
        stream.task.cancel()
    await asyncio.gather(first.task, second.task, return_exceptions=True)
