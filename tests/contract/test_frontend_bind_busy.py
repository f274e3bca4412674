"""A bind replica that has too much to do refuses a call: the call is repeated, all others go on."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from grpc import aio

from trireme.frontend.phase_clients import bind_phase_client
from trireme.rpc import dialing
from trireme.v1 import bind_pb2, bind_phase_pb2, bind_phase_pb2_grpc, cycle_pb2


class _Bind(bind_phase_pb2_grpc.BindPhaseServicer):
    """Refuses the first Bind calls, and counts calls."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.fences = self.binds = 0

    async def Fence(self, request: bind_phase_pb2.FenceRequest, context: Any) -> bind_phase_pb2.FenceResponse:
        self.fences += 1
        return bind_phase_pb2.FenceResponse()

    async def Bind(self, request: bind_pb2.BindRequest, context: Any) -> AsyncIterator[bind_pb2.BindResponse]:
        self.binds += 1
        if self.binds <= self.refusals:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "20000 bindings wait already")
        yield bind_pb2.BindResponse(results=[bind_pb2.BindResult(index=0)])


async def test_a_busy_replica_stays_available_to_other_callers(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal because of load costs one log line and no Fence, and other callers are still served."""
    monkeypatch.setattr(bind_phase_client, "BUSY_SECONDS", 0.01)
    bind = _Bind(refusals=3)
    server = aio.server()
    bind_phase_pb2_grpc.add_BindPhaseServicer_to_server(bind, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    changes: list[bool] = []
    replicas = bind_phase_client.BindPhaseClient(
        cycle_pb2.Fence, bind_phase_pb2.FenceRequest, dialing.Dialer(), 60.0, lambda: changes.append(replicas.available)
    )
    try:
        async with asyncio.timeout(30):
            replicas.set_endpoints([f"127.0.0.1:{port}"])
            await replicas.wait_until_announced(0)
            fences, changes[:] = bind.fences, []
            request = bind_pb2.BindRequest(items=[bind_pb2.BindItem(node_name="n")])
            assert [result.index async for result in replicas.bind(request)] == [0]
            assert (bind.binds, bind.fences, changes) == (4, fences, [])
            (link,) = replicas.statistics()
            assert (link.fenced, link.in_flight, link.last_error) == (True, 0, "")
            text = f"bind 127.0.0.1:{port}: RESOURCE_EXHAUSTED: 20000 bindings wait already; it is called again"
            assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [text]
            bind.refusals = bind.binds + 1
            async for _ in replicas.bind(request):
                pass
            # It worked in between: the second time is news.
            assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [text] * 2
    finally:
        await replicas.close()
        await server.stop(0)
