"""Serves an application over HTTPS on a listening socket, with the certificate that is in the files at that moment.

Also change: internal/trireme_kube/client/kubeconfig/connection.py,
internal/trireme_kube/client/rest/transport_config.py (hosts in URLs).

Tests: tests/security/test_https_attacks.py.
"""

import contextlib
import logging
import socket
from collections.abc import AsyncIterator

from aiohttp import web

from trireme_kube.componentbase import supervision
from trireme_kube.componentbase.logs import klog
from trireme_kube.componentbase.server import connection_limits
from trireme_kube.componentbase.tls import tls_acceptor, tls_contexts

log = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 5.0


@contextlib.asynccontextmanager
async def serve(
    listener: socket.socket,
    contexts: tls_contexts.TlsContexts,
    application: web.Application,
    supervisor: supervision.Supervisor,
    patience: float = 0.0,
) -> AsyncIterator[None]:
    """Accept HTTPS connections within the block; at its end no new ones, and those that are open get time to finish.

    `patience`: as that of `connection_limits.ConnectionLimits`.
    """
    runner = connection_limits.make_runner(application, SHUTDOWN_SECONDS)
    await runner.setup()
    server = runner.server
    assert server is not None  # setup made it
    host, port = listener.getsockname()[:2]
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    limits = connection_limits.ConnectionLimits(runner, patience)
    acceptor = tls_acceptor.TlsAcceptor(listener, contexts.current, limits, limits.wait_for_room, patience)
    accepting = supervisor.keep("https", acceptor.run)
    log.info("Serving securely on %s", where)
    klog.info(log, 0, "Starting DynamicServingCertificateController")
    try:
        yield
    finally:
        await supervisor.stop(accepting)
        await acceptor.close()
        klog.info(log, 0, "Shutting down DynamicServingCertificateController")
        log.info("Stopped listening on %s", where)
        klog.info(log, 0, "[graceful-termination] secure server has stopped listening")
        await server.shutdown(SHUTDOWN_SECONDS)
        await runner.cleanup()
        klog.info(log, 0, "[graceful-termination] secure server is exiting")
