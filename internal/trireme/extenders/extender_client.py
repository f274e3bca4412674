"""The HTTP client of one extender: posts a body to a verb's URL and returns the JSON value of the response.

An extender is not trusted: the whole exchange has its configured deadline, the response has a size limit, and every
failure becomes one error with the text of Go's HTTP client.

Source: pkg/scheduler/extender.go (send, makeTransport).

Also change: docs/extenders.md.
"""

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp

from trireme.config import scheduler_configuration
from trireme.extenders import extender_wire
from trireme_kube.apimachinery import golang
from trireme_kube.client.rest import credentials
from trireme_kube.componentbase.tls.client_tls import ClientTLS

log = logging.getLogger(__name__)

# Larger than the nodes of any cluster as JSON.
MAX_ANSWER_BYTES = 512 << 20
_CHUNK_BYTES = 1 << 20
_MAX_REDIRECTS = 10
# How often certificate files are checked.
CHECK_SECONDS = 1.0
# Small enough to parse on the event loop.
_LONG_BYTES = 1 << 20


class ExtenderClient:
    """Posts requests to one extender over HTTP, with the errors that kube-scheduler would report."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        config: scheduler_configuration.Extender,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises: OSError or ValueError: a certificate or key cannot be used."""
        self._session = session
        self._prefix = config.url_prefix.rstrip("/")
        self._timeout = aiohttp.ClientTimeout(total=config.http_timeout.seconds)
        self._server_name = config.tls_config.server_name if config.tls_config is not None else ""
        self._tls = _TlsContext(config, clock)
        self._proxy = credentials.proxy_from_environment(config.url_prefix)

    async def send(self, verb: str, body: bytes) -> Any:
        """Post to the verb; return the JSON value of the response. Raises: ExtenderError in Go's words.

        Any status but 200, a time-out, and a body that is no JSON are errors; nothing is repeated.
        """
        url = f"{self._prefix}/{verb}"
        answered = False
        try:
            async with self._session.post(
                url,
                data=body,
                headers={"Content-Type": "application/json"},
                timeout=self._timeout,
                ssl=self._tls.context(),
                server_hostname=self._server_name or None,
                proxy=self._proxy,
                max_redirects=_MAX_REDIRECTS,
            ) as response:
                answered = True
                if response.status != 200:
                    raise extender_wire.ExtenderError(
                        f"failed {verb} with extender at URL {url}, code {response.status}"
                    )
                return await _decode_json(await _read_bounded(response))
        except TimeoutError as error:
            if answered:
                text = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
                raise extender_wire.ExtenderError(text) from error
            text = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            raise extender_wire.ExtenderError(f'Post "{url}": {text}') from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if answered:
                raise extender_wire.ExtenderError("unexpected EOF") from error
            raise extender_wire.ExtenderError(f'Post "{url}": {_go_error_text(error)}') from error


class _TlsContext:
    """The TLS context of one extender; reloads certificate files when they change.

    A connection keeps the context it was made with, so requests after a renewal use new connections.
    Source: client-go transport.TLSConfigFor (cachingCertificateLoader).
    """

    def __init__(self, config: scheduler_configuration.Extender, clock: Callable[[], float]) -> None:
        """Raises: OSError or ValueError: a certificate or key cannot be used."""
        self._config = config
        self._clock = clock
        self._stamp = _read_file_versions(config)
        self._checked_at = clock()
        self._context = load_tls_context(config)

    def context(self) -> ssl.SSLContext:
        """The context for the next request."""
        now = self._clock()
        if now - self._checked_at >= CHECK_SECONDS:
            self._checked_at = now
            stamp = _read_file_versions(self._config)
            if stamp != self._stamp:
                self._stamp = stamp
                self._reload_context()
        return self._context

    def _reload_context(self) -> None:
        """Read the certificate files again; if they cannot be used, the context before stays in use."""
        try:
            self._context = load_tls_context(self._config)
        except (OSError, ValueError) as error:  # one of the files may not be written yet
            text = "extender %s: %s; the certificate before stays in use until the files can be read"
            log.warning(text, self._config.url_prefix, error)


def _read_file_versions(config: scheduler_configuration.Extender) -> tuple[object, ...]:
    tls = config.tls_config or ClientTLS()
    files = ((tls.ca_data, tls.ca_file), (tls.cert_data, tls.cert_file), (tls.key_data, tls.key_file))
    return tuple(credentials.read_file_version(Path(file)) for data, file in files if file and not data)


async def _decode_json(body: bytes) -> Any:
    """Decode a response's first JSON value; a long one in a thread."""
    if len(body) <= _LONG_BYTES:
        return extender_wire.decode_first_value(body)
    # Parsing a large response may take long, and the event loop must not block.
    return await asyncio.to_thread(extender_wire.decode_first_value, body)


async def _read_bounded(response: aiohttp.ClientResponse) -> bytes:
    """Read the whole response. Raises: ExtenderError if it is too long."""
    parts = bytearray()
    async for part in response.content.iter_chunked(_CHUNK_BYTES):
        parts += part
        if len(parts) > MAX_ANSWER_BYTES:
            raise extender_wire.ExtenderError(f"the answer is longer than {MAX_ANSWER_BYTES} bytes")
        # An endless response must not starve the event loop.
        await asyncio.sleep(0)
    return bytes(parts)


def _go_error_text(error: Exception) -> str:
    """The error of a request as Go's net/http words it."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"tls: failed to verify certificate: {error.certificate_error}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {error.host}: no such host"
    if isinstance(error, aiohttp.ClientConnectorError):
        address = f"[{error.host}]:{error.port}" if ":" in error.host else f"{error.host}:{error.port}"
        return f"dial tcp {address}: connect: {_go_os_error_text(error.os_error)}"
    if isinstance(error, aiohttp.TooManyRedirects):
        return f"stopped after {_MAX_REDIRECTS} redirects"
    if isinstance(error, aiohttp.NonHttpUrlClientError):
        return f"unsupported protocol scheme {golang.quote(str(error).partition(':')[0])}"
    if isinstance(error, aiohttp.InvalidURL):
        return "unsupported protocol scheme" if error.description is None else str(error.description)
    if isinstance(error, aiohttp.ClientResponseError):
        # The response is not HTTP. The parser's message has several lines, and bytes of the response.
        return "net/http: HTTP/1.x transport connection broken: malformed HTTP response"
    return str(error) or type(error).__name__


def _go_os_error_text(error: OSError) -> str:
    """The operating system's error in Go's words."""
    if error.errno == errno.ECONNREFUSED:
        return "connection refused"
    if isinstance(error, socket.gaierror):
        return "no such host"
    return (error.strerror or str(error)).lower()


def load_tls_context(config: scheduler_configuration.Extender) -> ssl.SSLContext:
    """Load the TLS context of an extender. Raises: OSError or ValueError."""
    tls = config.tls_config or ClientTLS()
    has_authorities = bool(tls.ca_data or tls.ca_file)
    insecure = tls.insecure or (config.enable_https and not has_authorities)
    has_pair = bool((tls.cert_data or tls.cert_file) and (tls.key_data or tls.key_file))
    context = ssl.create_default_context()
    if has_authorities:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        pem = tls.ca_data.decode("ascii", "replace") if tls.ca_data else Path(tls.ca_file).read_text()
        context.load_verify_locations(cadata=pem)
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if has_pair:
        with (
            _write_temporary_file(tls.cert_data, tls.cert_file) as certificate,
            _write_temporary_file(tls.key_data, tls.key_file) as key,
        ):
            context.load_cert_chain(certificate, key, password=_refuse_encrypted_key)
    return context


@contextlib.contextmanager
def _write_temporary_file(data: bytes, file: str) -> Iterator[str]:
    """Yield the name of a temporary file with the data, or `file` if there is none: OpenSSL reads only files."""
    if not data:
        yield file
        return
    with tempfile.NamedTemporaryFile(prefix="trireme-extender-") as out:
        out.write(data)
        out.flush()
        yield out.name


def _refuse_encrypted_key() -> str:
    """Refuse, as OpenSSL's callback for the password of an encrypted key. Raises: ValueError, always."""
    # Without this callback OpenSSL asks on the terminal for an encrypted key's password, and the process hangs.
    raise ValueError("the key is encrypted")
