"""The connection to an API server: its address, TLS, and the credentials that the kubeconfig itself contains.

Separate from `external_credentials`, which needs the `kubernetes` package: importing that takes as long as reading ten
thousand pods.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import os
import pathlib
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

_MEMORY = "/proc/self/fd/"

Renewal: TypeAlias = Callable[[bool], Awaitable[None]]
"""Renews the credentials of a connection; True: also those that have not expired, because they were rejected."""


@dataclasses.dataclass(slots=True)
class Connection:
    """How to reach the API server. Some names are the `kubernetes` package's, which sets these fields."""

    host: str = ""
    api_key: dict[str, str] = dataclasses.field(default_factory=dict)
    """The Authorization header, under "BearerToken", whatever its kind."""
    ssl_ca_cert: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify_ssl: bool = True
    tls_server_name: str | None = None
    proxy: str | None = None
    refresh_api_key_hook: Any = None

    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context; None for plain HTTP.

        Raises:
          OSError: a certificate or key is unusable.
        """
        if not self.host.startswith("https"):
            return None
        context = ssl.create_default_context(cafile=self.ssl_ca_cert)
        if self.cert_file:
            context.load_cert_chain(self.cert_file, self.key_file)
        if not self.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def from_kubeconfig(document: Mapping[str, Any]) -> Connection:
    """Build the connection from `kubeconfig.Context.document`, a kubeconfig that contains its credentials.

    Raises:
      OSError, ValueError: a file cannot be read.
    """
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    connection = Connection(
        host=cluster["server"],
        verify_ssl=not cluster.get("insecure-skip-tls-verify"),
        tls_server_name=cluster.get("tls-server-name"),
        proxy=cluster.get("proxy-url"),
    )
    if connection.host.startswith("https"):
        connection.ssl_ca_cert = _file_or_none(cluster, "certificate-authority")
        connection.cert_file = _file_or_none(user, "client-certificate")
        connection.key_file = _file_or_none(user, "client-key")
    reread_token_file(connection, document)
    return connection


def reread_token_file(connection: Connection, document: Mapping[str, Any]) -> None:
    """Read the token file again.

    Raises:
      OSError, ValueError: the file cannot be read.
    """
    user = document["users"][0]["user"]
    token = user.get("token")
    if user.get("tokenFile"):
        token = pathlib.Path(user["tokenFile"]).read_text(encoding="utf-8")
    if token:
        connection.api_key["BearerToken"] = f"Bearer {token}"
    elif "username" in user and "password" in user:
        pair = base64.b64encode(f"{user['username']}:{user['password']}".encode()).decode()
        connection.api_key["BearerToken"] = f"Basic {pair}"


def _file_or_none(entry: Mapping[str, Any], field: str) -> str | None:
    """Return the file of a kubeconfig's field, an in-memory one for its `-data` form; None if it has neither."""
    data = entry.get(f"{field}-data")
    return _write_memory_file(base64.b64decode(data)) if data else entry.get(field)


def is_in_memory(path: str) -> bool:
    """Whether the file exists in memory only, so that nobody can renew it."""
    return path.startswith(_MEMORY)


@functools.cache
def _write_memory_file(content: bytes) -> str:
    """Return an in-memory file with the content: OpenSSL reads certificates and keys from files only."""
    descriptor = os.memfd_create("kubeconfig")
    os.write(descriptor, content)
    return f"{_MEMORY}{descriptor}"
