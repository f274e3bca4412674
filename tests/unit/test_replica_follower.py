"""Whose snapshot a follower answers from when the leader changes."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from trireme.replica import follower
from trireme.snapshot import snapshot
from trireme.v1 import cycle_pb2, snapshot_pb2


class Aborted(Exception):
    """A call ended with an error."""


class Context:
    """The context of a call that has no time to wait."""

    def time_remaining(self) -> float:
        return 0.05

    async def abort(self, code: grpc.StatusCode, details: str, metadata: Any = ()) -> None:
        raise Aborted(code, details)

    async def write(self, answer: snapshot_pb2.SyncResponse) -> None:
        """Nobody reads acknowledgements here."""


class Stream:
    """A snapshot stream that the test feeds."""

    def __init__(self, follow: follower.Follower) -> None:
        self._queue: asyncio.Queue[snapshot_pb2.SyncRequest] = asyncio.Queue()
        self._follow = follow
        self.task = asyncio.create_task(follow.Sync(self._requests(), Context()))  # type: ignore[arg-type]

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
        await follow.ready_for(cycle, Context())  # type: ignore[arg-type]
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
