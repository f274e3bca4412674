"""What hostile callers of the frontend's HTTPS server can do to it.

Connections that never end, requests that are too large, paths that mean another page, and old protocols. None of it may
keep a probe from its answer.
"""

import asyncio
import contextlib
import gzip
import ssl
import warnings
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.contract import serving_frontend as support
from trireme_kube.componentbase.server import connection_limits, http_site
from trireme_kube.componentbase.tls import tls_acceptor

_PROBE = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
_ANSWER_SECONDS = 10.0


def _client() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@contextlib.asynccontextmanager
async def _connection(
    served: support.Served, context: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port, ssl=context or _client())
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _exchange(served: support.Served, request: bytes) -> bytes:
    """The first bytes of the answer to a request."""
    async with asyncio.timeout(_ANSWER_SECONDS), _connection(served) as (reader, writer):
        writer.write(request)
        return await reader.read(1 << 16)


async def test_headers_that_never_end_close_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that sends a byte now and then would hold a connection, and its file descriptor, forever."""
    monkeypatch.setattr(connection_limits, "IDLE_SECONDS", 0.5)
    async with support.served(tmp_path, support.FakeFrontend()) as served, _connection(served) as (reader, writer):
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n")

        async def drip() -> None:
            while True:
                writer.write(b"X-A: b\r\n")
                await asyncio.sleep(0.05)

        dripping = asyncio.create_task(drip())
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                assert await reader.read() == b""
        finally:
            dripping.cancel()


async def test_a_second_request_has_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first request that is answered must not buy the connection more time for the second."""
    monkeypatch.setattr(connection_limits, "IDLE_SECONDS", 0.5)
    async with support.served(tmp_path, support.FakeFrontend()) as served, _connection(served) as (reader, writer):
        writer.write(_PROBE)
        assert (await reader.read(1 << 16)).startswith(b"HTTP/1.1 200")
        writer.write(b"GET /livez HTTP/1.1\r\n")
        async with asyncio.timeout(_ANSWER_SECONDS):
            assert await reader.read() == b""


async def test_a_body_that_never_ends_closes_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time for a request counts for its body too."""
    monkeypatch.setattr(http_site, "BODY_SECONDS", 0.5)
    async with support.served(tmp_path, support.FakeFrontend()) as served, _connection(served) as (reader, writer):
        writer.write(b"PUT /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc")
        async with asyncio.timeout(_ANSWER_SECONDS):
            assert (await reader.read()).startswith(b"HTTP/1.1 408")


async def test_many_connections_keep_no_probe_from_its_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle connections would use up the file descriptors that watches and calls need.

    A plain limit would lock out the kubelet, which restarts what does not answer.
    """
    monkeypatch.setattr(connection_limits, "MAX_CONNECTIONS", 8)
    async with support.served(tmp_path, support.FakeFrontend()) as served, contextlib.AsyncExitStack() as stack:
        held = [await stack.enter_async_context(_connection(served)) for _ in range(8)]
        held[0][1].write(_PROBE)  # it is not silent, unlike the second one
        await held[0][0].read(1 << 16)
        assert (await _exchange(served, _PROBE)).startswith(b"HTTP/1.1 200")
        async with asyncio.timeout(_ANSWER_SECONDS):
            with contextlib.suppress(ConnectionResetError):
                assert await held[1][0].read() == b""
        held[0][1].write(_PROBE)
        assert (await held[0][0].read(1 << 16)).startswith(b"HTTP/1.1 200")


async def test_handshakes_that_never_end_keep_no_probe_from_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that only opens connections must not use up the places for handshakes."""
    monkeypatch.setattr(tls_acceptor, "MAX_HANDSHAKES", 8)
    async with support.served(tmp_path, support.FakeFrontend()) as served, contextlib.AsyncExitStack() as stack:
        for _ in range(32):
            _, writer = await asyncio.open_connection("127.0.0.1", served.port)
            stack.callback(writer.close)
        assert (await _exchange(served, _PROBE)).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "request_bytes",
    [
        pytest.param(
            b"PUT /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n" + b"x" * 2_000_000, id="a-long-body"
        ),
        pytest.param(
            b"PUT /livez HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b"
            % (len(bomb := gzip.compress(bytes(200 << 20))), bomb),
            id="a-small-body-that-grows",
        ),
        pytest.param(b"GET /livez HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", id="a-long-header"),
        pytest.param(b"GET /" + b"l" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", id="a-long-path"),
    ],
)
async def test_a_request_that_is_too_large_is_refused(tmp_path: Path, request_bytes: bytes) -> None:
    """Memory is bounded for each request, and the next one is answered."""
    async with support.served(tmp_path, support.FakeFrontend()) as served:
        answer = await _exchange(served, request_bytes)
        assert answer.split(b" ", 2)[1] in (b"400", b"413"), answer[:200]
        assert (await _exchange(served, _PROBE)).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "path",
    [
        "/healthz/../configz",
        "/healthz/%2e%2e/configz",
        "/healthz%2f..%2fconfigz",
        "//configz",
        "/livez/../../etc/passwd",
        "/readyz/..%2ftrireme/v1/status",
        "/healthz/..;/metrics",
        "/%2e/metrics",
    ],
)
async def test_no_path_reaches_a_page_that_needs_permission(tmp_path: Path, path: str) -> None:
    """Authorisation and the site see the same path: what is open to everybody leads to nothing else."""
    async with support.served(tmp_path, support.FakeFrontend()) as served:
        answer = await _exchange(served, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert answer.split(b" ", 2)[1] in (b"403", b"404"), answer[:300]


async def test_old_protocols_are_refused(tmp_path: Path) -> None:
    """TLS 1.0 and 1.1 are broken; a caller that offers nothing newer gets no connection."""
    old = _client()
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        old.minimum_version = ssl.TLSVersion.TLSv1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    old.set_ciphers("DEFAULT:@SECLEVEL=0")
    async with support.served(tmp_path, support.FakeFrontend()) as served:
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            async with _connection(served, old):
                pass


@pytest.mark.parametrize("pods", ["-1", "1e9", "9" * 5000, "", "x", "1000000000"])
async def test_a_status_of_any_number_of_pods_is_bounded(tmp_path: Path, pods: str) -> None:
    """No number makes the answer fail or grow without limit."""
    frontend = support.FakeFrontend()
    for number in range(3):
        frontend.wait(support.pod(f"p{number}"))
    async with support.served(tmp_path, frontend) as served:
        token = support.TOKENS["admin"]
        request = f"GET /trireme/v1/status?pods={pods} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n"
        answer = await _exchange(served, request.encode())
        assert answer.split(b" ", 2)[1] in (b"200", b"400", b"414"), answer[:300]
