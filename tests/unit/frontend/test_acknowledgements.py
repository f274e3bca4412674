"""ReplicaLink: which acknowledgements count, and what becomes of a replica that sends none, on virtual time."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import pytest

from tests.helpers.virtual_time import on_virtual_time
from trireme.frontend.phase_clients import replica_link
from trireme.rpc import dialing
from trireme.v1 import snapshot_pb2

CHUNKS = 3
"""The number of chunks of each full sync."""


class Stream:
    """One Sync call; the test plays the replica. gRPC's end of the call. Each write takes `delay` seconds."""

    delay = 0.0

    def __init__(self) -> None:
        self.received: list[snapshot_pb2.SyncRequest] = []
        self._answers: asyncio.Queue[snapshot_pb2.SyncResponse | None] = asyncio.Queue()

    def end(self) -> None:
        self._answers.put_nowait(None)

    def acknowledge(self, generation: int, *, takes_decisions: bool = False) -> None:
        self._answers.put_nowait(
            snapshot_pb2.SyncResponse(applied_generation=generation, instance="i", takes_decisions=takes_decisions)
        )

    async def write(self, request: bytes) -> None:
        await asyncio.sleep(self.delay)
        self.received.append(snapshot_pb2.SyncRequest.FromString(request))

    async def __aiter__(self) -> AsyncIterator[snapshot_pb2.SyncResponse]:
        while (answer := await self._answers.get()) is not None:
            yield answer

    def cancel(self) -> None:
        """Nothing more is written by then."""


class Frontend:
    """A link whose channel opens `Stream`s, and the cluster that they begin with."""

    def __init__(self, generation: int, chunks: int = CHUNKS) -> None:
        self.generation = generation
        self.chunks = chunks
        self.streams: list[Stream] = []
        dialer = cast("dialing.Dialer", self)
        self.link = replica_link.ReplicaLink("r:1", self, dialer, asyncio.get_running_loop().time, lambda: None)

    @property
    def channel(self) -> "Frontend":
        return self

    def open(self, *_: Any) -> "Frontend":
        return self

    def renew(self) -> bool:
        return False

    def stream_stream(self, *_: Any, **__: Any) -> Any:
        self.streams.append(Stream())
        return lambda _: self.streams[-1]

    def hello(self) -> snapshot_pb2.Hello:
        return snapshot_pb2.Hello(config_hash=1)

    def full_sync(self) -> Sequence[bytes]:
        at = self.generation
        first = snapshot_pb2.Delta(reset=True, partial=True, to_generation=at)
        rest = [
            snapshot_pb2.Delta(from_generation=at, to_generation=at, partial=number < self.chunks - 1)
            for number in range(1, self.chunks)
        ]
        return [snapshot_pb2.SyncRequest(delta=delta).SerializeToString() for delta in (first, *rest)]

    def publish(self, *decisions: bytes) -> None:
        self.generation += 1
        delta = snapshot_pb2.Delta(from_generation=self.generation - 1, to_generation=self.generation)
        more = snapshot_pb2.SyncRequest(decisions=decisions).SerializeToString()
        self.link.publish(snapshot_pb2.SyncRequest(delta=delta).SerializeToString(), self.generation, more)

    async def in_step(self) -> Stream:
        """Acknowledge the full sync; the stream."""
        await asyncio.sleep(0.1)
        self.streams[-1].acknowledge(self.generation)
        await asyncio.sleep(0.1)
        assert self.link.in_step
        return self.streams[-1]


@contextlib.asynccontextmanager
async def frontend(generation: int) -> AsyncIterator[Frontend]:
    """With its link at work."""
    made = Frontend(generation)
    task = asyncio.create_task(made.link.run())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()


@on_virtual_time
async def test_an_idle_replica_that_stops_acknowledging_is_synced_again() -> None:
    """If this fails, the last change before a quiet night is not known to it until the next one in the morning."""
    async with frontend(7) as front:
        await front.in_step()
        front.publish()
        await asyncio.sleep(2 * replica_link.SILENCE_SECONDS + 1)
        assert len(front.streams) == 2
        assert front.link.statistics().last_error == "it does not follow; it will be synchronised anew"
        await front.in_step()


@on_virtual_time
async def test_a_replica_that_never_acknowledges_its_full_sync_gets_another() -> None:
    """If this fails, it is never in step where the cluster does not change."""
    async with frontend(7) as front:
        await asyncio.sleep(replica_link.FULL_SYNC_SECONDS - 1)
        assert len(front.streams) == 1
        await asyncio.sleep(2)
        assert len(front.streams) == 2


@on_virtual_time
async def test_a_repeated_acknowledgement_does_not_count() -> None:
    """If this fails, a replica that repeats its last acknowledgement forever is taken for one that follows."""
    async with frontend(7) as front:
        stream = await front.in_step()
        front.publish()
        front.publish()
        await asyncio.sleep(1)
        for generation in (8, 7, 8, 7, 8, 7, 8, 8):
            stream.acknowledge(generation)
            await asyncio.sleep(1)
        assert len(front.streams) == 2


@on_virtual_time
async def test_a_slow_replica_that_goes_on_acknowledging_keeps_its_stream() -> None:
    """If this fails, one that needs long for much is sent everything again, and needs longer."""
    async with frontend(7) as front:
        stream = await front.in_step()
        for _ in range(20):
            front.publish()
        for generation in range(8, 28):
            await asyncio.sleep(2)
            stream.acknowledge(generation)
        await asyncio.sleep(60)
        assert len(front.streams) == 1
        assert front.link.in_step


@on_virtual_time
async def test_no_timer_runs_while_everything_is_acknowledged() -> None:
    """If this fails, each replica of an idle cluster costs processor time."""
    async with frontend(7) as front:
        stream = await front.in_step()
        front.publish()
        await asyncio.sleep(0.1)
        stream.acknowledge(8)
        await asyncio.sleep(10)  # the timer of what was unacknowledged has run off
        loop: Any = asyncio.get_running_loop()  # a test's loop keeps its timers in a list
        assert not [timer for timer in loop._scheduled if not timer.cancelled()]


@pytest.mark.parametrize("synced", [False, True], ids=["the first", "a later one"])
def test_an_acknowledgement_of_what_was_not_sent_ends_the_stream(
    synced: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, a replica whose generations are wrong is called as if it had what it does not have."""

    @on_virtual_time
    async def check() -> None:
        async with frontend(7) as front:
            if synced:
                await front.in_step()
            await asyncio.sleep(0.1)
            front.streams[0].acknowledge(1044)
            await asyncio.sleep(0.1)
            assert not front.link.in_step
            await asyncio.sleep(1)
            assert len(front.streams) == 2
            await front.in_step()

    with caplog.at_level(logging.INFO):
        check()
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert lines == ["r:1: it acknowledged generation 1044, but was sent 7 at most; it will be synchronised anew"]
    assert "in step at generation 1044" not in caplog.text


@on_virtual_time
async def test_an_acknowledgement_below_the_full_sync_does_not_put_a_replica_in_step() -> None:
    """If this fails, a replica that says that it has nothing yet is called as if it had everything."""
    async with frontend(7) as front:
        await asyncio.sleep(0.1)
        for generation in (0, 6):
            front.streams[0].acknowledge(generation)
            await asyncio.sleep(0.1)
            assert not front.link.in_step
        await front.in_step()
        assert len(front.streams) == 1


@on_virtual_time
async def test_a_replica_that_never_completes_its_full_sync_is_synced_again() -> None:
    """If this fails, a replica that goes on saying that it has nothing is waited for forever."""
    async with frontend(7) as front:
        for _ in range(62):
            await asyncio.sleep(1)
            front.streams[0].acknowledge(0)
        assert len(front.streams) == 2


@on_virtual_time
async def test_a_replica_of_an_empty_cluster_is_in_step_at_generation_0() -> None:
    """If this fails, the first pods of a new cluster wait for a node."""
    async with frontend(0) as front:
        await front.in_step()
        await asyncio.sleep(120)
        assert len(front.streams) == 1
        assert front.link.in_step


@on_virtual_time
async def test_a_replica_that_came_late_is_probed_at_its_generation() -> None:
    """If this fails, a probe does not begin where the replica is, and it ends the stream."""
    async with frontend(7) as front:
        stream = await front.in_step()
        front.link.request_acknowledgement()
        await asyncio.sleep(0.1)
        assert stream.received[-1].delta == snapshot_pb2.Delta(from_generation=7, to_generation=7, trial=True)
        stream.acknowledge(7)
        await asyncio.sleep(10)
        assert len(front.streams) == 1
        assert front.link.in_step


@on_virtual_time
async def test_decisions_go_to_a_replica_that_takes_them() -> None:
    """Every replica would get them; or one that records would not."""
    async with frontend(7) as front:
        stream = await front.in_step()
        front.publish(b"first")
        stream.acknowledge(8, takes_decisions=True)
        await asyncio.sleep(0.1)
        front.publish(b"second", b"third")
        await asyncio.sleep(0.1)
        decisions = [list(request.decisions) for request in stream.received[-2:]]
        assert decisions == [[], [b"second", b"third"]]
        assert stream.received[-1].delta.to_generation == 9


@on_virtual_time
async def test_no_decision_is_lost_when_the_configuration_changes() -> None:
    """`trireme explain` would not know the pods that were bound around each reload, and each restart of a plugin."""
    async with frontend(7) as front:
        stream = await front.in_step()
        stream.acknowledge(7, takes_decisions=True)
        await asyncio.sleep(0.1)
        front.publish(b"before")
        front.link.restart()
        assert not front.link.in_step
        assert front.link.takes_decisions
        front.publish(b"after")
        await asyncio.sleep(0.1)
        assert len(front.streams) == 1
        kinds = [request.WhichOneof("message") for request in stream.received[4:]]
        assert kinds == ["delta", "hello", *["delta"] * CHUNKS, "delta"]
        decisions = [content for request in stream.received for content in request.decisions]
        assert decisions == [b"before", b"after"]
        assert [request.delta.reset for request in stream.received[6 : 6 + CHUNKS]] == [True, False, False]
        # An acknowledgement of what came before says nothing of the new configuration.
        stream.acknowledge(7, takes_decisions=True)
        await asyncio.sleep(0.1)
        assert not front.link.in_step
        stream.acknowledge(9, takes_decisions=True)
        await asyncio.sleep(0.1)
        assert front.link.in_step
        assert front.link.statistics().full_syncs == 2


@on_virtual_time
async def test_a_full_sync_on_the_same_stream_is_not_what_holds_decisions_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a large cluster is far more than may wait of changes."""
    monkeypatch.setattr(replica_link, "MAX_BACKLOG_FOR_DECISIONS", 20)
    async with frontend(7) as front:
        stream = await front.in_step()
        stream.acknowledge(7, takes_decisions=True)
        await asyncio.sleep(0.1)
        front.link.restart()
        front.publish(b"decision")
        await asyncio.sleep(0.1)
        assert list(stream.received[-1].decisions) == [b"decision"]
        assert front.link.statistics().dropped_decisions == 0


@on_virtual_time
async def test_a_replica_that_does_not_read_gets_another_stream_when_the_configuration_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Full syncs would pile up where a plugin comes and goes."""
    monkeypatch.setattr(replica_link, "MAX_BACKLOG_BYTES", 20)
    async with frontend(7) as front:
        stream = await front.in_step()
        stream.acknowledge(7, takes_decisions=True)
        await asyncio.sleep(0.1)
        for _ in range(4):
            front.link.restart()
        await asyncio.sleep(0.1)
        assert len(front.streams) == 2
        assert front.link.takes_decisions


@on_virtual_time
async def test_decisions_go_from_the_beginning_of_a_stream_to_a_replica_that_took_them_before() -> None:
    """Pods that are bound until it acknowledges for the first time would not be explained."""
    async with frontend(7) as front:
        stream = await front.in_step()
        stream.acknowledge(7, takes_decisions=True)
        await asyncio.sleep(0.1)
        stream.acknowledge(99)  # never sent: the stream is opened anew
        await asyncio.sleep(1)
        assert len(front.streams) == 2
        front.publish(b"early")
        await asyncio.sleep(0.1)
        assert list(front.streams[-1].received[-1].decisions) == [b"early"]


@on_virtual_time
async def test_a_replica_that_is_behind_gets_no_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is recorded would have it fall back to a full sync."""
    monkeypatch.setattr(replica_link, "MAX_BACKLOG_FOR_DECISIONS", 20)
    async with frontend(7) as front:
        stream = await front.in_step()
        stream.acknowledge(7, takes_decisions=True)
        await asyncio.sleep(0.1)
        for _ in range(4):
            front.publish(b"decision" * 3)
        await asyncio.sleep(0.1)
        assert [len(request.decisions) for request in stream.received[-4:]] == [1, 0, 0, 0]
        assert front.link.statistics().dropped_decisions == 3
        front.publish(b"decision")
        await asyncio.sleep(0.1)
        assert list(stream.received[-1].decisions) == [b"decision"]


@on_virtual_time
async def test_a_change_that_takes_long_to_write_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with frontend(7) as front:
        stream = await front.in_step()
        written = stream.write

        async def write_slowly(request: bytes) -> None:
            await asyncio.sleep(replica_link.SILENCE_SECONDS - 0.5)
            await written(request)

        monkeypatch.setattr(stream, "write", write_slowly)
        before = len(stream.received)
        front.publish()
        await asyncio.sleep(replica_link.SILENCE_SECONDS)
        assert [each.delta.to_generation for each in stream.received[before:]] == [8]
        assert len(front.streams) == 1


@pytest.mark.parametrize("reader_ends", [False, True])
@on_virtual_time
async def test_a_stream_that_takes_no_write_any_more_is_opened_again(
    reader_ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GRPC says why to the reader, at once or never."""
    async with frontend(7) as front:
        stream = await front.in_step()
        ended = asyncio.Event()

        async def refuse(request: bytes) -> None:
            ended.set()
            raise asyncio.InvalidStateError("RPC already finished.")

        monkeypatch.setattr(stream, "write", refuse)
        front.publish()
        await ended.wait()
        if reader_ends:
            stream.end()
        await asyncio.sleep(replica_link.CHECK_SECONDS + 1)
        assert len(front.streams) == 2


@on_virtual_time
async def test_a_stream_that_ends_during_a_write_is_opened_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with frontend(7) as front:
        stream = await front.in_step()

        cancelled = asyncio.Event()

        async def hang(request: bytes) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        monkeypatch.setattr(stream, "write", hang)
        front.publish()
        await asyncio.sleep(0.1)
        stream.end()
        await asyncio.sleep(0.5)
        assert (len(front.streams), cancelled.is_set()) == (2, True)


@on_virtual_time
async def test_a_replica_that_does_not_read_gets_another_stream_once_a_full_sync_is_cheaper(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replica_link, "MAX_BACKLOG_BYTES", 100)
    async with frontend(7) as front:
        stream = await front.in_step()

        async def hang(request: bytes) -> None:
            await asyncio.Event().wait()

        monkeypatch.setattr(stream, "write", hang)
        for _ in range(100):
            front.publish()
        await asyncio.sleep(replica_link.SILENCE_SECONDS)
        assert len(front.streams) == 2


@on_virtual_time
async def test_a_backlog_is_no_reason_for_a_full_sync_that_is_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica_link, "MAX_BACKLOG_BYTES", 0)
    async with frontend(7) as front:
        stream = await front.in_step()
        stream.delay = 2.5
        front.publish()
        await asyncio.sleep(3.0)
        assert (len(front.streams), stream.received[-1].delta.to_generation) == (1, 8)


@on_virtual_time
async def test_the_time_to_acknowledge_all_of_the_cluster_begins_when_it_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Stream, "delay", replica_link.FULL_SYNC_SECONDS / 5)
    async with frontend(7) as front:
        await asyncio.sleep(1.4 * replica_link.FULL_SYNC_SECONDS)
        assert len(front.streams) == 1
        await asyncio.sleep(0.5 * replica_link.FULL_SYNC_SECONDS)
        assert len(front.streams) == 2


@on_virtual_time
async def test_a_replica_that_never_acknowledges_a_new_configuration_gets_another_stream() -> None:
    async with frontend(7) as front:
        stream = await front.in_step()
        stream.acknowledge(7, takes_decisions=True)
        await asyncio.sleep(1.0)
        front.link.restart()
        await asyncio.sleep(replica_link.FULL_SYNC_SECONDS - 1)
        assert len(front.streams) == 1
        await asyncio.sleep(2.0)
        assert len(front.streams) == 2
