"""Serves the newest report over plain HTTP, for `kubectl port-forward`: read-only, and about nothing else.

Tests: tests/contract/test_shadow_run.py.
"""

import contextlib
from collections.abc import AsyncIterator, Callable

from trireme.shadow import flags
from trireme_kube.componentbase.server import http_site, plain_server
from trireme_kube.componentbase.server.http_site import Reply, Request

_HTML = "text/html; charset=utf-8"
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


@contextlib.asynccontextmanager
async def serve(listen: str, newest: Callable[[], str]) -> AsyncIterator[None]:
    """Serve the report at /, and /healthz and /readyz, within the block; ready once there is a report.

    Raises: FlagsError: the address cannot be listened on.
    """

    async def report_page(request: Request) -> Reply:
        content = newest()
        if request.method not in ("GET", "HEAD"):
            return http_site.text("only GET\n", 405)
        if not content:
            return http_site.text("the first report is not written yet\n", 503)
        return Reply(content.encode(), _HTML, headers=_HEADERS)

    async def healthz(request: Request) -> Reply:
        return http_site.text("ok")

    async def readyz(request: Request) -> Reply:
        return http_site.text("ok") if newest() else http_site.text("no report yet\n", 503)

    host, _, port = listen.rpartition(":")
    site = http_site.Site({"/": report_page, "/healthz": healthz, "/readyz": readyz})
    async with contextlib.AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(
                plain_server.serve_application(site.application(None), host=host.strip("[]") or None, port=int(port))
            )
        except OSError as error:
            raise flags.FlagsError(f"--listen: {listen}: {error.strerror or error}") from error
        yield
