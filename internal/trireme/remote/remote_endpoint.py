"""One replica of a remote plugin: its address, its channel and how many calls it takes at once.

Also change: internal/trireme/frontend/phase_clients/replica_link.py, internal/trireme/rpc/grpc_server.py,
internal/trireme/rpc/message_sizes.py, internal/trireme/sdk/plugin_server.py (gRPC options of both sides).

Tests: tests/unit/remote/test_remote_endpoint.py, tests/contract/test_plugin_replicas.py,
tests/unit/remote/test_hedging.py.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from grpc import aio

from trireme.rpc import dialing, fencing, message_sizes

# Longer texts of a plugin are cut: they go into events.
MAX_DETAIL = 300

OPTIONS = (
    ("grpc.max_receive_message_length", message_sizes.MAX_PLUGIN_BYTES),
    ("grpc.max_send_message_length", message_sizes.MAX_PLUGIN_BYTES),
    # Reconnect soon to a restarted plugin, not after gRPC's two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    # In spite of its name: how long one attempt to connect may take, TLS included, however busy the other end is.
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # Detects a host that vanished without closing the connection.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)

_HOST_PORT = re.compile(r"(dns:(//[^/]*/)?)?(\[[0-9A-Fa-f:.%]+\]|[^:\[\]/]+):[0-9]{1,5}")


class Endpoint:
    """One replica of the plugin."""

    __slots__ = ("_calls", "_connection", "_turns", "avoid_until", "in_flight", "target", "waiting")

    def __init__(self, target: str, dialer: dialing.Dialer, max_calls: int) -> None:
        self.target = target
        self.avoid_until = 0.0
        self.waiting = 0
        self.in_flight = 0
        self._turns = asyncio.Semaphore(max_calls) if max_calls else None
        self._calls: dict[tuple[str, bool], Any] = {}
        self._connection = dialer.open(target, OPTIONS)

    @property
    def busy(self) -> int:
        """Calls that are executed or wait."""
        return self.waiting + self.in_flight

    @property
    def channel(self) -> aio.Channel:
        """The channel to the endpoint."""
        return self._connection.channel

    def call(self, path: str, streaming: bool = False) -> Any:
        """Return the callable of the method, from bytes to bytes: gRPC would turn an undecodable message into None."""
        key = (path, streaming)
        call = self._calls.get(key)
        if call is None:
            channel = self._connection.channel
            make = channel.unary_stream if streaming else channel.unary_unary
            call = make(path, request_serializer=None, response_deserializer=None)
            self._calls[key] = call
        return call

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a call's turn; it lasts until the context ends."""
        if self._turns is None:
            self.in_flight += 1
            try:
                yield
            finally:
                self.in_flight -= 1
            return
        self.waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self.waiting -= 1
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            self._turns.release()

    def renew(self) -> None:
        """Open another channel if certificates or the expected identity changed; called when it was unreachable."""
        if self._connection.renew():
            self._calls.clear()

    def error_line(self, error: aio.AioRpcError) -> str:
        """The error of a call here, on one line; to be read before `renew`."""
        return error_line(error, self._connection)

    @property
    def is_idle(self) -> bool:
        """Whether a call could be made at once."""
        return self._turns is None or not self._turns.locked()

    async def retire(self) -> None:
        """Disconnect once the calls in flight have ended."""
        await self._connection.drain()
        await self._connection.close()

    async def close(self) -> None:
        """Abort the calls in flight and disconnect."""
        await self._connection.close()


def check_target(target: str, field: str) -> None:
    """Check that it is a gRPC target: `host:port`, `dns:///name:port` or `unix:path`.

    Raises:
        ValueError: it is not; the text names the field.
    """
    if target.startswith("unix:"):
        if len(target) > len("unix:"):
            return
    elif _HOST_PORT.fullmatch(target) and int(target.rpartition(":")[2]) <= 65535:
        return
    raise ValueError(f"{field}: {target!r} is neither host:port, dns:///name:port nor unix:/path")


def error_line(error: aio.AioRpcError, connection: dialing.RenewableChannel) -> str:
    """The error of a call on one line: its code, the reason in its trailing metadata if there is one, and its details.

    Where TLS refused, these are in words.
    """
    reason = fencing.reason_of(error)
    details = one_line(connection.error_details(error))
    return f"{error.code().name}{f' ({one_line(reason)})' if reason else ''}: {details}"


def one_line(text: str) -> str:
    """Make a foreign text fit for a message: no line breaks, limited length."""
    text = " ".join(text.split())
    return text if len(text) <= MAX_DETAIL else f"{text[: MAX_DETAIL - 1]}…"
