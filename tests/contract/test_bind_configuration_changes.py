"""A configuration that changes while bind replicas are being called: they get it, and calls go on."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from trireme.frontend.phase_clients import bind_phase_client
from trireme.rpc import dialing, fencing, grpc_server, listen_flags
from trireme.scheduling import ports
from trireme.v1 import bind_pb2, bind_phase_pb2, bind_phase_pb2_grpc, cycle_pb2

Context = aio.ServicerContext[Any, Any]

DEADLINE = 20.0
"""Seconds that a test waits for what happens at once on an idle machine."""


class Bind(bind_phase_pb2_grpc.BindPhaseServicer):
    """Has the configuration that Fence brings, and answers Fence when the test says."""

    def __init__(self) -> None:
        self.config_hash = 0
        self.fences: asyncio.Queue[int] = asyncio.Queue()
        self.answering = asyncio.Event()
        self.answering.set()
        #: Of Permit and PostBind.
        self.calls: list[int] = []
        self.refusal: tuple[grpc.StatusCode, str] | None = None

    async def Fence(self, request: bind_phase_pb2.FenceRequest, context: Context) -> bind_phase_pb2.FenceResponse:
        self.config_hash = request.config_hash
        self.fences.put_nowait(request.config_hash)
        await self.answering.wait()
        return bind_phase_pb2.FenceResponse(epoch=request.fence.epoch)

    async def Permit(self, request: bind_pb2.PermitRequest, context: Context) -> bind_pb2.PermitResponse:
        await self._enter(request.cycle, context)
        return bind_pb2.PermitResponse()

    async def PostBind(self, request: bind_pb2.PostBindRequest, context: Context) -> bind_pb2.PostBindResponse:
        await self._enter(request.cycle, context)
        return bind_pb2.PostBindResponse()

    async def _enter(self, cycle: cycle_pb2.Cycle, context: Context) -> None:
        self.calls.append(cycle.config_hash)
        if self.refusal is not None:
            await context.abort(*self.refusal)
        if cycle.config_hash != self.config_hash:
            reason = fencing.RefusalReason.CONFIG_MISMATCH
            await grpc_server.refuse(context, fencing.Refusal(reason, "call Fence with it"))


class Setting:
    """A frontend, its configuration, and one bind replica."""

    def __init__(self) -> None:
        self.bind = Bind()
        self.config_hash = 1
        #: What Fence brings; None: the configuration in force.
        self.announced_hash: int | None = None
        self.replicas = bind_phase_client.BindPhaseClient(
            cycle_pb2.Fence, self._fence_request, dialing.Dialer(), 10.0, lambda: None, lambda: self.config_hash
        )

    def _fence_request(self) -> bind_phase_pb2.FenceRequest:
        config_hash = self.config_hash if self.announced_hash is None else self.announced_hash
        return bind_phase_pb2.FenceRequest(config_hash=config_hash)

    async def permit(self) -> None:
        await self.replicas.permit(bind_pb2.PermitRequest())

    async def post_bind(self) -> None:
        await self.replicas.post_bind(bind_pb2.PostBindRequest())


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[Setting]:
    """A frontend with a bind replica behind a real gRPC server."""
    made = Setting()
    address = f"unix:{tmp_path}/bind.sock"
    service = grpc_server.Service(
        bind_phase_pb2.DESCRIPTOR.services_by_name["BindPhase"],
        lambda server: bind_phase_pb2_grpc.add_BindPhaseServicer_to_server(made.bind, server),
    )
    server = grpc_server.ReplicaServer(listen_flags.make_listener(address), [service])
    await server.start()
    try:
        made.replicas.set_endpoints([address])
        yield made
    finally:
        await made.replicas.close()
        await server.stop(0)


async def test_an_answer_to_the_former_configuration_does_not_count(setting: Setting) -> None:
    setting.bind.answering.clear()
    assert await setting.bind.fences.get() == 1
    setting.config_hash = 2
    setting.replicas.announce_again()
    announced = asyncio.create_task(setting.replicas.wait_until_announced(DEADLINE))
    setting.bind.answering.set()
    assert await setting.bind.fences.get() == 2
    await announced
    await setting.permit()
    await setting.post_bind()
    assert setting.bind.calls == [2, 2]


@pytest.mark.parametrize("call", [Setting.permit, Setting.post_bind])
async def test_a_replica_that_lacks_the_configuration_gets_it_and_is_called_again(setting: Setting, call: Any) -> None:
    """However it came to lack it: these calls have no other way out."""
    await setting.replicas.wait_until_announced(DEADLINE)
    setting.bind.config_hash = 7
    await call(setting)
    assert setting.bind.calls == [1, 1]
    assert [setting.bind.fences.get_nowait() for _ in range(2)] == [1, 1]


async def test_a_replica_that_never_takes_the_configuration_is_not_called_for_ever(setting: Setting) -> None:
    """The pod fails and is tried again later; the next call begins with another Fence."""
    await setting.replicas.wait_until_announced(DEADLINE)
    setting.announced_hash, setting.config_hash = 1, 2
    with pytest.raises(ports.PhaseFault, match="call Fence with it"):
        await setting.permit()
    assert len(setting.bind.calls) == bind_phase_client.UNARY_TRIES


async def test_a_refusal_for_another_reason_is_not_repeated(setting: Setting) -> None:
    """FAILED_PRECONDITION says a stale epoch as well, for example."""
    await setting.replicas.wait_until_announced(DEADLINE)
    setting.bind.refusal = (grpc.StatusCode.FAILED_PRECONDITION, "no reason given")
    with pytest.raises(ports.PhaseFault, match="no reason given"):
        await setting.permit()
    assert len(setting.bind.calls) == 1
