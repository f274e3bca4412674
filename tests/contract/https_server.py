"""An HTTPS server with a certificate of its own, for tests of commands that ask a frontend."""

import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from aiohttp import web

from trireme_kube.componentbase.tls import self_signed


@contextlib.asynccontextmanager
async def serving(
    folder: Path, answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
) -> AsyncIterator[int]:
    """Serve with this handler within the block; gives the port on 127.0.0.1. `folder` takes the certificate."""
    certificate, key = self_signed.make_certificate("127.0.0.1", [])
    (folder / "c.pem").write_bytes(certificate + key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "c.pem")
    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
