"""Our identity towards the API server, and its address: kubeconfig, service account, `--master`.

`kubeconfig.connection` reads what is configured; `external_credentials` obtains the credentials of a program or an
identity provider. This module renews credentials that rotate. Invariant: once `load` returns, every file that the
connection needs has been read and parsed, so a mistake shows at start and not at the first request.

As kube-scheduler chooses: a kubeconfig if one is given, with `--master` replacing its server; `--master` alone without
credentials; neither: the pod's service account.

Tests: tests/unit/client/rest/test_credentials.py, tests/contract/test_kube_client.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import ipaddress
import logging
import os
import pathlib
import ssl
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import multidict

from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.client.kubeconfig import connection as kubeconfig_connection
from trireme_kube.client.kubeconfig.connection import Connection
from trireme_kube.client.rest import transport_config
from trireme_kube.client.rest.transport_config import Renewal, TransportConfig

log = logging.getLogger(__name__)

# A multidict because Impersonate-Group is repeated for each group.
Headers: TypeAlias = "multidict.CIMultiDict[str]"

# How often rotating credentials are read again, as client-go does with token files.
RENEWAL_SECONDS = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """Where the connection is configured. Both empty: the pod's service account."""

    kubeconfig: str = ""
    master: str = ""


class Credentials:
    """The connection's configuration and the current credentials. Belongs to one event loop."""

    def __init__(
        self,
        config: TransportConfig,
        origin: str,
        renewal: Renewal | None = None,
        extra_headers: Sequence[tuple[str, str]] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config = config
        self.origin = origin
        self._renewal = renewal
        self._extra_headers = extra_headers
        self._clock = clock
        self._files = _read_file_versions(config)
        self._due = clock() + RENEWAL_SECONDS if renewal or self._files else float("inf")
        self._lock = asyncio.Lock()
        self.headers: Headers = self._make_headers()

    @property
    def host(self) -> str:
        """The server's URL, without a slash at its end."""
        return self.config.host

    @property
    def certificate(self) -> tuple[object, ...]:
        """The TLS files in use, and their versions.

        The value changes when a credential plugin gives another certificate, and when somebody renews the files.
        """
        return self.config.cert_file, self.config.key_file, self._files

    def is_refresh_due(self) -> bool:
        """Whether `refresh` should be called before the next request."""
        return self._clock() >= self._due

    async def refresh(self, rejected: Headers | None = None) -> bool:
        """Refresh rotating credentials if they are due, or at once if the server rejected the given headers.

        Returns whether the headers or the certificate changed. A failure keeps the old ones: they may still be valid.
        """
        if self._renewal is None and not self._files:
            return False
        async with self._lock:
            if rejected is not None and rejected != self.headers:
                return True  # a concurrent call has refreshed them
            if rejected is None and not self.is_refresh_due():
                return False
            self._due = self._clock() + RENEWAL_SECONDS
            headers = self.headers
            certificate = usable = self.certificate
            # Each by itself: a new token is good whatever became of the files, and the other way round.
            with self._log_failure():
                if self._renewal is not None:
                    await self._renewal(rejected is not None)
                self.headers = self._make_headers()
            with self._log_failure():
                self._load_renewed_certificates()
                usable = self.certificate
            return (self.headers, usable) != (headers, certificate)

    @contextlib.contextmanager
    def _log_failure(self) -> Iterator[None]:
        """Log that credentials could not be renewed."""
        try:
            yield
        except (OSError, ValueError) as error:
            log.warning("credentials of %s could not be renewed: %s; those before stay in use", self.origin, error)

    def _load_renewed_certificates(self) -> None:
        """Load certificates that were renewed.

        Raises: OSError for a pair that does not fit, as one half of it was not written yet.
        """
        files = _read_file_versions(self.config)
        if files != self._files:
            self.config.load_tls_context()
            self._files = files

    def _make_headers(self) -> Headers:
        """Return the headers of each request: impersonation and the bearer token."""
        headers = multidict.CIMultiDict(self._extra_headers)
        if self.config.authorization:
            # Token files often end with a newline, which no header may contain.
            headers["Authorization"] = self.config.authorization.strip()
        return headers


def _read_file_versions(config: TransportConfig) -> tuple[object, ...]:
    """Read the versions of the certificates and keys on disk; empty if the connection needs none."""
    files = (config.ca_file, config.cert_file, config.key_file)
    return tuple(
        read_file_version(pathlib.Path(path)) for path in files if path and not transport_config.is_in_memory(path)
    )


def read_file_version(path: pathlib.Path) -> tuple[object, ...]:
    """Read a value that differs after every rewrite of the file."""
    try:
        stat = path.stat()
    except OSError:
        return (path,)
    return path, stat.st_ino, stat.st_mtime_ns, stat.st_size


async def load(source: Source, clock: Callable[[], float] = time.monotonic) -> Credentials:
    """Load and check the configuration that `source` names.

    Raises:
      ConfigurationError: naming the file and the field at fault.
    """
    connection = _connection_of(source)
    config = transport_config.of_connection(connection)
    renewal: Renewal | None = None
    if connection.has_plugin or connection.auth_provider:
        # Importing the package takes a fifth of a frontend's start, and most deployments do not need it.
        from trireme_kube.client.rest import external_credentials

        renewal = await external_credentials.load(connection, config)
    elif connection.token_file:

        async def renewal(_: bool) -> None:
            transport_config.read_token_file(config, connection.token_file)

    credentials = Credentials(config, connection.origin, renewal, connection.impersonation, clock)
    _check_each_tls_file(connection, config)
    if not connection.in_cluster:  # a pod reaches its own API server without a proxy
        config.proxy = config.proxy or proxy_from_environment(config.host)
    return credentials


def _connection_of(source: Source) -> Connection:
    """The connection that `source` names. Raises: ConfigurationError, naming the file."""
    origin = f"kubeconfig {source.kubeconfig}" if source.kubeconfig else "--master"
    try:
        if source.kubeconfig or source.master:
            return kubeconfig_connection.from_kubeconfig(source.kubeconfig, source.master, os.environ)
        origin = "no kubeconfig and no master given, and no service account found"
        return kubeconfig_connection.in_cluster(os.environ)
    except ConfigurationError as error:
        raise ConfigurationError(f"{origin}: {error}") from error


def _check_each_tls_file(connection: Connection, config: TransportConfig) -> None:
    """Load each file separately, so that the message can name the field."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if config.ca_file:
        try:
            tls.load_verify_locations(cafile=config.ca_file)
        except (ssl.SSLError, OSError) as error:
            raise connection.cluster_error(
                ".certificate-authority", f"not a PEM certificate ({_tls_error_text(error)})"
            ) from error
    if config.cert_file:
        try:
            tls.load_cert_chain(config.cert_file, config.key_file, password=_refuse_password)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise connection.user_error(
                ".client-certificate and client-key", f"not a certificate and its key ({_tls_error_text(error)})"
            ) from error


def _refuse_password() -> str:
    """Raise ValueError when OpenSSL asks for a key's password, which would otherwise be read from the terminal."""
    # Without this callback OpenSSL asks on the terminal for an encrypted key's password, and the process hangs.
    raise ValueError("the key is encrypted")


def _tls_error_text(error: Exception) -> str:
    """Return what OpenSSL or the system says is wrong, without the file's name."""
    return str(getattr(error, "reason", None) or getattr(error, "strerror", None) or error)


def proxy_from_environment(host: str) -> str | None:
    """The proxy that the environment configures for `host`.

    aiohttp would look it up (and read ~/.netrc) per request, at 250 µs each: three times the cost of the request.
    """
    url = urllib.parse.urlsplit(host)
    name = url.hostname or ""
    if name == "localhost" or _is_loopback(name) or urllib.request.proxy_bypass(name):
        return None
    return urllib.request.getproxies().get(url.scheme)


def _is_loopback(name: str) -> bool:
    """Whether the host is a loopback address; a name is none."""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
