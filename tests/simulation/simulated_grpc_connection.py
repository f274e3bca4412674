"""The connections of simulated gRPC: many calls over one, in frames, with flow control and keepalive.

It stands for HTTP/2: a call is a stream of frames with a number; a stream that nobody reads stops its writer after
`WINDOW_BYTES`; a connection on which nothing comes for too long is given up.
"""

import asyncio
import collections
import marshal
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

WINDOW_BYTES = 64 << 10
# A reader that has read less tells the writer later.
_REPORTED_BYTES = WINDOW_BYTES // 4
_HEADER = struct.Struct("<IIB")


class FrameKind(IntEnum):
    """What a frame holds."""

    SETTINGS = 0  # the server is there
    CALL = 1  # method, seconds to the deadline (None: no deadline), metadata
    MESSAGE = 2
    HALF_CLOSE = 3
    CANCEL = 4
    INITIAL_METADATA = 5
    STATUS = 6  # code, details, trailing metadata
    CONSUMED = 7  # so many bytes of the stream were read
    PING = 8
    PONG = 9
    GOAWAY = 10
    # A handshake of TLS, before SETTINGS.
    HELLO = 11  # the client's first words
    CERTIFICATE = 12  # the sender's, PEM


_KINDS = tuple(FrameKind)
_PING, _PONG = int(FrameKind.PING), int(FrameKind.PONG)


def address(target: str) -> tuple[str, int]:
    """Host and port of an address as gRPC writes it; a Unix socket is a host of its own."""
    if target.startswith("unix:"):
        return target, 1
    host, _, port = target.rpartition(":")
    return host, int(port)


def frame(kind: FrameKind, stream: int, payload: bytes = b"") -> bytes:
    """One frame as bytes."""
    return _HEADER.pack(len(payload), stream, kind) + payload


def value_frame(kind: FrameKind, stream: int, value: Any) -> bytes:
    """A frame that holds a value of numbers, texts, bytes and tuples."""
    return frame(kind, stream, marshal.dumps(value))


@dataclass(frozen=True)
class Limits:
    """The options of a channel or server that matter here. Units: bytes, seconds."""

    max_send: int | None
    max_receive: int | None
    keepalive: float | None
    keepalive_timeout: float
    keepalive_without_calls: bool
    connect: float
    first_backoff: float
    last_backoff: float


def limits(options: Any) -> Limits:
    """Read gRPC's channel arguments, with gRPC's defaults."""
    given = dict(options or ())

    def size(name: str, default: int) -> int | None:
        found = given.get(name, default)
        return None if found < 0 else found

    keepalive = given.get("grpc.keepalive_time_ms")
    return Limits(
        max_send=size("grpc.max_send_message_length", -1),
        max_receive=size("grpc.max_receive_message_length", 4 << 20),
        keepalive=None if keepalive is None else keepalive / 1000,
        keepalive_timeout=given.get("grpc.keepalive_timeout_ms", 20_000) / 1000,
        keepalive_without_calls=bool(given.get("grpc.keepalive_permit_without_calls", 0)),
        connect=given.get("grpc.min_reconnect_backoff_ms", 20_000) / 1000,
        first_backoff=given.get("grpc.initial_reconnect_backoff_ms", 1000) / 1000,
        last_backoff=given.get("grpc.max_reconnect_backoff_ms", 120_000) / 1000,
    )


class StreamBuffers:
    """One direction each: the messages received of a stream, and the room for those to send."""

    def __init__(self) -> None:
        self._messages: collections.deque[bytes] = collections.deque()
        self._readers: list[asyncio.Future[None]] = []
        self._writers: list[asyncio.Future[None]] = []
        self._room = WINDOW_BYTES
        self._unreported = 0
        self.ended = False  # no further message will come
        self.closed = False  # the call is over

    def receive(self, message: bytes) -> None:
        """A message came."""
        self._messages.append(message)
        _wake(self._readers)

    def end(self) -> None:
        """No further message comes."""
        self.ended = True
        _wake(self._readers)

    def close(self) -> None:
        """The call is over: readers get what came before, writers no room any more."""
        self.closed = self.ended = True
        _wake(self._readers)
        _wake(self._writers)

    def consumed(self, count: int) -> None:
        """The peer has read so many bytes."""
        self._room += count
        _wake(self._writers)

    async def read(self) -> bytes | None:
        """The next message; None after the last."""
        while not self._messages:
            if self.ended:
                return None
            await _wait(self._readers)
        return self._messages.popleft()

    def bytes_to_report(self, count: int) -> int:
        """So many bytes more were read: how many to report to the peer, 0 while they are few."""
        self._unreported += count
        if self._unreported < _REPORTED_BYTES:
            return 0
        count, self._unreported = self._unreported, 0
        return count

    async def take_room(self, count: int) -> bool:
        """Wait for room to send so many bytes; False if the call is over."""
        while self._room <= 0 and not self.closed:
            await _wait(self._writers)
        self._room -= count
        return not self.closed


async def _wait(waiting: list[asyncio.Future[None]]) -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting.append(future)
    await future


def _wake(waiting: list[asyncio.Future[None]]) -> None:
    while waiting:
        future = waiting.pop(0)
        if not future.done():
            future.set_result(None)


class GrpcConnection(asyncio.Protocol):
    """One end of a connection: frames in and out."""

    def __init__(
        self,
        limits: Limits,
        on_frame: Callable[["GrpcConnection", FrameKind, int, bytes], None],
        on_lost: Callable[["GrpcConnection", str], None],
    ) -> None:
        self.limits = limits
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._buffer = b""
        self._loop = asyncio.get_running_loop()
        self._last_activity = 0.0
        self._timer: Any = None
        self._pinged = False  # and nothing has come since
        self._reason = ""
        self.transport: Any = None
        #: The calls on it by their number.
        self.streams: dict[int, Any] = {}
        self.lost = False
        #: Whether TLS has been agreed on.
        self.has_shaken_hands = False

    def send(self, data: bytes) -> None:
        """Send frames."""
        if not self.lost:
            self.transport.write(data)

    def close(self) -> None:
        """Close it after what was sent."""
        self.transport.close()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """As of every protocol."""
        self.transport = transport
        self._last_activity = self._loop.time()
        self._expect_activity()

    def data_received(self, data: bytes) -> None:
        """As of every protocol."""
        self._last_activity = self._loop.time()
        if self._pinged:
            self._timer.cancel()
            self._expect_activity()
        if self._buffer:
            data = self._buffer + data
        start, length = 0, len(data)
        while length - start >= _HEADER.size:
            size, stream, kind = _HEADER.unpack_from(data, start)
            end = start + _HEADER.size + size
            if length < end:
                break
            payload = data[start + _HEADER.size : end]
            start = end
            if kind == _PING:
                self.send(frame(FrameKind.PONG, 0))
            elif kind != _PONG:
                self._on_frame(self, _KINDS[kind], stream, payload)
        self._buffer = data[start:]

    def connection_lost(self, exc: Exception | None) -> None:
        """As of every protocol."""
        self.lost = True
        if self._timer is not None:
            self._timer.cancel()
        self._on_lost(self, self._reason or (str(exc) if exc else "Socket closed"))

    # Keepalive: one timer, however much comes.

    def _expect_activity(self) -> None:
        if self.limits.keepalive is not None:
            self._pinged = False
            self._timer = self._loop.call_at(self._last_activity + self.limits.keepalive, self._on_silence)

    def _on_silence(self) -> None:
        """Ping, unless something came meanwhile."""
        if self._last_activity + self.limits.keepalive > self._loop.time():
            self._expect_activity()
        elif self.streams or self.limits.keepalive_without_calls:
            self.send(frame(FrameKind.PING, 0))
            self._pinged = True
            self._timer = self._loop.call_later(self.limits.keepalive_timeout, self._give_up)
        else:
            self._last_activity = self._loop.time()
            self._expect_activity()

    def _give_up(self) -> None:
        self._reason = "ping timeout"
        self.transport.abort()
