"""The channels to the replicas of a plugin, for the handshake: it is made with one of them at a time.

All replicas are the same plugin, so the description of one is that of all. After a failure the next one is called.
"""

from collections.abc import Sequence

from grpc import aio

from trireme.rpc import dialing


class ReplicaChannels:
    """The channels to the replicas of one plugin."""

    def __init__(self, connections: Sequence[dialing.RenewableChannel]) -> None:
        """`connections` has one at least."""
        self._connections = connections
        self._current = 0

    @property
    def connection(self) -> dialing.RenewableChannel:
        """The one that is called now."""
        return self._connections[self._current]

    @property
    def channel(self) -> aio.Channel:
        """The channel of the replica that is called now."""
        return self.connection.channel

    def renew(self) -> None:
        """A call failed: call the next replica from now on."""
        self.connection.renew()
        self._current = (self._current + 1) % len(self._connections)

    async def close(self) -> None:
        """Disconnect from all."""
        for connection in self._connections:
            await connection.close()
