"""What becomes of a server when a connection cannot be accepted."""

import asyncio
import errno
import os
import socket
from typing import Any

import pytest

from trireme_kube.componentbase.tls import tls_acceptor


@pytest.mark.parametrize("failure", [errno.ECONNABORTED, errno.EPROTO, errno.ENETDOWN, errno.EPERM, errno.EMFILE])
async def test_a_connection_that_cannot_be_accepted_ends_nothing(failure: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that resets its connection in the backlog would end the server, and with it the process."""
    monkeypatch.setattr(tls_acceptor, "EXHAUSTED_SECONDS", 0.0)
    loop, served = asyncio.get_running_loop(), asyncio.Event()
    accept, failing = loop.sock_accept, True

    async def accept_after_a_failure(listener: socket.socket) -> Any:
        nonlocal failing
        if failing:
            failing = False
            raise OSError(failure, os.strerror(failure))
        return await accept(listener)

    class Protocol(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            served.set()

    monkeypatch.setattr(loop, "sock_accept", accept_after_a_failure)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        acceptor = tls_acceptor.TlsAcceptor(listener, None, Protocol)
        running = asyncio.create_task(acceptor.run())
        _, writer = await asyncio.open_connection(*listener.getsockname())
        async with asyncio.timeout(20):
            await served.wait()
        writer.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await acceptor.close()


async def test_a_socket_that_does_not_listen_is_an_error() -> None:
    """The server would spin, and nobody would hear of it."""
    with socket.socket() as closed:
        closed.setblocking(False)
        with pytest.raises(OSError, match="Invalid argument"):
            await asyncio.wait_for(tls_acceptor.TlsAcceptor(closed, None, asyncio.Protocol).run(), 20)
