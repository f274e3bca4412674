"""A network in memory: connections that carry bytes in order, with delays, cuts and resets for each pair of hosts.

It is TCP as programs see it. A connection that nobody accepts is refused. A cut holds back what is sent, in one
direction, until it heals: nothing is lost, and neither end hears of it. A process that is killed resets its
connections. Two connections may overtake each other, the bytes of one do not.
"""

from __future__ import annotations

import asyncio
import collections
import contextvars
import errno
import os
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.simulation import simulated_process
from tests.simulation.simulated_process import Process, State

# Where the connections of the simulation itself come from.
OUTSIDE = "127.0.0.254"
_FIRST_PORT = 30_000

_END, _RESET = object(), object()
# The network delivers, not the receiving process: that may be paused, and its kernel is not.
_NETWORK = contextvars.Context()


@dataclass
class Edge:
    """The way from one host to another, in one direction. Units: seconds."""

    min_delay: float = 0.0002
    max_delay: float = 0.001
    cut: bool = False
    #: What a cut holds back, in order.
    waiting: list[Callable[[], None]] = field(default_factory=list)


class Server(asyncio.AbstractServer):
    """A listening socket."""

    def __init__(self, network: Network, host: str, port: int, factory: Callable[[], Any]) -> None:
        self._network = network
        self.address = (host, port)
        self.factory = factory
        self.process = simulated_process.current()
        self.context = contextvars.copy_context()

    @property
    def sockets(self) -> tuple[Server, ...]:
        """Itself, for `getsockname`."""
        return (self,)

    def getsockname(self) -> tuple[str, int]:
        """Host and port."""
        return self.address

    def close(self) -> None:
        """Refuse further connections."""
        self._network.stop_listening(self)

    async def wait_closed(self) -> None:
        """Nothing to wait for."""

    def is_serving(self) -> bool:
        """Whether connections are accepted."""
        return self._network.listener(self.address) is self

    def get_loop(self) -> Any:
        """As every server's."""
        return self._network.loop


class _Socket:
    """The socket of an end, as far as programs set its options."""

    family = socket.AF_INET

    def __init__(self) -> None:
        #: Whether the system drops what it has not sent yet when the connection is closed.
        self.discards_unsent = False

    def setsockopt(self, level: int, option: int, value: Any) -> None:
        """As every socket's; the others make no difference here."""
        if (level, option) == (socket.SOL_SOCKET, socket.SO_LINGER):
            self.discards_unsent = value == struct.pack("ii", 1, 0)


class Endpoint(asyncio.Transport):
    """One end of a connection."""

    can_write_eof = staticmethod(lambda: True)

    def __init__(self, network: Network, host: str, port: int, process: Process | None) -> None:
        super().__init__()
        self._network = network
        self.host, self.port, self.process = host, port, process
        self.peer: Endpoint
        self._socket = _Socket()
        self._protocol: Any = None
        self._context = contextvars.Context() if process is None else process.context.copy()
        self._sent: collections.deque[Any] = collections.deque()  # on its way to the peer
        self._last_arrival = 0.0
        #: What is sent arrives then at the earliest, as after packets that were lost. In the simulation's time.
        self.stalled_until = 0.0
        self._received: list[Any] = []  # while there is no protocol yet, or it does not read
        self._reading = True
        self._closing = self._eof_sent = self._lost = False

    def open(self, factory: Callable[[], Any]) -> Any:
        """Give it a protocol."""
        self._context = contextvars.copy_context()
        self._protocol = factory()
        self._protocol.connection_made(self)
        self._deliver_received()
        return self._protocol

    def accept(self, server: Server) -> None:
        """Give it the server's protocol; runs as the server's process."""
        if not self._lost:
            self._context = server.context
            self.open(server.factory)

    # As every transport's

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """The addresses and the socket; nothing else is known."""
        if name == "peername":
            return (self.peer.host, self.peer.port)
        if name == "socket":
            return self._socket
        return (self.host, self.port) if name == "sockname" else default

    def set_protocol(self, protocol: Any) -> None:
        """Replace the protocol."""
        self._protocol = protocol

    def get_protocol(self) -> Any:
        """The protocol."""
        return self._protocol

    def is_closing(self) -> bool:
        """Whether it is closed, or will be."""
        return self._closing

    def is_reading(self) -> bool:
        """Whether received bytes are delivered."""
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        """Keep received bytes until `resume_reading`."""
        self._reading = False

    def resume_reading(self) -> None:
        """Deliver received bytes again."""
        self._reading = True
        self._network.loop.call_soon(self._deliver_received, context=self._context)

    def set_write_buffer_limits(self, *_: Any, **__: Any) -> None:
        """Whatever is written leaves at once."""

    def get_write_buffer_size(self) -> int:
        """Whatever is written leaves at once."""
        return 0

    def write(self, data: Any) -> None:
        """Send bytes."""
        if data and not self._closing and not self._eof_sent:
            self._send(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        """Send bytes, in one piece."""
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        """Send the end of the stream."""
        if not self._eof_sent and not self._closing:
            self._eof_sent = True
            self._send(_END)

    def close(self) -> None:
        """Close it after what was written."""
        if not self._closing:
            if not self._eof_sent:
                self._send(_END)
            self._closing = True
            self._lose_soon(None)

    def abort(self) -> None:
        """Reset it."""
        if not self._closing:
            self._reset()
            self._lose_soon(None)

    # The way to the peer

    def _send(self, item: Any) -> None:
        observer = self._network.observer
        if observer is not None:
            observer(self, item)
        self._sent.append(item)
        edge = self._network.edge(self.host, self.peer.host)
        if edge.cut:
            edge.waiting.append(self._schedule_arrival)
        else:
            self._schedule_arrival()

    def _reset(self) -> None:
        """Close it without waiting for what was written to arrive: it still does, unless the socket says otherwise."""
        self._closing = True
        held = self.stalled_until > self._network.loop.now or self._network.edge(self.host, self.peer.host).cut
        if held and self._socket.discards_unsent:
            self._sent.clear()  # and the reset is lost, too: the peer learns nothing
        else:
            self._send(_RESET)

    def _schedule_arrival(self) -> None:
        loop = self._network.loop
        edge = self._network.edge(self.host, self.peer.host)
        arrival = max(loop.now, self.stalled_until) + loop.random.uniform(edge.min_delay, edge.max_delay)
        self._last_arrival = max(arrival, self._last_arrival)
        loop.call_at_simulated(self._last_arrival, self._arrive, context=_NETWORK)

    def _arrive(self) -> None:
        """The first of what is on its way reaches the peer."""
        if not self._sent:
            return  # it was discarded
        item = self._sent.popleft()
        peer = self.peer
        if peer._closing or peer._lost:
            if item is not _END and item is not _RESET:
                peer._send(_RESET)  # nobody reads it
            return
        peer._received.append(item)
        if peer.process is None or peer.process.state is State.RUNNING:
            peer._context.run(peer._deliver_received)
        else:
            self._network.loop.call_soon(peer._deliver_received, context=peer._context)

    def _deliver_received(self) -> None:
        while self._received and self._protocol is not None and not self._closing:
            if not self._reading and self._received[0] is not _RESET:
                return
            item = self._received.pop(0)
            if item is _RESET:
                self._closing = True
                self._lose(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))
            elif item is _END:
                if not self._protocol.eof_received():
                    self.close()
            else:
                self._protocol.data_received(item)

    def _lose_soon(self, error: Exception | None) -> None:
        self._network.loop.call_soon(self._lose, error, context=self._context)

    def _lose(self, error: Exception | None) -> None:
        if not self._lost:
            self._lost = True
            self._network.forget(self)
            if self._protocol is not None:
                self._protocol.connection_lost(error)

    def drop(self) -> None:
        """Its process is gone: reset the connection without a word to it."""
        if not self._lost:
            self._lost = True
            if not self._closing:
                self._reset()
            self._network.forget(self)


class Network:
    """All listeners, connections and edges."""

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self._listeners: dict[tuple[str, int], Server] = {}
        self._edges: dict[tuple[str, str], Edge] = {}
        self._endpoints: dict[Endpoint, None] = {}
        self._reserved: dict[socket.socket, Endpoint] = {}
        self._next_port = _FIRST_PORT
        #: Sees everything that is sent, to find out where two runs part.
        self.observer: Callable[[Endpoint, Any], None] | None = None

    def edge(self, source: str, target: str) -> Edge:
        """The way from one host to another."""
        found = self._edges.get((source, target))
        if found is None:
            found = self._edges[source, target] = Edge()
        return found

    def set_cut(self, source: str, target: str, cut: bool) -> None:
        """Cut the way from one host to another, or heal it."""
        edge = self.edge(source, target)
        edge.cut = cut
        if not cut:
            waiting, edge.waiting = edge.waiting, []
            for send in waiting:
                send()

    def connections(self, source: str, target: str) -> list[Endpoint]:
        """The ends at one host of its connections to another."""
        return [each for each in self._endpoints if (each.host, each.peer.host) == (source, target)]

    def reset_connections(self, one: str, other: str) -> int:
        """Reset all connections between two hosts; returns how many."""
        found = self.connections(one, other)
        for endpoint in found:
            for end in (endpoint, endpoint.peer):
                end._received.append(_RESET)
                self.loop.call_soon(end._deliver_received, context=end._context)
        return len(found)

    # Listening and connecting

    def listener(self, address: tuple[str, int]) -> Server | None:
        """Who listens there."""
        return self._listeners.get(address)

    def listen(self, factory: Callable[[], Any], host: str | None, port: int) -> Server:
        """Listen. Raises: OSError where somebody does already."""
        process = simulated_process.current()
        where = host or (OUTSIDE if process is None else process.host)
        server = Server(self, where, port or self._free_port(), factory)
        if server.address in self._listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        self._listeners[server.address] = server
        return server

    def stop_listening(self, server: Server) -> None:
        """Refuse further connections there."""
        if self._listeners.get(server.address) is server:
            del self._listeners[server.address]

    async def connect(self, host: str, port: int) -> Endpoint:
        """Connect from the current process; a cut in either direction makes this wait forever.

        Raises: ConnectionRefusedError where nobody listens.
        """
        process = simulated_process.current()
        source = OUTSIDE if process is None else process.host
        await self._cross(source, host)
        server = self._listeners.get((host, port))
        client = Endpoint(self, source, self._free_port(), process)
        if server is not None:
            client.peer = Endpoint(self, host, port, server.process)
            client.peer.peer = client
            for end in (client, client.peer):
                self._endpoints[end] = None
            self.loop.call_soon(client.peer.accept, server, context=server.context)
        try:
            await self._cross(host, source)
        except BaseException:
            if server is not None:
                client.abort()
            raise
        if server is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed ({host!r}, {port})")
        return client

    async def _cross(self, source: str, target: str) -> None:
        """Return once a packet has gone that way."""
        edge = self.edge(source, target)
        if edge.cut:
            healed = self.loop.create_future()
            edge.waiting.append(lambda: healed.done() or healed.set_result(None))
            await healed
        arrived = self.loop.create_future()
        delay = self.loop.random.uniform(edge.min_delay, edge.max_delay)
        self.loop.call_at_simulated(self.loop.now + delay, lambda: arrived.done() or arrived.set_result(None))
        await arrived

    def reserve(self, sock: socket.socket, endpoint: Endpoint) -> None:
        """Remember a connection by the socket that a program made for it."""
        self._reserved[sock] = endpoint

    def reserved(self, sock: socket.socket) -> Endpoint:
        """The connection of such a socket, which is not needed any more."""
        endpoint = self._reserved.pop(sock)
        sock.close()
        return endpoint

    def forget(self, endpoint: Endpoint) -> None:
        """The connection has ended there."""
        self._endpoints.pop(endpoint, None)

    def drop_process(self, process: Process) -> None:
        """Reset all connections of a process that is gone, and refuse further ones."""
        for server in [each for each in self._listeners.values() if each.process is process]:
            self.stop_listening(server)
        for endpoint in [each for each in self._endpoints if each.process is process]:
            endpoint.drop()

    def _free_port(self) -> int:
        self._next_port += 1
        return self._next_port
