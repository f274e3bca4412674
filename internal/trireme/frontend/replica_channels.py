"""The channels to the replicas of a plugin, for the handshake: it is made with one of them at a time.

All replicas are the same plugin, so the description of one is that of all. After a failure the next one is called.

Tests: tests/unit/frontend/test_plugin_discovery.py, tests/contract/test_plugin_reload.py.
"""

from collections.abc import Mapping

from grpc import aio

from trireme.rpc import dialing


class ReplicaChannels:
    """The channels to the replicas of one plugin. There may be none while none of its endpoints is ready."""

    def __init__(self, connections: Mapping[str, dialing.RenewableChannel], dialer: dialing.Dialer) -> None:
        """`connections` are the channels by address; `dialer` opened them, and stays in use while there are none."""
        self.dialer = dialer
        #: The addresses of the replicas.
        self.targets = tuple(connections)
        self._connections = tuple(connections.values())
        self._current = 0

    @property
    def connection(self) -> dialing.RenewableChannel:
        """The one that is called now. There has to be one."""
        return self._connections[self._current]

    @property
    def channel(self) -> aio.Channel:
        """The channel of the replica that is called now."""
        return self.connection.channel

    def renew(self) -> None:
        """A call failed: call the next replica from now on."""
        if self._connections:
            self.connection.renew()
            self._current = (self._current + 1) % len(self._connections)

    async def replace(self, others: "ReplicaChannels") -> None:
        """Have the channels of `others`, and disconnect from those before."""
        before = self._connections
        self.dialer = others.dialer
        self.targets, self._connections, self._current = others.targets, others._connections, 0
        for connection in before:
            await connection.close()

    async def close(self) -> None:
        """Disconnect from all."""
        for connection in self._connections:
            await connection.close()
