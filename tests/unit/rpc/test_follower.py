"""Whose snapshot a follower answers from when the leader changes."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from tests.helpers.phase_calls import Aborted, context
from trireme.rpc import follower
from trireme.snapshot import snapshot
from trireme.v1 import cycle_pb2, snapshot_pb2

# No time to wait.
SECONDS = 0.05


class Stream:
    """A snapshot stream that the test feeds."""

    def __init__(self, follow: follower.Follower, call: Any = None) -> None:
        self._queue: asyncio.Queue[snapshot_pb2.SyncRequest] = asyncio.Queue()
        self._follow = follow
        self.task = asyncio.create_task(follow.Sync(self._requests(), call or context(SECONDS)))

    async def _requests(self) -> AsyncIterator[snapshot_pb2.SyncRequest]:
        while True:
            yield await self._queue.get()
            self._queue.task_done()

    async def until_ended(self) -> None:
        """Raise why it ended; one that goes on would hold the test up until its timeout."""
        async with asyncio.timeout(5):
            await self.task

    def feed(self, request: snapshot_pb2.SyncRequest) -> None:
        """Send one that may end the stream."""
        self._queue.put_nowait(request)

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
        await follow.wait_until_synced(cycle, context(SECONDS))
    except Aborted:
        return False
    return True


@pytest.mark.parametrize("greeted", [True, False], ids=["after its hello", "before its hello"])
async def test_a_new_leader_is_not_answered_from_the_state_of_its_predecessor(greeted: bool) -> None:
    """Generations belong to one leader and are not compared between leaders."""
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
    assert follow.caller_identity().fence == cycle_pb2.Fence(epoch=5, scheduler_id="new")
    # Nor does the same epoch number of another scheduler name the state that is here.
    assert not await answers(follow, 5, 1, "another")
    for stream in (old, new):
        stream.task.cancel()
    await asyncio.gather(old.task, new.task, return_exceptions=True)


async def test_a_message_of_an_unknown_kind_is_passed_over() -> None:
    follow = follower.Follower(snapshot.Snapshot(), lambda configuration: None)
    stream = Stream(follow)
    unknown = snapshot_pb2.SyncRequest.FromString(b"\x9a\x06\x02\x08\x01")  # field 99, a message
    assert unknown.WhichOneof("message") is None
    async with asyncio.timeout(5):
        await stream.send(hello(7), unknown, full(100), unknown)
    assert await answers(follow, 7, 100)
    assert not stream.task.done()
    stream.task.cancel()
    await asyncio.gather(stream.task, return_exceptions=True)


def configured(epoch: int, config_hash: int) -> snapshot_pb2.SyncRequest:
    """The Hello of a leader with a configuration."""
    greeting = snapshot_pb2.Hello(fence=cycle_pb2.Fence(epoch=epoch), config_hash=config_hash)
    return snapshot_pb2.SyncRequest(hello=greeting)


def delta(from_generation: int) -> snapshot_pb2.SyncRequest:
    """Nothing, as the next generation."""
    changes = snapshot_pb2.Delta(from_generation=from_generation, to_generation=from_generation + 1)
    return snapshot_pb2.SyncRequest(delta=changes)


@pytest.mark.parametrize(
    ("intruder", "code"),
    [
        ([], None),
        ([hello(6)], grpc.StatusCode.FAILED_PRECONDITION),
        ([configured(7, 13)], grpc.StatusCode.INVALID_ARGUMENT),
        ([configured(9, 13)], grpc.StatusCode.INVALID_ARGUMENT),
        ([full(3)], grpc.StatusCode.INVALID_ARGUMENT),
    ],
    ids=["silent", "stale epoch", "wrong configuration", "wrong configuration of a new leader", "no hello"],
)
async def test_a_stream_that_is_refused_changes_nothing(
    intruder: list[snapshot_pb2.SyncRequest], code: grpc.StatusCode | None
) -> None:
    def refuse(_: snapshot_pb2.Configuration) -> None:
        raise ValueError("no such plugin")

    follow = follower.Follower(snapshot.Snapshot(), refuse)
    leader = Stream(follow)
    await leader.send(hello(7), full(100))
    second = Stream(follow)
    if code is not None:
        for request in intruder:
            second.feed(request)
        with pytest.raises(Aborted) as raised:
            await second.until_ended()
        assert raised.value.code is code
    await leader.send(delta(100))
    assert not leader.task.done()
    assert await answers(follow, 7, 101)
    assert follow.statistics().streams == 1
    for stream in (leader, second):
        stream.task.cancel()
    await asyncio.gather(leader.task, second.task, return_exceptions=True)


async def test_a_stream_with_another_configuration_has_it_applied_and_calls_by_the_one_before_refused() -> None:
    """If this fails, a replica answers by the configuration that a reload has replaced."""
    applied: list[str] = []
    follow = follower.Follower(snapshot.Snapshot(), lambda configuration: applied.append(configuration.release))
    streams = []
    for config_hash, release in ((13, "before"), (13, "before"), (14, "after")):
        greeting = configured(7, config_hash)
        greeting.hello.configuration.release = release
        streams.append(Stream(follow))
        await streams[-1].send(greeting, full(100))
    assert applied == ["before", "after"]
    cycle = cycle_pb2.Cycle(fence=cycle_pb2.Fence(epoch=7), generation=100, config_hash=13)
    with pytest.raises(Aborted) as raised:
        await follow.wait_until_synced(cycle, context(SECONDS))
    assert raised.value.code is grpc.StatusCode.FAILED_PRECONDITION
    cycle.config_hash = 14
    await follow.wait_until_synced(cycle, context(SECONDS))
    for stream in streams:
        stream.task.cancel()
    await asyncio.gather(*(stream.task for stream in streams), return_exceptions=True)


async def test_an_accepted_stream_ends_the_one_before_it() -> None:
    """Deltas of two leaders would be mixed."""
    follow = follower.Follower(snapshot.Snapshot(), lambda configuration: None)
    first, second = Stream(follow), Stream(follow)
    await first.send(hello(7), full(100))
    await second.send(hello(8), full(5))
    first.feed(delta(100))
    with pytest.raises(Aborted) as raised:
        await first.until_ended()
    assert raised.value.code is grpc.StatusCode.ABORTED
    assert await answers(follow, 8, 5)
    second.task.cancel()
    await asyncio.gather(second.task, return_exceptions=True)


class SlowCall:
    """The context of a call whose messages take their time, and which must not end meanwhile."""

    def __init__(self) -> None:
        self.writing = asyncio.Event()
        self.written = asyncio.Event()

    async def write(self, message: Any) -> None:
        self.writing.set()
        await self.written.wait()
        self.writing.clear()

    async def abort(self, code: grpc.StatusCode, details: str, trailing: Any = ()) -> None:
        assert not self.writing.is_set(), "gRPC: TOO_MANY_OPERATIONS"
        raise Aborted(code, details)


@pytest.mark.parametrize("end", ["gap", "process"])
async def test_a_stream_ends_between_its_messages(end: str) -> None:
    follow = follower.Follower(snapshot.Snapshot(), lambda configuration: None)
    call = SlowCall()
    stream = Stream(follow, call)
    await stream.send(hello(7), full(3))
    await call.writing.wait()
    if end == "gap":
        stream.feed(delta(8))
    else:
        follow.end_streams()
    for _ in range(5):
        await asyncio.sleep(0)
    call.written.set()
    if end == "gap":
        with pytest.raises(Aborted, match="delta: ") as raised:
            await stream.until_ended()
        assert raised.value.code is grpc.StatusCode.FAILED_PRECONDITION
    else:
        with pytest.raises(Aborted, match="the process ends"):
            await asyncio.gather(*follow._ending)
        stream.task.cancel()
        await asyncio.gather(stream.task, return_exceptions=True)


class Call:
    """The context of a call that takes messages at once."""

    def __init__(self) -> None:
        self.acknowledged: asyncio.Queue[int] = asyncio.Queue()

    async def write(self, message: snapshot_pb2.SyncResponse) -> None:
        self.acknowledged.put_nowait(message.applied_generation)


async def test_a_full_sync_behind_another_hello_is_acknowledged() -> None:
    """The acknowledgement that was due before is not sent any more: the leader would wait until it gives up."""
    follow = follower.Follower(snapshot.Snapshot(), lambda configuration: None)
    call = Call()
    stream = Stream(follow, call)
    async with asyncio.timeout(SECONDS):
        await stream.send(hello(7), full(3))
        assert await call.acknowledged.get() == 3
        await stream.send(delta(3), hello(7), full(9))
        assert await call.acknowledged.get() == 9
    stream.task.cancel()
    await asyncio.gather(stream.task, return_exceptions=True)
