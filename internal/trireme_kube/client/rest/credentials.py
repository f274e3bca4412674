"""Our identity towards the API server, and its address: kubeconfig, service account, `--master`.

`connection` reads credentials contained in a kubeconfig; `external_credentials` obtains those of a program, an identity
provider or a service account. This module adds what both need: it reports a wrong file in one line that names the file
and the field, and it renews credentials that rotate. Invariant: once `load` returns, every file that the connection
needs has been read and parsed, so a mistake shows at start and not at the first request.

As kube-scheduler chooses: a kubeconfig if one is given, with `--master` replacing its server; `--master` alone without
credentials; neither: the pod's service account.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import ipaddress
import logging
import pathlib
import ssl
import time
import types
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import multidict

from trireme_kube.client.rest import connection, kubeconfig
from trireme_kube.client.rest.errors import KubeconfigError

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
        configuration: connection.Connection,
        origin: str,
        renewal: connection.Renewal | None = None,
        extra_headers: Sequence[tuple[str, str]] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.configuration = configuration
        self.origin = origin
        self._renewal = renewal
        self._extra_headers = extra_headers
        self._clock = clock
        self._files = _file_versions(configuration)
        self._due = clock() + RENEWAL_SECONDS if renewal or self._files else float("inf")
        self._lock = asyncio.Lock()
        self.headers: Headers = self._make_headers()

    @property
    def host(self) -> str:
        """The server's URL, without a slash at its end."""
        return str(self.configuration.host).rstrip("/")

    @property
    def certificate(self) -> tuple[object, ...]:
        """The TLS files in use, and their versions.

        The value changes when a credential plugin gives another certificate, and when somebody renews the files.
        """
        return self.configuration.cert_file, self.configuration.key_file, self._files

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
        except (KubeconfigError, OSError, ValueError) as error:
            log.warning("credentials of %s could not be renewed: %s", self.origin, error)

    def _load_renewed_certificates(self) -> None:
        """Load certificates that were renewed.

        Raises: OSError for a pair that does not fit, as one half of it was not written yet.
        """
        files = _file_versions(self.configuration)
        if files != self._files:
            self.configuration.tls()
            self._files = files

    def _make_headers(self) -> Headers:
        """Return the headers of each request: impersonation and the bearer token."""
        headers = multidict.CIMultiDict(self._extra_headers)
        token = self.configuration.api_key.get("BearerToken")
        if token:
            # Token files often end with a newline, which no header may contain.
            headers["Authorization"] = token.strip()
        return headers


def _file_versions(configuration: connection.Connection) -> tuple[object, ...]:
    """The versions of the certificates and keys on disk; empty if the connection needs none."""
    files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
    if not configuration.host.startswith("https"):
        return ()
    return tuple(file_version(pathlib.Path(path)) for path in files if path and not connection.is_in_memory(path))


def file_version(path: pathlib.Path) -> tuple[object, ...]:
    """A value that differs after every rewrite of the file."""
    try:
        stat = path.stat()
    except OSError:
        return (path,)
    return path, stat.st_ino, stat.st_mtime_ns, stat.st_size


async def load(source: Source, clock: Callable[[], float] = time.monotonic) -> Credentials:
    """Load and check the configuration that `source` names.

    Raises:
      KubeconfigError: naming the file and the field at fault.
    """
    if not source.kubeconfig and not source.master:
        config, renewal = _load_external_credentials().in_cluster()
        return Credentials(config, "the pod's service account", renewal, clock=clock)
    context = kubeconfig.read(source.kubeconfig, source.master)
    if context.has_external_credentials:
        config, renewal = await _load_external_credentials().load(context)
    else:
        config, renewal = _connection_and_renewal_of(context)
    credentials = Credentials(config, context.origin, renewal, context.impersonation, clock)
    _check_each_tls_file(context, config)
    config.proxy = config.proxy or proxy_from_environment(credentials.host)
    return credentials


def _load_external_credentials() -> types.ModuleType:
    """Import the module on demand: the package it needs costs time at every start."""
    # Importing the package takes a fifth of a frontend's start, and most deployments do not need it.
    from trireme_kube.client.rest import external_credentials

    return external_credentials


def _connection_and_renewal_of(context: kubeconfig.Context) -> tuple[connection.Connection, connection.Renewal | None]:
    """Make the connection of a kubeconfig with its own credentials, and what renews it; None if nothing rotates.

    Raises: KubeconfigError.
    """
    try:
        config = connection.from_kubeconfig(context.document)
    except (OSError, ValueError) as error:
        raise context.field_error("user", " ".join(str(error).split())) from error

    async def renew(_: bool) -> None:
        connection.reread_token_file(config, context.document)

    return config, renew if context.rotates else None


def _check_each_tls_file(context: kubeconfig.Context, configuration: connection.Connection) -> None:
    """Load each file separately, so that the message can name the field."""
    if not str(configuration.host).startswith("https"):
        return
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if configuration.ssl_ca_cert:
        try:
            tls.load_verify_locations(cafile=configuration.ssl_ca_cert)
        except (ssl.SSLError, OSError) as error:
            raise context.field_error(
                "cluster.certificate-authority", f"not a PEM certificate ({_tls_error_text(error)})"
            ) from error
    if configuration.cert_file:
        try:
            tls.load_cert_chain(configuration.cert_file, configuration.key_file, password=_refuse_password)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise context.field_error(
                "user.client-certificate and client-key", f"not a certificate and its key ({_tls_error_text(error)})"
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
