"""A new leader announces itself to every bind replica, however late it learns of it, before it places anything."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from grpc import aio

from tests.helpers import polling
from trireme.frontend.phase_clients import bind_phase_client
from trireme.frontend.phase_clients.endpoints import Discovery
from trireme.rpc import dialing, grpc_server, listen_flags
from trireme.v1 import bind_pb2, bind_phase_pb2, bind_phase_pb2_grpc, cycle_pb2

Context = aio.ServicerContext[Any, Any]

DEADLINE = 20.0
"""Seconds that a test waits for what happens at once on an idle machine."""


class Bind(bind_phase_pb2_grpc.BindPhaseServicer):
    """Answers Fence when the test says, and that older work may take effect for `drain_ms`."""

    def __init__(self) -> None:
        self.drain_ms = 0
        self.fences = 0
        self.permits = 0
        self.answering = asyncio.Event()
        self.answering.set()

    async def Fence(self, request: bind_phase_pb2.FenceRequest, context: Context) -> bind_phase_pb2.FenceResponse:
        self.fences += 1
        await self.answering.wait()
        return bind_phase_pb2.FenceResponse(epoch=request.fence.epoch, drain_ms=self.drain_ms)

    async def Permit(self, request: bind_pb2.PermitRequest, context: Context) -> bind_pb2.PermitResponse:
        self.permits += 1
        return bind_pb2.PermitResponse()


class Setting:
    """A frontend that has just been elected, and two bind replicas that it does not know yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.binds = (Bind(), Bind())
        self.first, self.second = (f"unix:{folder}/{number}.sock" for number in range(2))
        self.client = bind_phase_client.BindPhaseClient(
            cycle_pb2.Fence, bind_phase_pb2.FenceRequest, dialing.Dialer(), 10.0, lambda: None
        )

    def announce(self, patience: float = DEADLINE) -> asyncio.Task[float]:
        return asyncio.create_task(self.client.wait_until_announced(patience))


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[Setting]:
    """Two bind replicas behind real gRPC servers."""
    made = Setting(tmp_path)
    async with contextlib.AsyncExitStack() as stack:
        for bind, address in zip(made.binds, (made.first, made.second), strict=True):
            service = grpc_server.Service(
                bind_phase_pb2.DESCRIPTOR.services_by_name["BindPhase"],
                lambda server, bind=bind: bind_phase_pb2_grpc.add_BindPhaseServicer_to_server(bind, server),
            )
            server = grpc_server.ReplicaServer(listen_flags.make_listener(address), [service])
            await server.start()
            stack.push_async_callback(server.stop, 0)
        stack.push_async_callback(made.client.close)
        yield made


async def test_replicas_that_are_found_late_are_waited_for(setting: Setting) -> None:
    setting.binds[1].drain_ms = 5000
    setting.client.observe(Discovery(complete=False))
    setting.client.set_endpoints([setting.first])
    announced = setting.announce()
    await polling.until(lambda: setting.client.available)
    await asyncio.sleep(0.05)
    assert not announced.done()
    setting.client.observe(Discovery(complete=True))
    setting.client.set_endpoints([setting.first, setting.second])
    assert 3 < await announced <= 5


async def test_addresses_that_cannot_be_read_are_waited_for_as_long_as_the_predecessors_lease(setting: Setting) -> None:
    """A DNS server that is gone must not keep a cluster without a scheduler."""
    setting.client.observe(Discovery(complete=False))
    setting.client.set_endpoints([setting.first])
    assert await asyncio.wait_for(setting.announce(0.1), DEADLINE) == 0


async def test_a_replica_that_terminates_is_waited_for_but_not_called(setting: Setting) -> None:
    """It takes no new calls, but what it posts for the predecessor counts."""
    setting.binds[1].drain_ms = 5000
    setting.binds[1].answering.clear()
    setting.client.observe(Discovery(True, (setting.second,)))
    setting.client.set_endpoints([setting.first])
    announced = setting.announce()
    await polling.until(lambda: setting.client.available and setting.binds[1].fences)
    assert not announced.done()
    setting.binds[1].answering.set()
    assert 3 < await announced <= 5
    for _ in range(4):
        await setting.client.permit(bind_pb2.PermitRequest())
    assert (setting.binds[0].permits, setting.binds[1].permits) == (4, 0)
    assert [each.address for each in setting.client.statistics()] == [setting.first]


async def test_a_replica_that_is_not_called_has_a_reason(setting: Setting) -> None:
    """If this fails, /readyz says that no replica of bind is available, and not why."""
    for bind in setting.binds:
        bind.answering.clear()
    setting.client.observe(Discovery(True, (setting.second,)))
    setting.client.set_endpoints([setting.first])

    def reasons() -> dict[str, str]:
        return {each.address: each.last_error for each in setting.client.statistics()}

    not_ready = "it is not ready, or is terminating"
    waits = "it has not confirmed yet that this frontend leads"
    assert reasons() == {setting.first: waits, setting.second: not_ready}
    setting.binds[0].answering.set()
    await polling.until(lambda: setting.client.available)
    assert reasons() == {setting.first: "", setting.second: not_ready}


async def test_a_replica_that_begins_to_terminate_is_still_waited_for(setting: Setting) -> None:
    """An endpoint that leaves the list before it has answered may have work of the predecessor all the same."""
    setting.binds[1].answering.clear()
    setting.client.set_endpoints([setting.first, setting.second])
    announced = setting.announce()
    await polling.until(lambda: setting.client.available and setting.binds[1].fences)
    setting.client.observe(Discovery(True, (setting.second,)))
    setting.client.set_endpoints([setting.first])
    await asyncio.sleep(0.05)
    assert not announced.done()
    setting.client.observe(Discovery(complete=True))  # its process has ended
    assert await asyncio.wait_for(announced, DEADLINE) == 0


async def test_older_work_of_a_replica_that_is_gone_meanwhile_counts(setting: Setting) -> None:
    """The API server may execute the last request of a process that has ended."""
    setting.binds[0].answering.clear()
    setting.binds[1].drain_ms = 5000
    setting.client.set_endpoints([setting.first, setting.second])
    announced = setting.announce()
    await polling.until(lambda: setting.client.available)
    setting.client.set_endpoints([setting.first])
    setting.binds[0].answering.set()
    assert 3 < await announced <= 5


async def test_a_replica_that_restarts_is_not_waited_for_again(setting: Setting) -> None:
    """A new configuration does not bring work of the predecessor back."""
    setting.client.set_endpoints([setting.first, setting.second])
    await polling.until(lambda: len(setting.client.answering()) == 2)
    setting.binds[1].answering.clear()
    setting.client.announce_again()
    assert await asyncio.wait_for(setting.announce(), DEADLINE) == 0
