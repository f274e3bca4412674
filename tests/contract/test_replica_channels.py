"""Channels to endpoints that come and go, over real connections: calls under way go on, and no caller is cancelled."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest
from grpc import aio

from trireme.frontend.phase_clients import bind_phase_client
from trireme.rpc import channels, dialing
from trireme.v1 import bind_pb2, bind_phase_pb2, bind_phase_pb2_grpc, cycle_pb2


class _Server:
    """Answers b"x" to `/s/Unary`, and b"a", b"b" to `/s/Stream`, each as soon as `let_go` is set."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()
        self.under_way = 0

    async def _unary(self, request: bytes, _: Any) -> bytes:
        self.under_way += 1
        await self.let_go.wait()
        return b"x"

    async def _stream(self, request: bytes, _: Any) -> AsyncIterator[bytes]:
        self.under_way += 1
        yield b"a"
        await self.let_go.wait()
        yield b"b"

    @contextlib.asynccontextmanager
    async def channel(self) -> AsyncIterator[channels.DrainingChannel]:
        server = aio.server()
        handlers = {
            "Unary": grpc.unary_unary_rpc_method_handler(self._unary),
            "Stream": grpc.unary_stream_rpc_method_handler(self._stream),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("s", handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        channel = dialing.Dialer().channel(f"127.0.0.1:{port}", (), 0)
        try:
            yield channel
        finally:
            await channel.close()
            await server.stop(0)

    async def busy(self, calls: int) -> None:
        async with asyncio.timeout(20):
            while self.under_way < calls:
                await asyncio.sleep(0.005)


async def _unary(channel: channels.DrainingChannel, timeout: float | None = 30.0) -> bytes:
    answer: bytes = await channel.unary_unary("/s/Unary")(b"", timeout=timeout)
    return answer


async def _iterated(channel: channels.DrainingChannel, timeout: float | None = 30.0) -> bytes:
    return b"".join([part async for part in channel.unary_stream("/s/Stream")(b"", timeout=timeout)])


async def _read(channel: channels.DrainingChannel, timeout: float | None = 30.0) -> bytes:
    call = channel.unary_stream("/s/Stream")(b"", timeout=timeout)
    parts = []
    while (part := await call.read()) is not aio.EOF:
        parts.append(part)
    return b"".join(parts)


CALLS = pytest.mark.parametrize(
    ("call", "answer"), [(_unary, b"x"), (_iterated, b"ab"), (_read, b"ab")], ids=["unary", "iterated", "read"]
)


@CALLS
async def test_a_call_under_way_fails_as_unavailable_when_its_channel_closes(
    call: Callable[..., Any], answer: bytes
) -> None:
    """grpc.aio raises CancelledError in the caller, which then ends in silence, and the scheduler with it."""
    server = _Server()
    async with server.channel() as channel:
        calling = asyncio.create_task(call(channel))
        await server.busy(1)
        await channel.close()
        with pytest.raises(aio.AioRpcError) as raised:
            await calling
    assert raised.value.code() is grpc.StatusCode.UNAVAILABLE


@CALLS
async def test_the_callers_own_cancellation_stays_one(call: Callable[..., Any], answer: bytes) -> None:
    server = _Server()
    async with server.channel() as channel:
        calling = asyncio.create_task(call(channel))
        await server.busy(1)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling


@CALLS
async def test_a_channel_drains(call: Callable[..., Any], answer: bytes) -> None:
    """A call that a replica is about to answer is not asked again elsewhere only because the replica is leaving."""
    server = _Server()
    async with server.channel() as channel:
        calling = asyncio.create_task(call(channel))
        await server.busy(1)
        draining = asyncio.create_task(channel.drain())
        await asyncio.sleep(0)
        with pytest.raises(aio.AioRpcError) as raised:
            await call(channel)
        assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
        assert not draining.done()
        server.let_go.set()
        await asyncio.wait_for(draining, 20)
        assert await calling == answer


async def test_a_channel_does_not_drain_beyond_the_deadlines_of_its_calls() -> None:
    """A replica that hangs must not hold its channel forever; and a stream without a deadline not at all."""
    server = _Server()
    async with server.channel() as channel:
        endless = asyncio.create_task(_read(channel, None))
        limited = asyncio.create_task(_unary(channel, 1.0))
        await server.busy(2)
        await asyncio.wait_for(channel.drain(), 20)
        with pytest.raises(aio.AioRpcError) as raised:
            await limited
        assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert not endless.done()
        endless.cancel()


class _Bind(bind_phase_pb2_grpc.BindPhaseServicer):
    """Binds each item when it is let go."""

    def __init__(self, let_go: asyncio.Event) -> None:
        self.items = 0
        self._let_go = let_go

    async def Permit(self, request: bind_pb2.PermitRequest, context: Any) -> bind_pb2.PermitResponse:
        self.items += len(request.items)
        await self._let_go.wait()
        return bind_pb2.PermitResponse(results=[bind_pb2.PermitResult() for _ in request.items])

    async def Fence(self, request: Any, context: Any) -> bind_phase_pb2.FenceResponse:
        return bind_phase_pb2.FenceResponse(epoch=1)

    async def Bind(  # a generator, as grpc.aio wants it
        self, request: bind_pb2.BindRequest, context: Any
    ) -> AsyncIterator[bind_pb2.BindResponse]:
        self.items += len(request.items)
        await self._let_go.wait()
        results = [bind_pb2.BindResult(index=index) for index in range(len(request.items))]
        yield bind_pb2.BindResponse(results=results)


@contextlib.asynccontextmanager
async def _binders(
    *servicers: _Bind,
) -> AsyncIterator[tuple[bind_phase_client.BindPhaseClient, list[str], list[aio.Server]]]:
    """The frontend's side of these bind replicas; the first is an endpoint; their addresses and servers."""
    async with contextlib.AsyncExitStack() as stack:
        addresses, servers = [], []
        for servicer in servicers:
            server = aio.server()
            bind_phase_pb2_grpc.add_BindPhaseServicer_to_server(servicer, server)
            addresses.append(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
            await server.start()
            servers.append(server)
            stack.push_async_callback(server.stop, 0)
        binders = bind_phase_client.BindPhaseClient(
            cycle_pb2.Fence, bind_phase_pb2.FenceRequest, dialing.Dialer(), 60.0, lambda: None
        )
        stack.push_async_callback(binders.close)
        binders.set_endpoints(addresses[:1])
        await asyncio.wait_for(binders.wait_until_announced(0.1), 20)
        yield binders, addresses, servers


async def _busy(servicer: _Bind) -> None:
    async with asyncio.timeout(20):
        while not servicer.items:
            await asyncio.sleep(0.005)


async def test_a_bind_batch_survives_that_its_endpoint_is_removed() -> None:
    """As a rolling update does: the pods of the batch would stay assumed forever, and nobody would hear of it."""
    let_go = asyncio.Event()
    leaving, staying = _Bind(let_go), _Bind(let_go)
    request = bind_pb2.BindRequest(items=[bind_pb2.BindItem(node_name="n"), bind_pb2.BindItem(node_name="m")])
    async with _binders(leaving, staying) as (binders, addresses, _):

        async def bind() -> list[int]:
            return [result.index async for result in binders.bind(request)]

        binding = asyncio.create_task(bind())
        await _busy(leaving)
        binders.set_endpoints(addresses[1:])
        assert binders.answering() == []
        let_go.set()
        assert await asyncio.wait_for(binding, 20) == [0, 1]
        assert (leaving.items, staying.items) == (2, 0)


async def test_permit_is_called_elsewhere_when_a_replica_goes() -> None:
    """A rollout of bind fails no pod."""
    never, at_once = asyncio.Event(), asyncio.Event()
    at_once.set()
    leaving, staying = _Bind(never), _Bind(at_once)
    request = bind_pb2.PermitRequest(items=[bind_pb2.BindItem(node_name="n")])
    async with _binders(leaving, staying) as (binders, addresses, servers):
        asking = asyncio.create_task(binders.permit(request))
        await _busy(leaving)
        binders.set_endpoints(addresses[1:])
        await servers[0].stop(0)
        response = await asyncio.wait_for(asking, 20)
    assert len(response.results) == 1
    assert (leaving.items, staying.items) == (1, 1)


def _refuse(answer: bytes) -> None:
    raise ValueError(f"{answer!r} is no message")


async def _undecodable_unary(channel: channels.DrainingChannel) -> None:
    await channel.unary_unary("/s/Unary", response_deserializer=_refuse)(b"", timeout=30.0)


async def _undecodable_stream(channel: channels.DrainingChannel) -> None:
    call = channel.unary_stream("/s/Stream", response_deserializer=_refuse)(b"", timeout=30.0)
    await call.read()


@pytest.mark.parametrize("call", [_undecodable_unary, _undecodable_stream], ids=["unary", "stream"])
async def test_an_answer_that_cannot_be_decoded_is_a_failed_call(call: Callable[..., Any]) -> None:
    """grpc.aio returns None for it, and the caller's next line raises AttributeError, which ends the scheduler."""
    server = _Server()
    async with server.channel() as channel:
        server.let_go.set()
        with pytest.raises(aio.AioRpcError) as raised:
            await call(channel)
        assert raised.value.code() is grpc.StatusCode.INTERNAL
        assert "is no message" in str(raised.value.details())
        async with asyncio.timeout(20):
            while channel.in_flight:
                await asyncio.sleep(0.005)


async def test_a_bind_replica_that_answers_fence_with_nonsense_is_not_used() -> None:
    """If this fails, one such replica ends the frontend."""
    asked = asyncio.Event()

    async def fence(request: bytes, _: Any) -> bytes:
        asked.set()
        return b"\xff\xff\xff"

    server = aio.server()
    handlers = {"Fence": grpc.unary_unary_rpc_method_handler(fence)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("trireme.v1.BindPhase", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    replicas = bind_phase_client.BindPhaseClient(
        cycle_pb2.Fence, bind_phase_pb2.FenceRequest, dialing.Dialer(), 60.0, lambda: None
    )
    replicas.set_endpoints([f"127.0.0.1:{port}"])
    try:
        failing = asyncio.create_task(replicas.supervisor.failure())
        async with asyncio.timeout(20):
            while not any("decoded" in str(each) for each in replicas.statistics()):
                assert not failing.done(), failing
                await asyncio.sleep(0.005)
        assert asked.is_set()
        assert not replicas.available
        failing.cancel()
    finally:
        await replicas.close()
        await server.stop(0)


async def test_a_stub_is_made_once_for_each_channel() -> None:
    made = list[object]()

    def make(channel: object) -> str:
        made.append(channel)
        return f"stub {len(made)}"

    def make_other(channel: object) -> str:
        return "other stub"

    first, second = (dialing.Dialer().channel("127.0.0.1:1", (), 0) for _ in range(2))
    assert [first.stub(make), first.stub(make_other), first.stub(make)] == ["stub 1", "other stub", "stub 1"]
    assert [second.stub(make), second.stub(make)] == ["stub 2", "stub 2"]
    assert made == [first, second]
    for channel in (first, second):
        await channel.close()
