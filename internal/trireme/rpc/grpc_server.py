"""The gRPC server of a phase or a plugin: one way to listen, to be healthy, to say no and to stop.

It serves what it is given plus the standard health service and reflection, on the `Listener` that the flags made. The
invariants: nobody but an allowed identity reaches a service (health apart); SIGTERM first turns health to NOT_SERVING
and then lets the calls under way finish, for a limited time; a refusal reaches the caller as a code it can act on, with
the reason in the trailing metadata. `serve` is the whole life of a process, on uvloop.
"""

import asyncio
import inspect
import logging
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import grpc
import uvloop
from google.protobuf.descriptor import ServiceDescriptor
from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from trireme.rpc import fencing
from trireme.rpc.listening import Address, Listener, ListenError
from trireme_kube.componentbase import klog, supervision

log = logging.getLogger(__name__)

MAX_MESSAGE_BYTES = 16 << 20
"""A full sync goes in chunks under 4 MiB; a batch of pods with everything about them stays far below this."""

MAX_CONCURRENT_CALLS = 1024
"""Beyond it a call is answered RESOURCE_EXHAUSTED at once, and the caller asks another replica."""

MIN_PING_INTERVAL_MS = 5_000
"""Callers may ping an idle stream so often; the frontend does every 20 s. gRPC's own limit, five minutes, would end its
connection for too_many_pings, with every call on it."""

GRACE_SECONDS = 20.0
"""How long calls under way may take after SIGTERM; below the 30 s that Kubernetes waits before it kills."""

_HEALTH_PREFIX = f"/{health.SERVICE_NAME}/"

# Generic in the stubs only.
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

_CODES = {
    fencing.RefusalReason.UNVERIFIED: grpc.StatusCode.UNAVAILABLE,
}
"""All other refusals mean that the caller is not in the state it thinks it is: FAILED_PRECONDITION."""


@dataclass(frozen=True, slots=True)
class Service:
    """A service to serve: its descriptor, and what adds its implementation to a server."""

    descriptor: ServiceDescriptor
    add_to: Callable[[aio.Server], None]
    #: Ends streams that would go on for as long as their caller lives, when the process is told to end.
    end_streams: Callable[[], None] = lambda: None


Lifespan = Callable[[supervision.Supervisor], AbstractAsyncContextManager[Sequence[Service]]]
"""Makes what the services need, on the running loop, and takes it down after the server has stopped. Tasks that run as
long as the process are started by the supervisor: where one ends unexpectedly, the process ends."""


async def refuse(context: aio.ServicerContext[Any, Any], refusal: fencing.Refusal) -> NoReturn:
    """Ends the call with the gRPC status of a refusal."""
    code = _CODES.get(refusal.reason, grpc.StatusCode.FAILED_PRECONDITION)
    await context.abort(code, str(refusal), ((fencing.REASON_METADATA, refusal.reason.value),))
    raise AssertionError("abort does not return")


def caller_identities(context: aio.ServicerContext[Any, Any]) -> set[str]:
    """The names of the caller's certificate; none without TLS."""
    from trireme.rpc.tls import identities  # loaded with TLS only

    return identities(context.auth_context())


class ReplicaServer:
    """A server that is made, started, and stopped once."""

    def __init__(
        self,
        listener: Listener,
        services: Sequence[Service],
        *,
        max_message_bytes: int = MAX_MESSAGE_BYTES,
        max_concurrent_calls: int = MAX_CONCURRENT_CALLS,
    ) -> None:
        self._listener = listener
        self._services = services
        self._names = [service.descriptor.full_name for service in services]
        self._health = health.aio.HealthServicer()
        interceptors = [_IdentityInterceptor(listener.identities)] if listener.identities else []
        self._server = aio.server(
            interceptors=interceptors,
            options=_options(max_message_bytes),
            maximum_concurrent_rpcs=max_concurrent_calls,
        )
        for service in services:
            service.add_to(self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection([*self._names, health.SERVICE_NAME, reflection.SERVICE_NAME], self._server)

    async def start(self) -> Address:
        """Listens, and answers the address with the port that was chosen.

        Raises:
            ListenError: the address cannot be listened on, or a certificate cannot be used.
        """
        address = self._listener.address
        _check_free(address)
        # Whoever can open the socket is obeyed: it is for this user alone.
        before = os.umask(0o177)
        try:
            port = self._add_port(address)
        except RuntimeError as error:
            raise ListenError(f"--listen: {address.text}: {error}") from error
        finally:
            os.umask(before)
        await self._server.start()
        await self.set_serving(True)
        return address.with_port(port)

    async def set_serving(self, serving: bool) -> None:
        """What health says, of the whole and of each service."""
        state = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in ("", *self._names):
            await self._health.set(name, state)

    async def stop(self, grace: float = GRACE_SECONDS) -> None:
        """Takes no new calls, waits for those under way, and cancels what is left after `grace` seconds."""
        await self._health.enter_graceful_shutdown()
        stopped = asyncio.ensure_future(self._server.stop(grace))  # first, so that no stream begins again
        for service in self._services:
            service.end_streams()
        await stopped

    def _add_port(self, address: Address) -> int:
        if self._listener.tls is None:
            return self._server.add_insecure_port(address.text)
        # Only who uses TLS pays for loading the library.
        from trireme.rpc.tls import ReloadedCertificates

        return self._server.add_secure_port(address.text, ReloadedCertificates(self._listener.tls).credentials())


def serve(
    listener: Listener,
    lifespan: Lifespan,
    *,
    grace: float = GRACE_SECONDS,
) -> int:
    """Serves until SIGTERM or SIGINT; answers the exit code: 1 where a task ended that must not.

    The one line `listening on <address>` goes to stdout once calls are taken. A second signal ends the
    process at once, with exit code 1.

    Raises:
        ListenError: it cannot listen. And whatever `lifespan` raises.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(serve_until_stopped(listener, lifespan, grace=grace))


async def serve_until_stopped(listener: Listener, lifespan: Lifespan, *, grace: float = GRACE_SECONDS) -> int:
    """As `serve`, on the running loop."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _on_signal, stopping)
    supervisor = supervision.Supervisor()
    async with lifespan(supervisor) as services:
        server = ReplicaServer(listener, services)
        address = await server.start()
        try:
            klog.announce(f"listening on {address.text}")
            return await _until_stopped(stopping, supervisor)
        finally:
            await server.stop(grace)


async def _until_stopped(stopping: asyncio.Event, supervisor: supervision.Supervisor) -> int:
    """Answers the exit code."""
    stop, failure = asyncio.create_task(stopping.wait()), asyncio.create_task(supervisor.failure())
    await asyncio.wait({stop, failure}, return_when=asyncio.FIRST_COMPLETED)
    if not failure.done():
        failure.cancel()
        return 0
    stop.cancel()
    error = failure.exception()
    log.error("a task ended that must not; the process exits: %s", error, exc_info=error)
    return 1


def _on_signal(stopping: asyncio.Event) -> None:
    if stopping.is_set():
        os._exit(1)
    log.info("stopping: calls under way may finish")
    stopping.set()


def _options(max_message_bytes: int) -> list[tuple[str, Any]]:
    return [
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.max_send_message_length", max_message_bytes),
        # Two processes on one port would share the calls by chance.
        ("grpc.so_reuseport", 0),
        # A frontend that vanished without a word is noticed after a minute.
        ("grpc.keepalive_time_ms", 45_000),
        ("grpc.keepalive_timeout_ms", 15_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", MIN_PING_INTERVAL_MS),
    ]


def _check_free(address: Address) -> None:
    """Refuses an address that is taken; gRPC would say so in lines of its own, and take a Unix socket from its owner.

    Raises:
        ListenError: it cannot be listened on.
    """
    path = address.socket_path
    try:
        if path is None:
            host, _, port = address.text.rpartition(":")
            for family, kind, protocol, _, where in socket.getaddrinfo(
                host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            ):
                with socket.socket(family, kind, protocol) as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(where)
            return
        if not path.parent.is_dir():
            raise ListenError(f"--listen: {address.text}: {path.parent} is not a directory")
        if not path.exists():
            return
        if not path.is_socket():
            raise ListenError(f"--listen: {address.text}: there is a file that is no socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            if probe.connect_ex(str(path)) == 0:
                raise ListenError(f"--listen: {address.text}: another process listens there")
    except OSError as error:
        raise ListenError(f"--listen: {address.text}: {error.strerror or error}") from error


class _IdentityInterceptor(aio.ServerInterceptor):
    """Lets only callers with an allowed identity through. Health is for everybody who could connect."""

    def __init__(self, allowed: frozenset[str]) -> None:
        self._allowed = allowed

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        handler = await continuation(handler_call_details)
        if handler is None or handler_call_details.method.startswith(_HEALTH_PREFIX):
            return handler
        return _guarded(handler, self._check)

    async def _check(self, context: aio.ServicerContext[Any, Any]) -> None:
        names = caller_identities(context)
        if names.isdisjoint(self._allowed):
            log.warning("refused a call of %s: not among the allowed identities", ", ".join(sorted(names)) or "nobody")
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "the client's identity is not allowed to call")


def _guarded(handler: _Handler, check: Callable[[Any], Awaitable[None]]) -> _Handler:
    """The handler, with the check in front of it."""

    def unary(inner: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
        async def guarded(request: Any, context: Any) -> Any:
            await check(context)
            return await inner(request, context)

        return guarded

    def streaming(inner: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        async def guarded(request: Any, context: Any) -> Any:
            await check(context)
            answers = inner(request, context)
            if inspect.isawaitable(answers):  # a handler that writes to the context itself
                await answers
                return
            async for answer in answers:
                yield answer

        return guarded

    factories: dict[tuple[bool, bool], tuple[Any, Any, Any]] = {
        (False, False): (grpc.unary_unary_rpc_method_handler, handler.unary_unary, unary),
        (False, True): (grpc.unary_stream_rpc_method_handler, handler.unary_stream, streaming),
        (True, False): (grpc.stream_unary_rpc_method_handler, handler.stream_unary, unary),
        (True, True): (grpc.stream_stream_rpc_method_handler, handler.stream_stream, streaming),
    }
    make, inner, wrap = factories[(bool(handler.request_streaming), bool(handler.response_streaming))]
    result: _Handler = make(
        wrap(inner),
        request_deserializer=handler.request_deserializer,
        response_serializer=handler.response_serializer,
    )
    return result


def fail(message: str) -> int:
    """Says on stderr, in one line, why the process cannot start; answers its exit code."""
    klog.fail(message)
    return 1
