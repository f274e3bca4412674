"""HTTP connections to an API server, with the current credentials of one identity.

Writes go over our own connections (`write_pool`) unless there is a proxy, all else over an aiohttp session. When the
client certificate is renewed, new requests use new connections, and those in flight may finish on the old ones.

Also change: internal/trireme/rpc/tls_files.py (files that are replaced while in use).

Tests: tests/contract/test_kube_client.py, tests/contract/test_kube_informer.py.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import yarl

from trireme_kube.apimachinery.configuration_files import ConfigurationError
from trireme_kube.client.rest import credentials, errors, session, write_pool
from trireme_kube.client.rest.errors import ApiSilent, ApiUnreachable

log = logging.getLogger(__name__)


class Transport:
    """Sends requests with an identity's credentials, and has them renewed."""

    def __init__(self, identity: credentials.Credentials, user_agent: str, max_connections: int) -> None:
        """Raises: ConfigurationError, if the TLS files cannot be used."""
        self._identity = identity
        self._user_agent = user_agent
        self._max_connections = max_connections
        self._sessions: list[session.Session] = []  # the last is current; earlier ones close after their requests
        self._writes: write_pool.WritePool | None = None
        self._extra: dict[str, Any] = {}
        self._headers: dict[tuple[str, str], credentials.Headers] = {}
        self._open_session()

    @property
    def host(self) -> str:
        """The API server's URL."""
        return self._identity.host

    async def close(self) -> None:
        """Close all connections; requests in flight fail."""
        if self._writes is not None:
            self._writes.close()
        for each in self._sessions:
            await each.close()

    def headers(self, content_type: str, accept: str) -> credentials.Headers:
        """The headers of a request with a body and a response of these types, credentials included."""
        headers = self._headers.get((content_type, accept))
        if headers is None:
            headers = self._identity.headers.copy()
            headers["Accept"] = accept
            # Compressing a long list costs the API server more time than it saves on a cluster's network.
            headers["Accept-Encoding"] = "identity"
            headers["Content-Type"] = content_type
            headers["User-Agent"] = self._user_agent
            self._headers[content_type, accept] = headers
        return headers

    def refresh_due(self) -> bool:
        """Whether the credentials are about to expire, so that `refresh` has to be called before a request."""
        return self._identity.is_refresh_due()

    async def refresh(self, rejected: credentials.Headers | None = None) -> bool:
        """Renew the credentials; returns whether they changed. `rejected`: headers that were answered with 401."""
        certificate = self._identity.certificate
        sent = None
        if rejected is not None:
            # The credentials compare the rejected headers with their own: remove those added here.
            sent = rejected.copy()
            for name in ("Accept", "Accept-Encoding", "Content-Type", "User-Agent"):
                sent.popall(name, None)
        changed = await self._identity.refresh(sent)
        if changed:
            self._headers.clear()
            if self._identity.certificate != certificate:
                await self._replace_session()
        return changed

    def send(
        self, method: str, target: str, headers: credentials.Headers, body: bytes | None, seconds: float
    ) -> Awaitable[write_pool.Answer]:
        """Send one request and read the whole response, whatever its status. `target`: path and query, encoded.

        Raises: ApiUnreachable, if none came in time.
        """
        if self._writes is None or method == "GET":
            return self._send_over_session(method, target, headers, body, seconds)
        return self._writes.send(method, target, headers, body or b"", seconds)

    @asynccontextmanager
    async def stream(
        self, target: str, headers: credentials.Headers, *, total: float, idle: float
    ) -> AsyncIterator[ByteStream]:
        """Open an endless response; it ends after `total` seconds, or `idle` seconds without a byte.

        Raises: ApiUnreachable, if there is no response.
        """
        current = self._sessions[-1]
        async with current.in_use() as http:
            try:
                response = await http.request(
                    "GET",
                    self._url_of_target(target),
                    headers=headers,
                    timeout=aiohttp.ClientTimeout(total=total, sock_connect=idle, sock_read=idle),
                    **self._extra,
                )
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise unreachable(error, self.host) from error
            async with current.streaming(response):
                yield ByteStream(response, self.host)

    async def _send_over_session(
        self, method: str, target: str, headers: credentials.Headers, body: bytes | None, seconds: float
    ) -> write_pool.Answer:
        """Send a request over the newest session and read the whole answer, of whatever status."""
        try:
            async with (
                self._sessions[-1].in_use() as http,
                http.request(
                    method,
                    self._url_of_target(target),
                    data=body,
                    headers=headers,
                    timeout=aiohttp.ClientTimeout(total=seconds, sock_connect=seconds),
                    **self._extra,
                ) as response,
            ):
                content = await response.read()
                return write_pool.Answer(response.status, response.reason or "", response.headers, content)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise unreachable(error, self.host) from error

    def _url_of_target(self, target: str) -> yarl.URL:
        return yarl.URL(self._identity.host + target, encoded=True)

    async def _replace_session(self) -> None:
        """Switch to the new certificate; requests in flight may finish on the old one."""
        old = self._sessions[-1]
        try:
            self._open_session()
        except ConfigurationError as error:
            log.warning("%s; the certificate before stays in use until the files can be read", error)
            return
        await old.retire()
        self._sessions = [each for each in self._sessions if not each.closed]

    def _open_session(self) -> None:
        """Open a session and a pool for writes with the current certificate; they replace the former ones."""
        config = self._identity.config
        try:
            tls = config.load_tls_context()
        except OSError as error:  # ssl.SSLError is one
            raise ConfigurationError(f"{self._identity.origin}: TLS: {error.strerror or error}") from error
        # trust_env would look up proxies and ~/.netrc for every request; `credentials` did so once. Cookies: an API
        # server sets none, and a load balancer's would pin us. The buffer: events of a watch can be large.
        http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._max_connections, ssl=tls or True),
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=1 << 21,
        )
        # aiohttp would silently resend a PUT or DELETE when the connection closes; the 409 or 404 that the
        # second one gets would then be reported for a write that succeeded.
        http._retry_connection = False
        self._sessions.append(session.Session(http))
        self._extra = {"allow_redirects": False}
        if config.proxy:
            self._extra["proxy"] = config.proxy
        if config.tls_server_name:
            self._extra["server_hostname"] = config.tls_server_name
        if self._writes is not None:
            self._writes.close()
            self._writes = None
        if not config.proxy:
            self._writes = write_pool.WritePool(self.host, tls, config.tls_server_name, self._max_connections)


class ByteStream:
    """The bytes of an open watch as they arrive."""

    __slots__ = ("_host", "_response")

    def __init__(self, response: aiohttp.ClientResponse, host: str) -> None:
        self._response = response
        self._host = host

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self._response.status

    @property
    def reason(self) -> str:
        """The text beside the status."""
        return self._response.reason or ""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the response."""
        return self._response.headers

    @property
    def content_type(self) -> str:
        """The encoding it comes in."""
        return self._response.headers.get("Content-Type", "")

    def close(self) -> None:
        """Abort the stream: a pending `chunk` raises."""
        session.abort(self._response)

    async def chunk(self) -> bytes:
        """Return all bytes received since the last call, at least one; b"" at the end.

        Raises:
          ApiSilent: nothing arrived within the idle timeout.
          ApiUnreachable: the connection broke.
        """
        try:
            return await self._response.content.readany()
        except TimeoutError as error:
            raise ApiSilent(f"{self._host}: nothing more came in time", sent=True) from error
        except (aiohttp.ClientError, OSError) as error:
            raise unreachable(error, self._host) from error

    async def read_all(self) -> bytes:
        """Read everything up to the end. Raises as `chunk` does."""
        parts = []
        while part := await self.chunk():
            parts.append(part)
        return b"".join(parts)


def unreachable(error: Exception, host: str) -> ApiUnreachable:
    """Return the error to raise for an error of aiohttp: the request got no complete response."""
    connecting = isinstance(error, (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError))
    refused = isinstance(error, aiohttp.ClientConnectorError) and errors.is_connection_refused(error.os_error)
    if isinstance(error, TimeoutError) and not connecting:
        return ApiUnreachable(f"{host}: no answer in time", sent=True)
    dropped = isinstance(error, (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)) and not connecting
    text = f"{host}: {error or type(error).__name__}"
    return ApiUnreachable(text, sent=not connecting, refused=refused, dropped=dropped)
