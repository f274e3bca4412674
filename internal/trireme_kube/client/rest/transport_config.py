"""What requests to an API server are sent with: its URL, TLS, a proxy, and the present Authorization header.

It is made of a `kubeconfig.connection.Connection`, in the form that OpenSSL and aiohttp take. Renewals of credentials
change it.

Also change: internal/trireme_kube/client/kubeconfig/connection.py,
internal/trireme_kube/componentbase/server/https_server.py (hosts in URLs).

Tests: tests/unit/client/rest/test_transport_config.py, tests/unit/client/rest/test_credentials.py.
"""

import base64
import dataclasses
import functools
import os
import pathlib
import ssl
import urllib.parse
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.client.kubeconfig import server_url
from trireme_kube.client.kubeconfig.connection import Connection

_MEMORY = "/proc/self/fd/"

#: Implementers: trireme_kube.client.rest.credentials.renewal, trireme_kube.client.rest.external_credentials.renew.
Renewal: TypeAlias = Callable[[bool], Awaitable[None]]
"""Renews the credentials; True: also those that have not expired, because they were rejected."""


@dataclasses.dataclass(slots=True)
class TransportConfig:
    """How requests are sent to an API server."""

    host: str  # its URL, without a slash at the end
    tls_server_name: str | None = None
    proxy: str | None = None
    verify: bool = True
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    authorization: str = ""

    def load_tls_context(self) -> ssl.SSLContext | None:
        """Load certificates and key into a TLS context; None for plain HTTP.

        Raises:
          OSError: a certificate or key is unusable.
        """
        if not self.host.startswith("https"):
            return None
        context = ssl.create_default_context(cafile=self.ca_file)
        if self.cert_file:
            context.load_cert_chain(self.cert_file, self.key_file)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def of_connection(connection: Connection) -> TransportConfig:
    """Make the configuration, with the credentials that the connection contains.

    Raises:
      ConfigurationError: the server's address is no URL of HTTP.
    """
    tls = connection.tls
    config = TransportConfig(
        _server_url(connection),
        tls.server_name or None,
        connection.proxy or None,
        not tls.insecure,
        _file_of(tls.ca_file, tls.ca_data),
        _file_of(tls.cert_file, tls.cert_data),
        _file_of(tls.key_file, tls.key_data),
    )
    if connection.token:
        config.authorization = f"Bearer {connection.token}"
    elif connection.username:
        pair = base64.b64encode(f"{connection.username}:{connection.password}".encode()).decode()
        config.authorization = f"Basic {pair}"
    return config


def _server_url(connection: Connection) -> str:
    """The URL of the server. Raises: ConfigurationError: its scheme or port is impossible."""
    host = connection.host or "localhost"
    try:
        url = server_url.parse_server(host, tls=server_url.means_tls(connection.tls))
        if url.scheme not in ("http", "https"):
            raise ValueError("not an http(s) URL")
        # With what `url` leaves out: user information, query.
        text = f"{url.scheme}{host[len(url.scheme) :]}" if "://" in host else f"{url.scheme}://{host}"
        _ = urllib.parse.urlsplit(text).port  # a port out of range is noticed only here
    except ValueError as error:
        raise connection.cluster_error(".server", f"{connection.host!r}: {error}") from error
    return text.rstrip("/")


def read_token_file(config: TransportConfig, path: str) -> None:
    """Read the token again from its file.

    Raises:
      ConfigurationError, OSError, ValueError: the file cannot be read, or is empty.
    """
    token = pathlib.Path(path).read_text(encoding="utf-8")
    if not token.strip():
        raise ConfigurationError(f"{path} is empty")
    config.authorization = f"Bearer {token}"


def _file_of(path: str, data: bytes) -> str | None:
    """A file with the data, else the one at the path; None if there is neither."""
    return _write_memory_file(data) if data else path or None


def is_in_memory(path: str) -> bool:
    """Whether the file exists in memory only, so that nobody can renew it."""
    return path.startswith(_MEMORY)


@functools.cache
def _write_memory_file(content: bytes) -> str:
    """Return an in-memory file with the content: OpenSSL reads certificates and keys from files only."""
    descriptor = os.memfd_create("kubeconfig")
    os.write(descriptor, content)
    return f"{_MEMORY}{descriptor}"
