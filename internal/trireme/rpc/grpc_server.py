"""The gRPC server of phases and plugins: listening, health, refusals and graceful shutdown.

It serves the given services, the standard health service and reflection on the `Listener` from the flags. Invariants:
only allowed identities reach a service (except the check of health); SIGTERM first sets health to NOT_SERVING and then
lets calls in flight finish, for a limited time; a refusal reaches the caller as a code it can act on, with the reason
in the trailing metadata. `serve` runs a process from start to end, on uvloop.

Also change: internal/trireme/frontend/phase_clients/replica_link.py, internal/trireme/remote/remote_endpoint.py,
internal/trireme/rpc/message_sizes.py, internal/trireme/sdk/plugin_server.py (gRPC options of both sides).
Also change: internal/trireme/framework/programs.py (the line by which a process says that it serves).

Tests: tests/contract/test_replica_grpc_server.py, tests/security/test_grpc_attacks.py.
"""

import asyncio
import inspect
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, TypeAlias

import grpc
import uvloop
from google.protobuf.descriptor import ServiceDescriptor
from grpc import aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from trireme.framework import programs
from trireme.rpc import fencing, message_sizes
from trireme.rpc.listen_flags import Address, Listener, ListenError
from trireme.tracing import server_spans, spans
from trireme_kube.componentbase import supervision
from trireme_kube.componentbase.logs import klog

log = logging.getLogger(__name__)

HANDSHAKE_SECONDS = 10.0
"""A connection that has not finished its handshake by then is closed: it holds a file descriptor for nobody."""

MAX_CONCURRENT_CALLS = 1024
"""Further calls fail with RESOURCE_EXHAUSTED at once, and the caller tries another replica."""

MAX_UNREAD_CALLS = 16_384
"""Calls that have come and that this process has yet to look at, some 7 KB each. gRPC resets those beyond, which their
callers see as CANCELLED without a word. Its own bound is 3,000, and from 1,000 on it resets some at random."""

MAX_UNREAD_SECONDS = 3600
"""How long they may wait for that, whatever their deadlines; gRPC's own bound, after which it resets them, is 30 s."""

MIN_PING_INTERVAL_MS = 5_000
"""Callers may ping an idle stream so often; the frontend does every 20 s. gRPC's own limit, five minutes, would end its
connection for too_many_pings, with every call on it."""

GRACE_SECONDS = 20.0
"""How long calls in flight may take after SIGTERM; below the 30 s that Kubernetes waits before SIGKILL."""

_HEALTH_CHECK = f"/{health.SERVICE_NAME}/Check"

# Generic in the stubs only.
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

_CODES = {
    fencing.RefusalReason.UNVERIFIED: grpc.StatusCode.UNAVAILABLE,
}
"""All other refusals mean that the caller's state is out of date: FAILED_PRECONDITION."""


@dataclass(frozen=True, slots=True)
class Service:
    """A service: its descriptor, and the function that adds its implementation to a server."""

    descriptor: ServiceDescriptor
    add_to: Callable[[aio.Server], None]
    #: Ends the service's endless streams when the process stops.
    end_streams: Callable[[], None] = lambda: None


Lifespan = Callable[[supervision.Supervisor], AbstractAsyncContextManager[Sequence[Service]]]
"""Makes what the services need, on the running loop, and takes it down after the server has stopped. Tasks that run as
long as the process are started by the supervisor: where one ends unexpectedly, the process ends."""


Metadata: TypeAlias = tuple[tuple[str, str], ...]


class Abortable(Protocol):
    """A call that can be ended with a status: gRPC's context, or what wraps it.

    Implementers: trireme.rpc.follower._StreamWriter, trireme.rpc.in_process._Call, trireme.rpc.in_process._StreamCall,
    tests.simulation.simulated_grpc_server.ServerCall.
    """

    async def abort(self, code: grpc.StatusCode, details: str, trailing_metadata: Metadata) -> Any:
        """End the call. Raises: AbortError, always."""
        ...


async def abort(
    context: Abortable | aio.ServicerContext[Any, Any],
    code: grpc.StatusCode,
    details: str,
    trailing_metadata: Metadata = (),
) -> NoReturn:
    """End the call with a status, as gRPC's own `abort`, whose types do not say that it never returns."""
    await context.abort(code, details, trailing_metadata)
    raise AssertionError("abort does not return")


async def refuse(context: Abortable | aio.ServicerContext[Any, Any], refusal: fencing.Refusal) -> NoReturn:
    """Abort the call with the gRPC status of a refusal."""
    code = _CODES.get(refusal.reason, grpc.StatusCode.FAILED_PRECONDITION)
    await abort(context, code, str(refusal), ((fencing.REASON_METADATA, refusal.reason.value),))


class Caller(Protocol):
    """A context's data about its caller.

    Implementers: tests.simulation.simulated_grpc_server.ServerCall, tests.helpers.phase_calls._Context,
    tools.bench.decision_times._Context, tools.bench.explanation_times._Context.
    """

    def peer(self) -> str:
        """The other end of the connection."""
        ...

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """What gRPC has authenticated."""
        ...


def caller_identities(context: Caller | aio.ServicerContext[Any, Any]) -> set[str]:
    """The names in the caller's certificate; empty without TLS."""
    from trireme.rpc.tls import identities  # loaded with TLS only

    return identities(context.auth_context())


def caller_of(context: Caller | aio.ServicerContext[Any, Any]) -> str:
    """The caller as bounds for each caller count it: by the names of its certificate; without one, its connection.

    A caller with a certificate may have any number of connections, and counts once.
    """
    names = caller_identities(context) if context.auth_context() else ()
    return f"certificate:{','.join(sorted(names))}" if names else str(context.peer())


class ReplicaServer:
    """A gRPC server of services with health and reflection; it is made, started, and stopped once."""

    def __init__(
        self,
        listener: Listener,
        services: Sequence[Service],
    ) -> None:
        self._listener = listener
        self._services = services
        self._names = [service.descriptor.full_name for service in services]
        self._health = health.aio.HealthServicer()
        interceptors: list[aio.ServerInterceptor] = []
        if listener.identities:
            interceptors.append(_IdentityInterceptor(listener.identities))
        if spans.recorder is not None:
            interceptors.append(server_spans.TracingInterceptor())
        self._server = aio.server(
            interceptors=interceptors,
            options=_server_options(),
            maximum_concurrent_rpcs=MAX_CONCURRENT_CALLS,
        )
        for service in services:
            service.add_to(self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection([*self._names, health.SERVICE_NAME, reflection.SERVICE_NAME], self._server)

    async def start(self) -> Address:
        """Listen, and return the address with the chosen port.

        Raises:
            ListenError: the address cannot be listened on, or a certificate cannot be used.
        """
        address = self._listener.address
        _check_address_is_free(address)
        # Anybody who can open the socket may call: restrict it to this user.
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
        """Set the health of the server and of each service."""
        state = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in ("", *self._names):
            await self._health.set(name, state)

    async def stop(self, grace: float = GRACE_SECONDS) -> None:
        """Refuse new calls, wait for those in flight, and cancel the rest after `grace` seconds."""
        await self._health.enter_graceful_shutdown()
        stopped = asyncio.ensure_future(self._server.stop(grace))  # first, so that no stream begins again
        for service in self._services:
            service.end_streams()
        await stopped

    def _add_port(self, address: Address) -> int:
        """Listen at the address, with TLS if there are files; returns the port."""
        if self._listener.tls is None:
            return self._server.add_insecure_port(address.text)
        # Imported only with TLS: the library is slow to import.
        from trireme.rpc.tls import ReloadedCertificates

        return self._server.add_secure_port(address.text, ReloadedCertificates(self._listener.tls).credentials())


def serve(listener: Listener, lifespan: Lifespan) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code, 1 if a background task ended unexpectedly.

    The one line `listening on <address>` goes to stdout once calls are taken. A second signal ends the
    process at once, with exit code 1.

    Raises:
        ListenError: it cannot listen. And whatever `lifespan` raises.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(serve_until_stopped(listener, lifespan))


async def serve_until_stopped(listener: Listener, lifespan: Lifespan, *, grace: float = GRACE_SECONDS) -> int:
    """Serve as `serve` does, on the running loop, until a signal or a task's failure; returns the exit code."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _on_signal, stopping)
    supervisor = supervision.Supervisor()
    async with lifespan(supervisor) as services:
        server = ReplicaServer(listener, services)
        address = await server.start()
        try:
            klog.announce(f"{programs.LISTENING}{address.text}")
            return await _until_stopped(stopping, supervisor)
        finally:
            await server.stop(grace)


async def _until_stopped(stopping: asyncio.Event, supervisor: supervision.Supervisor) -> int:
    """Wait for a signal or the failure of a task; return the exit code."""
    stop, failure = asyncio.create_task(stopping.wait()), asyncio.create_task(supervisor.failure())
    await asyncio.wait({stop, failure}, return_when=asyncio.FIRST_COMPLETED)
    if not failure.done():
        failure.cancel()
        return 0
    stop.cancel()
    error = failure.exception()
    log.error("a background task ended unexpectedly; the process exits: %s", error, exc_info=error)
    return 1


def _on_signal(stopping: asyncio.Event) -> None:
    """Begin to stop at the first signal; at the second exit at once with 1."""
    if stopping.is_set():
        os._exit(1)
    log.info("stopping: calls in flight may finish")
    stopping.set()


def _server_options() -> list[tuple[str, Any]]:
    """The options of the server: sizes of messages, no shared port, keepalive."""
    return [
        ("grpc.max_receive_message_length", message_sizes.MAX_PHASE_BYTES),
        ("grpc.max_send_message_length", message_sizes.MAX_PHASE_BYTES),
        # Otherwise two processes could listen on one port and share the calls at random.
        ("grpc.so_reuseport", 0),
        ("grpc.server.max_pending_requests", MAX_UNREAD_CALLS),
        ("grpc.server.max_pending_requests_hard_limit", MAX_UNREAD_CALLS),
        ("grpc.server_max_unrequested_time_in_server", MAX_UNREAD_SECONDS),
        ("grpc.server_handshake_timeout_ms", int(HANDSHAKE_SECONDS * 1000)),
        # Detects a frontend that vanished without closing the connection, after a minute.
        ("grpc.keepalive_time_ms", 45_000),
        ("grpc.keepalive_timeout_ms", 15_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", MIN_PING_INTERVAL_MS),
    ]


def _check_address_is_free(address: Address) -> None:
    """Check that nobody listens at the address; gRPC would log its own lines, and take over a Unix socket.

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
            raise ListenError(
                f"--listen: {address.text}: {path.parent} is not a directory: make one, or choose another path"
            )
        if not path.exists():
            return
        if not path.is_socket():
            raise ListenError(
                f"--listen: {address.text}: a file that is no socket is there: remove it, or choose another path"
            )
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            if probe.connect_ex(str(path)) == 0:
                raise ListenError(
                    f"--listen: {address.text}: another process listens there: end it, or choose another path"
                )
    except OSError as error:
        raise ListenError(f"--listen: {address.text}: {error.strerror or error}") from error


class _IdentityInterceptor(aio.ServerInterceptor):
    """Admits only callers with an allowed identity, except to the check of health.

    Watching health is not excepted: such a call lasts as long as the caller likes, and takes the place of another.
    """

    def __init__(self, allowed: frozenset[str]) -> None:
        self._allowed = allowed

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Any:
        """Wrap the handler in the check of the caller's identity, except that of health."""
        handler = await continuation(handler_call_details)
        if handler is None or handler_call_details.method == _HEALTH_CHECK:
            return handler
        return _with_check_first(handler, self._check_caller_identity)

    async def _check_caller_identity(self, context: aio.ServicerContext[Any, Any]) -> None:
        """End the call with PERMISSION_DENIED if no name of the caller's certificate is allowed."""
        names = caller_identities(context)
        if names.isdisjoint(self._allowed):
            text = (
                "refused a call of %s: not among the allowed identities; if it may call, add it to --allowed-identities"
            )
            log.warning(text, ", ".join(sorted(names)) or "nobody")
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "the client's identity is not allowed to call")


def _with_check_first(handler: _Handler, check: Callable[[Any], Awaitable[None]]) -> _Handler:
    """Wrap the handler so that the check runs first, also before the request is awaited.

    So a method with one request becomes one with a stream of requests; the first is read after the check:
    otherwise a caller that sends no request would hold its place among the concurrent calls unchecked. On the wire the
    two are the same.
    """

    async def only_request(requests: AsyncIterator[Any], context: Any) -> Any:
        """The request of a call that has one."""
        async for request in requests:
            return request
        return await abort(context, grpc.StatusCode.INTERNAL, "the call ended before its request came")

    async def answer_once(requests: AsyncIterator[Any], context: Any) -> Any:
        await check(context)
        behavior: Any = handler.stream_unary or handler.unary_unary
        return await behavior(requests if handler.request_streaming else await only_request(requests, context), context)

    async def answer_many(requests: AsyncIterator[Any], context: Any) -> Any:
        await check(context)
        behavior: Any = handler.stream_stream or handler.unary_stream
        answers = behavior(requests if handler.request_streaming else await only_request(requests, context), context)
        if inspect.isawaitable(answers):  # a handler that writes to the context itself
            await answers
            return
        async for answer in answers:
            yield answer

    make: Any = (
        grpc.stream_stream_rpc_method_handler if handler.response_streaming else grpc.stream_unary_rpc_method_handler
    )
    result: _Handler = make(
        answer_many if handler.response_streaming else answer_once,
        request_deserializer=handler.request_deserializer,
        response_serializer=handler.response_serializer,
    )
    return result


def fail(message: str) -> int:
    """Print one line to stderr about why the process cannot start; return its exit code."""
    klog.fail(message)
    return 1
