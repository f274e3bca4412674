"""The frontend's HTTPS server, guarded like kube-scheduler's; and the same site on a Unix socket for this user alone.

Source: cmd/kube-scheduler/app/server.go.

Tests: tests/contract/test_serving_access.py, tests/contract/test_serving_http.py.
"""

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import AsyncIterator

from aiohttp import web

from trireme.config import commandline, secure_serving
from trireme.delegated_access import delegated_guard, serving_trust
from trireme.framework import release
from trireme.frontend import api_server_check
from trireme.frontend.serving import admin_socket_file, serving_site
from trireme.frontend.serving.frontend_state import FrontendState
from trireme_kube.client.rest import client
from trireme_kube.componentbase import clocks, supervision
from trireme_kube.componentbase.server import connection_limits, https_server
from trireme_kube.componentbase.tls import tls_contexts, tls_options

log = logging.getLogger(__name__)

# How often a frontend looks whether the process that has its admin socket has ended.
SOCKET_RETRY_SECONDS = 5.0


class ServingError(Exception):
    """The configuration cannot be served."""


@contextlib.asynccontextmanager
async def serve(
    completed: commandline.CompletedConfig,
    state: FrontendState,
    api: client.ApiClient,
    supervisor: supervision.Supervisor,
) -> AsyncIterator[serving_site.FrontendSite]:
    """Serve on the listener that the configuration opened, and on the Unix socket that it names.

    While it serves, the log has what the checks find, of the API server (`api`) too.

    Raises: ServingError, naming the file at fault.
    """
    api_server = api_server_check.ApiServerCheck(api, clocks.wall)
    served = serving_site.FrontendSite(completed, state, api_server)
    async with contextlib.AsyncExitStack() as stack:
        if completed.serving is not None:
            await stack.enter_async_context(_serve_over_tls(completed, completed.serving, served, supervisor))
        if completed.trireme.admin.socket:
            await stack.enter_async_context(_serve_on_socket(completed.trireme.admin.socket, served, supervisor))
        if completed.serving is not None or completed.trireme.admin.socket:
            for name, work in (("check of the API server", api_server.run), ("log of health", served.health_log.run)):
                stack.push_async_callback(supervisor.stop, supervisor.keep(name, work))
        await stack.enter_async_context(served.event_loop.measured(supervisor))
        await stack.enter_async_context(served.expiries.watched(supervisor))
        try:
            yield served
        finally:
            served.begin_shutdown()


@contextlib.asynccontextmanager
async def _serve_on_socket(
    path: str, served: serving_site.FrontendSite, supervisor: supervision.Supervisor
) -> AsyncIterator[None]:
    """The same site on a Unix socket without TLS; everybody who may open the file may read it.

    While another process listens there, this frontend waits until that one has ended. Raises: ServingError.
    """
    async with contextlib.AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(_listen_on_socket(path, served))
        except OSError as error:
            raise ServingError(f"admin.socket: {path}: {error.strerror or error}") from error
        except admin_socket_file.SocketInUse:
            log.error(
                "admin.socket: %s: another process listens there; configure another path, or this frontend has no "
                "admin socket until that one ends",
                path,
            )
            waiting = supervisor.keep("admin socket", functools.partial(_take_over_socket, path, served))
            stack.push_async_callback(supervisor.stop, waiting)
        yield


@contextlib.asynccontextmanager
async def _listen_on_socket(path: str, served: serving_site.FrontendSite) -> AsyncIterator[None]:
    """Serve the site at the path within the block. Raises: SocketInUse, OSError."""
    own = admin_socket_file.AdminSocket(path)
    runner = connection_limits.make_runner(served.site.application(None), https_server.SHUTDOWN_SECONDS)
    try:
        await runner.setup()
        await web.SockSite(runner, own.listener).start()
        yield
    finally:
        own.remove_file()
        await runner.cleanup()
        own.close()


async def _take_over_socket(path: str, served: serving_site.FrontendSite) -> None:
    """Serve on the socket once the process that listens there has ended, until cancelled."""
    while True:
        await asyncio.sleep(SOCKET_RETRY_SECONDS)
        # OSError: the folder is gone, for example. The start was no better, and the frontend works without the socket.
        with contextlib.suppress(admin_socket_file.SocketInUse, OSError):
            async with _listen_on_socket(path, served):
                log.info("admin.socket: %s: this frontend listens there now", path)
                await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def _serve_over_tls(
    completed: commandline.CompletedConfig,
    serving: secure_serving.Serving,
    served: serving_site.FrontendSite,
    supervisor: supervision.Supervisor,
) -> AsyncIterator[None]:
    """Serve the site over TLS within the block, for callers that the cluster authenticates.

    The serving certificate and the authorities are followed while it serves. Raises: ServingError if the certificate
    cannot be used.
    """
    options = completed.options
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(serving.listener.close)
        reviews = await delegated_guard.connect_reviews(
            stack,
            release.user_agent(version=completed.version),
            token_kubeconfig=options.authentication.kubeconfig if serving.token_review is not None else None,
            access_kubeconfig=options.authorization.kubeconfig if serving.access_review is not None else None,
        )
        trust = serving_trust.ClusterTrust(
            options.authentication,
            reviews.tokens,
            serving.cluster_settings,
            with_uid=completed.gates.enabled("AllowParsingUserUIDFromCertAuth"),
        )
        try:
            contexts = tls_contexts.TlsContexts(_tls_settings(serving), trust.pem, time.monotonic, trust.name)
        except (OSError, ValueError) as error:  # ssl.SSLError is one
            raise ServingError(f"the serving certificate cannot be used: {error}") from error
        guard = delegated_guard.DelegatedGuard(options.authentication, options.authorization, trust, reviews)
        application = served.site.application(served.access.delegate_to(guard))
        async with https_server.serve(serving.listener, contexts, application, supervisor):
            following = supervisor.keep("authorities", trust.follow)
            try:
                yield
            finally:
                await supervisor.stop(following)


def _tls_settings(serving: secure_serving.Serving) -> tls_contexts.TlsSettings:
    """The certificates to present, and the TLS versions and ciphers, as the flags say."""
    options = serving.options
    if serving.certificate:
        default = tls_contexts.KeyPair(certificate=serving.certificate, key=serving.private_key)
    else:
        default = tls_contexts.KeyPair(options.cert_file, options.key_file)
    return tls_contexts.TlsSettings(
        default,
        [tls_contexts.KeyPair(pair.cert_file, pair.key_file, names=pair.names) for pair in options.sni_cert_keys],
        tls_options.minimum_version(options.min_tls_version),
        tls_options.openssl_ciphers(options.cipher_suites),
        tls_options.openssl_curve(options.curve_preferences),
    )
