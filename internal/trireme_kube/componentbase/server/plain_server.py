"""Metrics and probes of a phase, over plain HTTP: numbers without secrets, for the machine or the cluster to read.

A phase is ready once it can answer: it follows a frontend, which has sent its configuration. If no frontend comes for a
while, because another scheduler leads, it stands by, and counts as ready for the frontend that will lead: a rollout
must not wait until leadership changes.

Also change: internal/trireme/frontend/serving/serving_site.py (pages and where answers say no).

Tests: tests/contract/test_replica_metrics.py, tests/security/test_insight_http.py.
"""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from aiohttp import web

from trireme_kube.componentbase import supervision
from trireme_kube.componentbase.metrics import exposition
from trireme_kube.componentbase.metrics.instruments import Registry
from trireme_kube.componentbase.server import connection_limits, http_site
from trireme_kube.componentbase.server.health import PING, Check, Health
from trireme_kube.componentbase.server.http_site import Page, Reply, Request
from trireme_kube.componentbase.tls import tls_acceptor

SHUTDOWN_SECONDS = 2.0
# A leading frontend finds a new replica within this time; without one the replica stands by.
STANDBY_SECONDS = 10.0


@contextlib.asynccontextmanager
async def serve(
    listen: str, registry: Registry, not_ready: Callable[[], str], clock: Callable[[], float] = time.monotonic
) -> AsyncIterator[None]:
    """Serve /metrics, /healthz, /livez and /readyz on `host:port`. `not_ready` returns what is missing.

    Raises: OSError if the address cannot be listened on.
    """
    host, _, port = listen.rpartition(":")
    application = _plain_site(registry, not_ready, clock).application(None)
    async with serve_application(application, host=host.strip("[]") or None, port=int(port)):
        yield


@contextlib.asynccontextmanager
async def serve_application(application: web.Application, **where: Any) -> AsyncIterator[None]:
    """Serve an application over plain HTTP within the block, `where` the event loop's `create_server` takes.

    Raises: OSError if the address cannot be listened on.
    """
    runner = connection_limits.make_runner(application, SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        protocols = connection_limits.ConnectionLimits(runner)
        listening = await asyncio.get_running_loop().create_server(protocols, **where)
        try:
            yield
        finally:
            listening.close()
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def serve_socket(
    application: web.Application, listener: socket.socket, supervisor: supervision.Supervisor, patience: float
) -> AsyncIterator[None]:
    """Serve an application over plain HTTP on a socket that listens, within the block.

    `patience`: as that of `connection_limits.ConnectionLimits`.
    """
    runner = connection_limits.make_runner(application, SHUTDOWN_SECONDS)
    await runner.setup()
    limits = connection_limits.ConnectionLimits(runner, patience)
    acceptor = tls_acceptor.TlsAcceptor(listener, None, limits, limits.wait_for_room, patience)
    accepting = supervisor.keep("http", acceptor.run)
    try:
        yield
    finally:
        await supervisor.stop(accepting)
        await acceptor.close()
        await runner.cleanup()


def _plain_site(registry: Registry, not_ready: Callable[[], str], clock: Callable[[], float]) -> http_site.Site:
    """The pages. Without a frontend /readyz fails for STANDBY_SECONDS at most, then says that it stands by."""
    started = clock()

    def frontend_problem() -> str:
        return not_ready() if clock() - started < STANDBY_SECONDS else ""

    def standby_note() -> str:
        missing = not_ready()
        return f"standing by: {missing}" if missing else ""

    frontend = Check("frontend", frontend_problem, note=standby_note)
    health = Health({"healthz": [PING], "livez": [PING], "readyz": [frontend]})

    async def health_page(request: Request) -> Reply | None:
        report = health.report(request.path, request.query)
        return None if report is None else http_site.text(report.text, 200 if report.healthy else 500)

    async def metrics_page(request: Request) -> Reply:
        answer = exposition.answer(registry.families(), request.headers)
        headers = {"Content-Encoding": answer.content_encoding} if answer.content_encoding else {}
        return Reply(answer.body, answer.content_type, headers=headers)

    pages: dict[str, Page] = {"/metrics": metrics_page}
    for path in health.paths():
        pages[path] = pages[f"{path}/*"] = health_page
    return http_site.Site(pages)
