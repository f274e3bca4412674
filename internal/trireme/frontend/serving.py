"""The frontend's HTTPS endpoints: health, readiness and metrics."""

import contextlib
import ssl
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

from trireme.config import commandline

if TYPE_CHECKING:
    from trireme.frontend import app


@contextlib.asynccontextmanager
async def serve(completed: commandline.CompletedConfig, frontend: "app.Frontend") -> AsyncIterator[None]:
    """Serve on the socket that the configuration opened, if it opened one."""
    serving = completed.serving
    if serving is None:
        yield
        return
    application = web.Application()

    async def healthz(request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def readyz(request: web.Request) -> web.Response:
        missing = frontend.missing() if frontend.leading else []
        if not frontend.synced or missing:
            return web.Response(status=500, text=f"not ready: synced={frontend.synced} missing={missing}")
        return web.Response(text="ok")

    application.router.add_get("/healthz", healthz)
    application.router.add_get("/livez", healthz)
    application.router.add_get("/readyz", readyz)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    if serving.certificate:
        with tempfile.TemporaryDirectory() as folder:
            pair = Path(folder, "cert"), Path(folder, "key")
            pair[0].write_bytes(serving.certificate)
            pair[1].write_bytes(serving.private_key)
            context.load_cert_chain(*pair)
    else:
        context.load_cert_chain(serving.options.cert_file, serving.options.key_file)
    await web.SockSite(runner, serving.listener, ssl_context=context).start()
    try:
        yield
    finally:
        await runner.cleanup()
