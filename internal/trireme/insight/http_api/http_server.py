"""Serves insight's HTTP API: over HTTPS for callers that the API server reviews, or on loopback for this machine.

This module alone of insight has a connection to an API server, for reviews and nothing else.

Tests: tests/security/test_insight_http.py.
"""

import contextlib
import pathlib
import socket
import time
from collections.abc import AsyncIterator

from trireme.config.serving_flags import AuthenticationOptions, AuthorizationOptions
from trireme.delegated_access import delegated_guard, serving_trust
from trireme.framework import programs, release
from trireme.insight import service
from trireme.insight.flags import HttpFlags
from trireme.insight.http_api import access, api, recorded_console
from trireme.rpc.listen_flags import Address, ListenError
from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.apimachinery.golang import Duration
from trireme_kube.componentbase import supervision
from trireme_kube.componentbase.logs import klog
from trireme_kube.componentbase.server import https_server, plain_server
from trireme_kube.componentbase.tls import pem_checks, tls_contexts

"""The beginning of the line on stdout, before the URL."""

_CACHE_TTL = Duration(10_000_000_000)
# Connections that wait to be accepted; the kernel has its own bound (net.core.somaxconn). Beyond it clients try again.
_BACKLOG = 4096
# For so long a connection may be silent while others wait to be accepted: a client that opens thousands takes a while
# to send its first request. Probes have a port of their own.
_PATIENCE_SECONDS = 5.0


@contextlib.asynccontextmanager
async def serve(
    flags: HttpFlags,
    served: service.InsightService,
    supervisor: supervision.Supervisor,
    recordings: pathlib.Path | None = None,
) -> AsyncIterator[str]:
    """Serve within the block; its value is the URL. `recordings` is the folder that insight records in, if it does.

    Raises: ListenError, naming the flag at fault.
    """
    async with contextlib.AsyncExitStack() as stack:
        callers: access.Access = access.LoopbackAccess()
        authorities = serving_trust.ClusterTrust(_authentication(flags), None, {}, with_uid=True)
        if flags.reviews:
            callers = await _reviewed_access(stack, flags, authorities)
        recorded = None
        if recordings is not None:
            recorded = recorded_console.RecordedConsole(recordings)
            stack.push_async_callback(recorded.close)
            served.console.is_recorded = True
        application = api.HttpApi(served, callers, recorded=recorded).application()
        sock = stack.enter_context(open_listener(flags.address, "--http-listen"))
        scheme = "https" if flags.certificate else "http"
        url = f"{scheme}://{flags.address.with_port(sock.getsockname()[1]).text}"
        if flags.certificate:
            pair = tls_contexts.KeyPair(flags.certificate, flags.private_key)
            try:
                contexts = tls_contexts.TlsContexts(
                    tls_contexts.TlsSettings(pair), authorities.pem, time.monotonic, flags.client_ca
                )
            except (OSError, ValueError) as error:  # ssl.SSLError is one
                raise ListenError(f"--tls-cert-file: {flags.certificate}: {error}") from error
            await stack.enter_async_context(
                https_server.serve(sock, contexts, application, supervisor, _PATIENCE_SECONDS)
            )
        else:
            await stack.enter_async_context(plain_server.serve_socket(application, sock, supervisor, _PATIENCE_SECONDS))
        klog.announce(f"{programs.SERVING_HTTP}{url}")
        yield url


async def _reviewed_access(
    stack: contextlib.AsyncExitStack, flags: HttpFlags, authorities: serving_trust.ClusterTrust
) -> access.ReviewedAccess:
    """Connect to the API server that reviews callers. Raises: ListenError."""
    if flags.client_ca:
        try:
            pem_checks.check_bundle("client-ca-bundle", flags.client_ca)
        except ConfigurationError as error:
            raise ListenError(f"--http-client-ca-file: {error}") from error
    try:
        reviews = await delegated_guard.connect_reviews(
            stack,
            release.user_agent("insight"),
            token_kubeconfig=flags.authentication_kubeconfig,
            access_kubeconfig=flags.authorization_kubeconfig,
        )
    except ConfigurationError as error:
        raise ListenError(f"--authentication-kubeconfig or --authorization-kubeconfig: {error}") from error
    rights = AuthorizationOptions(flags.authorization_kubeconfig, _CACHE_TTL, _CACHE_TTL, ())
    return access.ReviewedAccess(delegated_guard.DelegatedGuard(_authentication(flags), rights, authorities, reviews))


def _authentication(flags: HttpFlags) -> AuthenticationOptions:
    """Tokens, and certificates of the CA in the file. No proxy is trusted, and the cluster is not read."""
    return AuthenticationOptions(
        kubeconfig=flags.authentication_kubeconfig,
        cache_ttl=_CACHE_TTL,
        client_ca_file=flags.client_ca,
        request_header_client_ca_file="",
        request_header_username_headers=(),
        request_header_uid_headers=(),
        request_header_group_headers=(),
        request_header_extra_prefixes=(),
        request_header_allowed_names=(),
        skip_lookup=True,
        tolerate_lookup_failure=True,
    )


def open_listener(address: Address, flag: str) -> socket.socket:
    """Open a socket that listens at the address of the flag. Raises: ListenError."""
    host, _, port = address.text.rpartition(":")
    try:
        family, _, _, _, where = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.create_server(where, family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ListenError(f"{flag}: {address.text}: {error.strerror or error}") from error
    sock.setblocking(False)
    return sock
