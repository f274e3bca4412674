"""A gRPC service and its callers, for the suites that compare simulated gRPC with grpc.aio."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
from grpc import aio

Code = grpc.StatusCode
Run = Callable[[Callable[[], Any]], Any]


class Service:
    """Handlers that do what the request says, and remember what became of them."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.ends: list[str] = []
        self.metadata: Any = ()
        self.remaining: Any = None

    async def unary(self, request: bytes, context: Any) -> bytes:
        self.began.set()
        self.metadata, self.remaining = context.invocation_metadata(), context.time_remaining()
        try:
            return await self._unary(request, context)
        except asyncio.CancelledError:
            self.ends.append("cancelled")
            raise

    async def _unary(self, request: bytes, context: Any) -> bytes:
        match request:
            case b"abort":
                await context.abort(Code.FAILED_PRECONDITION, "not now", (("reason", "tired"),))
            case b"raise":
                raise ValueError("oh")
            case b"hang":
                await asyncio.sleep(600)
            case b"code":
                context.set_code(Code.NOT_FOUND)
                context.set_details("nothing")
            case b"trailing":
                context.set_trailing_metadata((("a", "b"),))
            case b"large":
                return b"x" * (5 << 20)
        return b"<" + request + b">"

    async def generate(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        self.began.set()
        try:
            for number in range(3):
                yield b"%d" % number
            if request == b"hang":
                await asyncio.sleep(600)
            if request == b"abort":
                await context.abort(Code.ABORTED, "enough")
        except asyncio.CancelledError:
            self.ends.append("cancelled")
            raise

    async def converse(self, requests: AsyncIterator[bytes], context: Any) -> None:
        """Writes to the context itself."""
        self.began.set()
        try:
            async for request in requests:
                if request == b"abort":
                    await context.abort(Code.ABORTED, "enough")
                if request == b"deaf":
                    await asyncio.sleep(600)
                await context.write(b"<" + request + b">")
        except asyncio.CancelledError:
            self.ends.append("cancelled")
            raise
        self.ends.append("eof")

    async def collect(self, requests: AsyncIterator[bytes], context: Any) -> bytes:
        return b"".join([request async for request in requests])


@contextlib.asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[tuple[Any, Service, aio.Server, int]]:
    """Serve on a port of its own; yields a channel to it, the service, the server and the port."""
    service = Service()
    server = aio.server(**options)
    handlers = {
        "Unary": grpc.unary_unary_rpc_method_handler(service.unary),
        "Generate": grpc.unary_stream_rpc_method_handler(service.generate),
        "Converse": grpc.stream_stream_rpc_method_handler(service.converse),
        "Collect": grpc.stream_unary_rpc_method_handler(service.collect),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("s", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    channel = aio.insecure_channel(f"127.0.0.1:{port}")
    try:
        yield channel, service, server, port
    finally:
        await channel.close()
        await server.stop(0)


async def outcome_of(call: Any) -> Any:
    """What a caller sees: the response, or the code (with details that a handler chose), or an exception's name."""
    try:
        return await call
    except aio.AioRpcError as error:
        return error.code()
    except asyncio.CancelledError:
        return "CancelledError"


async def ended(service: Service) -> list[str]:
    """How the service's handlers ended, once one has."""
    for _ in range(200):
        if service.ends:
            break
        await asyncio.sleep(0.01)
    return service.ends
