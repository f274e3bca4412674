"""When a link tells the frontend that its replica can be called again, and when it opens another stream."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc
import pytest
from grpc import aio

from trireme.frontend.phase_clients import replica_link
from trireme.rpc import dialing
from trireme.v1 import snapshot_pb2

DEADLINE = 20.0
"""Seconds that a test waits for what happens at once on an idle machine."""


def _delta(generation: int) -> bytes:
    return snapshot_pb2.SyncRequest(delta=snapshot_pb2.Delta(to_generation=generation)).SerializeToString()


class Stream:
    """A stream to a replica that answers what the test says."""

    def __init__(self, most: int | None, refusal: Exception | None = None) -> None:
        """`most`: how many messages are written before `proceed` is called; None: all.

        `refusal`: why the replica ended the stream before the first write.
        """
        self.refusal = refusal
        self.written: list[snapshot_pb2.SyncRequest] = []
        self.full = asyncio.Event()
        self._received = asyncio.Event()
        self._most = most
        self._proceeding = asyncio.Event()
        self._answers: asyncio.Queue[snapshot_pb2.SyncResponse | None] = asyncio.Queue()

    async def write(self, message: bytes) -> None:
        if self.refusal is not None:
            self.end()
            raise asyncio.InvalidStateError("RPC already finished.")
        self.written.append(snapshot_pb2.SyncRequest.FromString(message))
        self._received.set()
        if len(self.written) == self._most:
            self.full.set()
            await self._proceeding.wait()

    def proceed(self) -> None:
        self._proceeding.set()

    def cancel(self) -> None:
        self.end()

    def acknowledge(self, generation: int) -> None:
        """As soon as it is received."""
        self._answers.put_nowait(snapshot_pb2.SyncResponse(applied_generation=generation))

    def end(self) -> None:
        self._answers.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[snapshot_pb2.SyncResponse]:
        while (answer := await self._answers.get()) is not None:
            while not self._has(answer.applied_generation):
                self._received.clear()
                await self._received.wait()
            yield answer
        if self.refusal is not None:
            raise self.refusal

    def _has(self, generation: int) -> bool:
        return any(one.HasField("delta") and one.delta.to_generation >= generation for one in self.written)


class Channel:
    """Opens streams."""

    def __init__(self) -> None:
        self.opened: asyncio.Queue[Stream] = asyncio.Queue()
        #: How many messages the next stream takes before the test has it proceed.
        self.most: int | None = None
        #: Why the replica refuses streams; None: it does not.
        self.refusal: Exception | None = None

    def stream_stream(self, method: str, **serializers: Any) -> Any:
        def open_stream(requests: None) -> Stream:
            stream, self.most = Stream(self.most, self.refusal), None
            self.opened.put_nowait(stream)
            return stream

        return open_stream


class RenewableChannel:
    """A channel to one replica."""

    def __init__(self) -> None:
        self.channel = Channel()

        self.ended: list[str] = []

    def renew(self) -> bool:
        return False

    def error_text(self, error: aio.AioRpcError) -> str:
        return f"{error.code().name}: {error.details()}"

    async def drain(self) -> None:
        self.ended.append("drained")

    async def close(self) -> None:
        self.ended.append("closed")


class Dialer(dialing.Dialer):
    """Has one channel."""

    def __init__(self) -> None:
        super().__init__()
        self.only = RenewableChannel()

    def open(self, address: str, options: Sequence[tuple[str, Any]]) -> Any:
        return self.only


class Source:
    """An empty cluster; each Hello has the configuration of its moment."""

    def __init__(self) -> None:
        self.config_hash = 1
        self.chunks = [_delta(0)]

    def hello(self) -> snapshot_pb2.Hello:
        return snapshot_pb2.Hello(config_hash=self.config_hash)

    def full_sync(self) -> Sequence[bytes]:
        return self.chunks


class Setting:
    """A link with its replica and a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.source = Source()
        self.notified: asyncio.Queue[bool] = asyncio.Queue()
        dialer = Dialer()
        self.connection = dialer.only
        self.channel = dialer.only.channel
        self.opened = self.channel.opened
        self.link = replica_link.ReplicaLink("replica", self.source, dialer, lambda: self.now, self._changed)

    def _changed(self) -> None:
        self.notified.put_nowait(self.link.in_step)

    async def in_step(self) -> Stream:
        """The next stream, once its full sync is acknowledged."""
        stream = await self.opened.get()
        stream.acknowledge(0)
        while not await self.notified.get():
            pass
        return stream


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[Setting]:
    """A link that runs until the test ends."""
    setting = Setting()
    task = asyncio.create_task(setting.link.run())
    try:
        async with asyncio.timeout(DEADLINE):
            yield setting
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_a_stream_that_is_refused_before_a_write_ends_with_the_refusal() -> None:
    async with running() as setting:
        setting.channel.refusal = OSError("PERMISSION_DENIED: not for you")
        await setting.opened.get()
        while setting.link.statistics().last_error != "PERMISSION_DENIED: not for you":
            await asyncio.sleep(0)


async def test_a_replica_that_is_not_in_step_has_a_reason() -> None:
    """If this fails, /readyz says that no replica of filter is available, and not why."""
    async with running() as setting:
        link = setting.link
        assert link.statistics().last_error == "no snapshot stream was opened to it yet"
        stream = await setting.opened.get()
        setting.now += 50.0
        assert link.statistics().last_error == "for 50 s it has not acknowledged its full sync"
        stream.acknowledge(0)
        while not await setting.notified.get():
            pass
        assert link.statistics().last_error == ""
        link.publish(_delta(1), 1)
        setting.now += replica_link.SILENCE_SECONDS
        assert link.statistics().last_error == ""
        setting.now += 1.0
        assert link.statistics().last_error == "for 4 s it has not acknowledged what it was sent"
        stream.end()
        while link.streaming:
            await asyncio.sleep(0)
        assert link.statistics().last_error == "it closed the snapshot stream"


def test_a_new_link_has_done_nothing() -> None:
    setting = Setting()
    problem = "no snapshot stream was opened to it yet"
    assert setting.link.statistics() == replica_link.LinkStatistics("replica", False, 0, 0, 0, 0, problem, 0)
    assert (setting.link.silent_for, setting.link.streaming, setting.link.synced) == (0.0, False, False)
    assert setting.link.identity == ("replica", 0)


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (OSError("reset"), "reset"),
        (TimeoutError(), "TimeoutError"),
        (None, "it closed the snapshot stream"),
        (9, "it acknowledged generation 9, but was sent 0 at most; it will be synchronised anew"),
    ],
    ids=["failed", "failed without a word", "closed", "acknowledged what it was not sent"],
)
async def test_why_a_stream_ended_is_known_and_logged_once_until_the_next_one_is_in_step(
    end: Exception | int | None, text: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each attempt would be a line, or nobody could say why a replica is not called."""
    for name in ("RECONNECT_SECONDS", "MAX_RECONNECT_SECONDS"):
        monkeypatch.setattr(replica_link, name, 0.0)
    caplog.set_level(logging.INFO)
    async with running() as setting:

        async def end_stream() -> None:
            stream = await setting.opened.get()
            if isinstance(end, int):
                setting.source.chunks = [_delta(0)]
                stream._has = lambda generation: len(stream.written) > 1  # type: ignore[method-assign]
                stream.acknowledge(end)
            else:
                stream.refusal = end
                stream.end()
            while setting.link.statistics().last_error != text:
                await asyncio.sleep(0)
            while setting.opened.empty():
                await asyncio.sleep(0)

        for lines in (1, 2):
            for _ in range(2):
                await end_stream()
            texts = [record.getMessage() for record in caplog.records]
            ended = [each for each in texts if "in step" not in each and "the configuration" not in each]
            assert len(ended) == lines
            assert ended[-1].startswith("replica: ")
            await setting.in_step()
            assert setting.link.statistics().last_error == ""
            setting.link.restart()


async def test_what_waited_for_a_stream_that_ended_waits_no_more() -> None:
    """The next one begins with all of the cluster; counted on, a replica would soon be too far behind for good."""
    async with running() as setting:
        setting.channel.most = 3
        stream = await setting.in_step()
        for generation in (1, 2, 3):
            setting.link.publish(_delta(generation), generation)
        await stream.full.wait()
        assert setting.link.statistics().backlog_bytes == 3 * len(_delta(1))
        setting.now += 1.0
        stream.end()
        while setting.link.streaming:
            await asyncio.sleep(0)
        found = setting.link.statistics()
        assert (found.backlog_bytes, found.acknowledged, setting.link.silent_for) == (0, 0, 0.0)
        stream.proceed()


async def test_a_link_that_begins_anew_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as setting:
        await setting.in_step()
        setting.link.restart()
        while setting.opened.empty():
            await asyncio.sleep(0)
        assert setting.link.statistics().last_error == "the configuration changed"


async def test_an_acknowledgement_that_ends_a_silence_is_notified() -> None:
    async with running() as setting:
        stream = await setting.in_step()
        setting.link.publish(_delta(1), 1)
        setting.now += replica_link.SILENCE_SECONDS + 0.5
        assert not setting.link.in_step
        stream.acknowledge(1)
        assert await setting.notified.get()


async def test_an_acknowledgement_of_a_part_ends_a_silence() -> None:
    """What else is on its way is given its time anew."""
    async with running() as setting:
        stream = await setting.in_step()
        for generation in (1, 2):
            setting.link.publish(_delta(generation), generation)
        setting.now += replica_link.SILENCE_SECONDS + 0.5
        stream.acknowledge(1)
        assert await setting.notified.get()


async def test_an_answer_that_ends_a_silence_is_notified() -> None:
    """A call made before the silence may be answered before anything is acknowledged."""
    async with running() as setting:
        await setting.in_step()
        setting.link.publish(_delta(1), 1)
        setting.now += replica_link.SILENCE_SECONDS + 0.5
        setting.link.on_answer()
        assert setting.notified.get_nowait()


async def test_an_answer_is_not_notified_before_the_full_sync_is_acknowledged() -> None:
    """A replica that is called again after a rollout may answer calls that were made before."""
    async with running() as setting:
        await setting.opened.get()
        while not setting.link.streaming:
            await asyncio.sleep(0)
        setting.link.on_answer()
        assert setting.notified.empty()


async def test_an_acknowledgement_in_time_is_not_notified() -> None:
    """There is one for each batch of deltas: the scheduler would look for work each time."""
    async with running() as setting:
        stream = await setting.in_step()
        for generation in (1, 2):
            setting.link.publish(_delta(generation), generation)
            stream.acknowledge(generation)
            setting.now += 0.1
            while setting.link.statistics().acknowledged < generation:
                await asyncio.sleep(0)
        assert setting.notified.empty()


async def test_a_change_of_the_configuration_opens_another_stream_at_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing failed: with a delay that doubles, each plugin that joins would stop scheduling for longer."""
    for name in ("RECONNECT_SECONDS", "MAX_RECONNECT_SECONDS"):
        monkeypatch.setattr(replica_link, name, 3600.0)
    caplog.set_level(logging.INFO)
    async with running() as setting:
        await setting.in_step()
        for config_hash in range(2, 6):
            setting.source.config_hash = config_hash
            setting.link.restart()
            assert setting.notified.get_nowait() is False
            stream = await setting.in_step()
            assert stream.written[0].hello.config_hash == config_hash
    assert "closed by the replica" not in caplog.text
    assert caplog.text.count("the configuration changed: opening another snapshot stream") == 4


async def test_a_new_configuration_is_sent_before_the_delay_after_a_failure_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The replica may have refused the configuration as it was."""
    for name in ("RECONNECT_SECONDS", "MAX_RECONNECT_SECONDS"):
        monkeypatch.setattr(replica_link, name, 3600.0)
    async with running() as setting:
        stream = await setting.in_step()
        stream.end()
        assert not await setting.notified.get()
        setting.source.config_hash = 2
        setting.link.restart()
        stream = await setting.in_step()
        assert stream.written[0].hello.config_hash == 2


async def test_a_change_of_the_configuration_during_a_full_sync_ends_it() -> None:
    """The rest of it would be of no use: the next stream begins with all of the cluster."""
    async with running() as setting:
        setting.source.chunks *= 2
        setting.channel.most = 2
        stream = await setting.opened.get()
        await stream.full.wait()
        setting.source.config_hash = 2
        setting.link.restart()
        stream.proceed()
        again = await setting.in_step()
        assert again.written[0].hello.config_hash == 2
        assert len(stream.written) == 2


async def test_a_replica_that_ends_its_stream_is_called_again_after_a_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does so each time would be called without pause."""
    delays: list[float] = []

    async def wait(self: replica_link.ReplicaLink, seconds: float) -> bool:
        delays.append(seconds)
        return False

    monkeypatch.setattr(replica_link.ReplicaLink, "_restarted_within", wait)
    async with running() as setting:
        for _ in range(7):
            (await setting.opened.get()).end()
        await setting.in_step()
    assert delays == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


async def test_a_stream_that_lasted_is_opened_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica that is rolled once a day would be away for as long as one that crashes all the time."""
    delays: list[float] = []

    async def wait(self: replica_link.ReplicaLink, seconds: float) -> bool:
        delays.append(seconds)
        return False

    monkeypatch.setattr(replica_link.ReplicaLink, "_restarted_within", wait)
    async with running() as setting:
        for _ in range(3):
            (await setting.opened.get()).end()
        stream = await setting.in_step()
        setting.now += replica_link.MAX_RECONNECT_SECONDS + 0.1
        stream.end()
        await setting.in_step()
    assert delays == [0.2, 0.4, 0.8, 0.2]


async def test_a_link_remembers_the_capacities_of_the_classes_used_last() -> None:
    """While pods of ever other classes came and went, it grew without end."""
    setting = Setting()
    for number in range(3 * replica_link.MAX_CAPACITIES):
        setting.link.note_capacities(("default-scheduler", number), 7)
        setting.link.note_capacities(("default-scheduler", 0), number)
    assert len(setting.link.capacities) == replica_link.MAX_CAPACITIES
    assert setting.link.capacities["default-scheduler", 0] == number
    assert setting.link.capacities["default-scheduler", number] == 7


@pytest.mark.parametrize("how", ["ended", "configuration", "configuration on the same stream"])
async def test_what_a_replica_has_is_forgotten_with_its_stream(how: str) -> None:
    """It begins anew, and could not apply a patch to earlier capacities."""
    async with running() as setting:
        stream = await setting.in_step()
        setting.link.note_capacities(("default-scheduler", 1), 7)
        identity = setting.link.identity
        if how == "ended":
            stream.end()
            while setting.link.streaming:
                await asyncio.sleep(0)
        else:
            setting.link.takes_decisions = how != "configuration"
            setting.link.restart()
        if how == "configuration":
            await setting.in_step()
        assert setting.link.capacities == {}
        assert how == "ended" or setting.link.identity != identity


async def test_a_replica_is_in_step_once_it_has_the_full_sync_though_more_was_sent_with_it() -> None:
    """What was published since the full sync was made is sent behind it, and may be large."""
    async with running() as setting:
        setting.source.chunks = [_delta(3), _delta(4), _delta(6)]
        stream = await setting.opened.get()
        stream.acknowledge(2)
        await asyncio.sleep(0.01)
        assert not setting.link.in_step
        stream.acknowledge(3)
        while not await setting.notified.get():
            pass
        assert setting.link.in_step
        assert setting.link.statistics().acknowledged == 3


async def test_a_wait_after_a_failure_ends_with_a_change_of_the_configuration_alone() -> None:
    setting = Setting()
    assert await setting.link._restarted_within(0.01) is False
    setting.link._restarting.set()
    assert await setting.link._restarted_within(DEADLINE) is True


async def test_a_replica_that_takes_decisions_gets_a_new_configuration_on_the_same_stream() -> None:
    """At once, behind what waits for it."""
    async with running() as setting:
        stream = await setting.in_step()
        setting.link.takes_decisions = True
        setting.source.config_hash = 2
        setting.link.restart()
        assert setting.notified.get_nowait() is False
        while len(stream.written) < 4:
            await asyncio.sleep(0)
        assert [each.hello.config_hash for each in stream.written if each.HasField("hello")] == [1, 2]
        stream.acknowledge(0)
        while not setting.link.in_step:
            await asyncio.sleep(0)
        assert setting.opened.empty()
        assert setting.link.statistics().full_syncs == 2


async def test_a_link_that_is_removed_ends_its_calls_and_then_its_channel() -> None:
    setting = Setting()
    await setting.link.drain()
    await setting.link.close()
    assert setting.connection.ended == ["drained", "closed"]


async def test_why_an_earlier_stream_ended_is_not_why_a_replica_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RECONNECT_SECONDS", "MAX_RECONNECT_SECONDS"):
        monkeypatch.setattr(replica_link, name, 0.0)
    async with running() as setting:
        stream = await setting.in_step()
        stream.end()
        await setting.in_step()
        setting.link.publish(_delta(1), 1)
        setting.now += replica_link.SILENCE_SECONDS + 1.0
        assert "it has not acknowledged what it was sent" in setting.link.statistics().last_error


@pytest.mark.parametrize(
    ("code", "level"),
    [
        (grpc.StatusCode.UNAVAILABLE, logging.INFO),
        (grpc.StatusCode.INVALID_ARGUMENT, logging.WARNING),
        (grpc.StatusCode.FAILED_PRECONDITION, logging.WARNING),
    ],
)
async def test_what_a_replica_refuses_is_a_warning(
    code: grpc.StatusCode, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody has to change something; others come and go with each rollout."""
    caplog.set_level(logging.INFO)
    async with running() as setting:
        setting.channel.refusal = aio.AioRpcError(code, aio.Metadata(), aio.Metadata(), "no")
        while not setting.link.statistics().last_error.endswith(": no"):
            await asyncio.sleep(0)
    assert [record.levelno for record in caplog.records if "stream ended" in record.getMessage()] == [level]


async def test_a_replica_that_has_acknowledged_everything_may_be_silent() -> None:
    """Also where it did so before the last write had returned, or answers calls meanwhile."""
    async with running() as setting:
        setting.channel.most = 2
        stream = await setting.opened.get()
        await stream.full.wait()
        stream.acknowledge(0)
        while not setting.link.in_step:
            await asyncio.sleep(0)
        stream.proceed()
        for _ in range(9):
            await asyncio.sleep(0)
        setting.link.on_answer()
        setting.now += 100.0
        assert (setting.link.in_step, setting.link.silent_for) == (True, 0.0)


async def test_an_acknowledgement_of_the_configuration_before_does_not_count() -> None:
    async with running() as setting:
        setting.channel.most = 3
        stream = await setting.in_step()
        setting.link.publish(_delta(1), 1)
        await stream.full.wait()
        setting.link.restart()
        stream.acknowledge(1)
        for _ in range(9):
            await asyncio.sleep(0)
            assert not setting.link.in_step
        stream.proceed()
        await setting.in_step()


async def test_nothing_that_waits_is_written_to_a_stream_that_ends() -> None:
    async with running() as setting:
        setting.channel.most = 3
        stream = await setting.in_step()
        for generation in (1, 2, 3):
            setting.link.publish(_delta(generation), generation)
        await stream.full.wait()
        setting.source.chunks = [_delta(3)]
        setting.link.restart()
        stream.proceed()
        (await setting.opened.get()).acknowledge(3)
        while not setting.link.in_step:
            await asyncio.sleep(0)
        assert len(stream.written) == 3


async def test_a_replica_is_not_in_step_by_what_the_last_stream_began_with() -> None:
    async with running() as setting:
        stream = await setting.in_step()
        setting.source.chunks = [_delta(3), _delta(4)]
        setting.channel.most = 2
        stream.end()
        again = await setting.opened.get()
        await again.full.wait()
        again.acknowledge(3)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not setting.link.in_step
        again.proceed()
        while len(again.written) < 3:
            await asyncio.sleep(0)
        again.acknowledge(4)
        while not setting.link.in_step:
            await asyncio.sleep(0)


async def test_only_changes_count_as_sent_and_full_syncs_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration may change any number of times on one stream."""
    monkeypatch.setattr(replica_link, "MAX_BACKLOG_BYTES", 30)
    async with running() as setting:
        stream = await setting.in_step()
        setting.source.chunks = [_delta(1)]
        setting.link.publish(_delta(1), 1)
        setting.link.takes_decisions = True
        for number in range(9):
            setting.link.restart()
            while len(stream.written) < 5 + 2 * number:
                await asyncio.sleep(0)
            while setting.link.statistics().backlog_bytes:
                await asyncio.sleep(0)
        assert setting.opened.empty()
        assert setting.link.statistics().sent_bytes == len(_delta(1))
