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


def hello(epoch: int, scheduler_id: str = "") -> snapshot_pb2.SyncRequest:
    greeting = snapshot_pb2.Hello(fence=cycle_pb2.Fence(epoch=epoch, scheduler_id=scheduler_id))
    return snapshot_pb2.SyncRequest(hello=greeting)


def full(generation: int, *, partial: bool = False) -> snapshot_pb2.SyncRequest:
    delta = snapshot_pb2.Delta(reset=True, to_generation=generation, partial=partial)
    return snapshot_pb2.SyncRequest(delta=delta)


async def answers(follow: follower.Follower, epoch: int, generation: int, scheduler_id: str = "") -> bool:
    """Whether a call of this leader, for this generation, is answered."""
    fence = cycle_pb2.Fence(epoch=epoch, scheduler_id=scheduler_id)
    cycle = cycle_pb2.Cycle(fence=fence, generation=generation)
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


async def test_a_phase_follows_the_scheduler_of_a_rebuilt_cluster() -> None:
    """Else a phase that outlives a cluster refuses the next one, whose epochs begin anew; or follows both."""
    follow = follower.Follower(snapshot.Snapshot(), lambda configuration: None)
    old = Stream(follow)
    await old.send(hello(1000, "old"), full(100))
    # A call alone deposes nobody: the state that it is about is not here.
    assert not await answers(follow, 5, 1, "new")
    assert await answers(follow, 1000, 100, "old")
    new = Stream(follow)
    await new.send(hello(5, "new"), full(1))
    assert await answers(follow, 5, 1, "new")
    assert not await answers(follow, 1000, 1, "old")
    assert not await answers(follow, 4, 1, "new")
    assert follow.asker().fence == cycle_pb2.Fence(epoch=5, scheduler_id="new")
    # Nor does the same epoch number of another scheduler name the state that is here.
    assert not await answers(follow, 5, 1, "another")
    for stream in (old, new):
        stream.task.cancel()
    await asyncio.gather(old.task, new.task, return_exceptions=True)
