"""A bind replica is called only while it is certain to know this leader."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from grpc import aio

from tests.helpers.virtual_time import on_virtual_time
from trireme.frontend.phase_clients import bind_link
from trireme.v1 import bind_phase_pb2


class Replica:
    """Stands for the connection to a replica and its stub; each Fence takes a tenth of a second."""

    def __init__(self) -> None:
        self.channel = self
        self.fenced: list[tuple[float, int]] = []
        self.failure: grpc.StatusCode | None = None
        #: Whether a call that is cancelled fails at that moment, which is all that gRPC reports then.
        self.fails_when_cancelled = False
        self.drain_ms = 0
        self.renewed = 0
        #: Whether the next renewal opens another channel.
        self.replaces = False
        self._state = grpc.ChannelConnectivity.READY
        self._changing = asyncio.Event()

    # The connection

    def open(self, *_: object) -> "Replica":
        return self

    def renew(self) -> bool:
        self.renewed += 1
        return self.replaces

    def error_text(self, error: aio.AioRpcError) -> str:
        return error.code().name

    # Its channel

    def unary_unary(self, *_: object, **__: object) -> None:
        """Makes no call: the test gives the link a stub."""

    unary_stream = unary_unary

    def get_state(self) -> grpc.ChannelConnectivity:
        return self._state

    async def wait_for_state_change(self, _: grpc.ChannelConnectivity) -> None:
        await self._changing.wait()

    def set_state(self, state: grpc.ChannelConnectivity) -> None:
        self._state = state
        self._changing.set()
        self._changing = asyncio.Event()

    # The stub

    async def Fence(self, request: bind_phase_pb2.FenceRequest, timeout: float) -> bind_phase_pb2.FenceResponse:
        self.fenced.append((asyncio.get_running_loop().time(), request.config_hash))
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            if self.fails_when_cancelled:
                raise aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, aio.Metadata(), aio.Metadata()) from None
            raise
        if self.failure is not None:
            raise aio.AioRpcError(self.failure, aio.Metadata(), aio.Metadata())
        return bind_phase_pb2.FenceResponse(epoch=7, drain_ms=self.drain_ms)


class Setting:
    """A link that announces a leader with the configuration `config_hash`."""

    def __init__(self) -> None:
        self.replica = Replica()
        self.config_hash = 1
        self.changes: list[bool] = []
        self.older: list[tuple[str, float]] = []
        dialer: Any = self.replica
        self.link = bind_link.BindLink(
            "b:1",
            dialer,
            lambda: bind_phase_pb2.FenceRequest(config_hash=self.config_hash),
            lambda: self.changes.append(self.link.fenced),
            lambda address, seconds: self.older.append((address, seconds)),
        )
        self.link.stub = dialer

    @property
    def hashes(self) -> list[int]:
        return [config_hash for _, config_hash in self.replica.fenced]


@contextlib.asynccontextmanager
async def announcing() -> AsyncIterator[Setting]:
    """The link while it keeps the replica fenced."""
    setting = Setting()
    task = asyncio.create_task(setting.link.keep_fenced())
    try:
        yield setting
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait({task})
    assert not setting.link.fenced, "nobody leads any more"
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@on_virtual_time
async def test_a_replica_is_called_once_it_has_confirmed_the_leader() -> None:
    async with announcing() as setting:
        await asyncio.sleep(0.05)
        assert not setting.link.is_usable
        assert setting.link.statistics().last_error == "it has not confirmed yet that this frontend leads"
        setting.replica.drain_ms = 1500
        await asyncio.sleep(0.1)
        assert (setting.link.is_usable, setting.link.announced, setting.changes) == (True, True, [True])
        assert setting.older == [("b:1", 1.5)]
        assert setting.link.statistics().last_error == ""
        await asyncio.sleep(60.0)
        assert len(setting.replica.fenced) == 1, "nothing is open there"


@on_virtual_time
async def test_a_replica_that_lost_its_connection_is_not_called_before_it_has_confirmed_again() -> None:
    """It may be another process by then, which knows of no leader."""
    async with announcing() as setting:
        await asyncio.sleep(0.2)
        setting.replica.set_state(grpc.ChannelConnectivity.TRANSIENT_FAILURE)
        await asyncio.sleep(0.05)
        assert (setting.link.is_usable, setting.changes) == (False, [True, False])
        assert setting.replica.renewed == 1
        setting.replica.set_state(grpc.ChannelConnectivity.READY)
        await asyncio.sleep(0.1)
        assert (setting.link.is_usable, setting.changes) == (True, [True, False, True])
        assert len(setting.replica.fenced) == 2


@on_virtual_time
async def test_a_call_that_fails_ends_the_calls_until_the_replica_has_confirmed_again() -> None:
    async with announcing() as setting:
        await asyncio.sleep(0.2)
        setting.link.stop_calling(OSError("reset"))
        assert (setting.link.is_usable, setting.changes) == (False, [True, False])
        assert setting.link.statistics().last_error == "reset"
        await asyncio.sleep(0.2)
        assert setting.link.is_usable
        assert setting.link.statistics().last_error == ""


@on_virtual_time
async def test_a_failed_call_is_named_until_the_next_one_that_is_answered() -> None:
    """An answer from before the replica is fenced again says nothing about it."""
    async with announcing() as setting:
        await asyncio.sleep(0.2)
        setting.link.log_call_failure(OSError("late"))
        assert (setting.link.is_usable, setting.link.last_error) == (True, "late")
        setting.link.record_answer()
        assert setting.link.last_error == ""
        setting.link.stop_calling(OSError("reset"))
        setting.link.record_answer()
        assert setting.link.last_error == "reset"


@on_virtual_time
async def test_an_answer_to_an_earlier_configuration_does_not_count() -> None:
    """The replica would refuse the calls that follow, or answer them by what was in force."""
    async with announcing() as setting:
        await asyncio.sleep(0.05)
        setting.config_hash = 2
        setting.link.announce_again()
        await asyncio.sleep(0.1)
        assert not setting.link.is_usable
        await asyncio.sleep(0.1)
        assert (setting.link.is_usable, setting.hashes) == (True, [1, 2])
        assert setting.changes == [False, True]


@pytest.mark.parametrize(("in_flight", "leaving", "repeated"), [(1, False, True), (0, False, False), (1, True, False)])
@on_virtual_time
async def test_the_leader_is_announced_again_and_again_while_calls_are_open(
    in_flight: int, leaving: bool, repeated: bool
) -> None:
    """Bind may begin what waits there as long as its leader calls; one that leaves ends what it has begun."""
    async with announcing() as setting:
        await asyncio.sleep(0.2)
        setting.link.in_flight, setting.link.is_leaving = in_flight, leaving
        await asyncio.sleep(4 * bind_link.RENEW_SECONDS + 1.0)
        times = [moment for moment, _ in setting.replica.fenced]
        assert len(times) == (5 if repeated else 1)
        if repeated:
            assert times[-1] - times[-2] == pytest.approx(bind_link.RENEW_SECONDS + 0.1)
            setting.replica.failure = grpc.StatusCode.FAILED_PRECONDITION
            await asyncio.sleep(bind_link.RENEW_SECONDS)
            assert not setting.link.is_usable


@on_virtual_time
async def test_a_replica_that_does_not_take_the_epoch_is_called_ever_later() -> None:
    async with announcing() as setting:
        setting.replica.failure = grpc.StatusCode.UNAVAILABLE
        await asyncio.sleep(20.0)
        times = [moment for moment, _ in setting.replica.fenced]
        pauses = [round(after - before - 0.1, 3) for before, after in itertools.pairwise(times)]
        assert pauses[:6] == [0.1, 0.2, 0.4, 0.8, 1.6, 2.0]
        assert set(pauses[6:]) == {bind_link.MAX_RETRY_SECONDS}
        assert setting.link.statistics().last_error == "UNAVAILABLE"
        assert setting.replica.renewed == len(pauses)
        assert (setting.changes, setting.link.announced) == ([], False)
        setting.replica.failure = None
        await asyncio.sleep(4.0)
        assert setting.link.is_usable
        assert setting.link.statistics().last_error == ""


@pytest.mark.parametrize("confirmed", [False, True])
@on_virtual_time
async def test_a_call_that_fails_while_the_leader_ends_does_not_keep_it(confirmed: bool) -> None:
    setting = Setting()
    setting.replica.fails_when_cancelled = True
    task = asyncio.create_task(setting.link.keep_fenced())
    await asyncio.sleep(0.05)
    if confirmed:
        setting.link.in_flight = 1
        await asyncio.sleep(0.1 + bind_link.RENEW_SECONDS)
    assert len(setting.replica.fenced) == (2 if confirmed else 1)
    task.cancel()
    await asyncio.wait({task}, timeout=5.0)
    assert task.cancelled()


@pytest.mark.parametrize("replaces", [False, True])
async def test_calls_go_over_another_channel_once_there_is_one(replaces: bool) -> None:
    setting = Setting()
    before = setting.link.stub
    setting.replica.replaces = replaces
    setting.link.renew()
    assert (setting.link.stub is not before) is replaces


@on_virtual_time
async def test_a_failure_is_logged_again_once_the_leader_was_confirmed_meanwhile(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with announcing() as setting:
        for _ in range(2):
            setting.replica.failure = grpc.StatusCode.UNAVAILABLE
            setting.link.announce_again()
            await asyncio.sleep(60.0)
            setting.replica.failure = None
            await asyncio.sleep(60.0)
            assert setting.link.fenced
    texts = [record.getMessage() for record in caplog.records if "does not take the epoch" in record.getMessage()]
    assert len(texts) == 2


def test_the_same_failure_of_calls_is_logged_again_after_one_that_is_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    setting = Setting()
    setting.link.fenced = True
    for answered in (False, True, False):
        setting.link.log_call_failure(OSError("reset"))
        if answered:
            setting.link.record_answer()
    assert [record.getMessage() for record in caplog.records] == ["bind b:1: reset; it is called again"] * 2
