"""The HTTP side of extenders: what a bad one is told to have done, and how connections to it are secured."""

import asyncio
import dataclasses
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.contract import certificates
from tools.controlplane import ports
from trireme.config import scheduler_configuration
from trireme.extenders import extender_client, extender_wire
from trireme_kube.apimachinery import golang
from trireme_kube.componentbase.tls.client_tls import ClientTLS

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

TIMEOUT = golang.Duration(300_000_000)


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """What the frontend shares between its extenders."""
    async with aiohttp.ClientSession() as made:
        yield made


class _Server:
    def __init__(self, handler: Handler, tls: ssl.SSLContext | None = None) -> None:
        self._runner = web.AppRunner(web.Application(), shutdown_timeout=0.1)
        self._runner.app.router.add_post("/ext/{verb}", handler)
        self._tls = tls

    async def __aenter__(self) -> str:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls).start()
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._runner.addresses[0][1]}/ext/"

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()
        await asyncio.sleep(0.05)


def _answering(body: bytes, status: int = 200) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        await request.read()
        return web.Response(body=body, status=status)

    return handle


async def _slow(request: web.Request) -> web.StreamResponse:
    await asyncio.sleep(5)
    return web.Response()


async def _endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b'{"NodeNames":[')
    await asyncio.sleep(5)
    return response


async def _hangs_up(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def _talks_nonsense(request: web.Request) -> web.StreamResponse:
    assert isinstance(request.transport, asyncio.WriteTransport)
    request.transport.write(b"what is this\r\n\r\n")
    return await _hangs_up(request)


def _redirecting(location: str) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        return web.Response(status=307, headers={"Location": location})

    return handle


def _filter_of(answer: Any) -> Any:
    return extender_wire.decode_filter_result(answer, names_only=True)


@pytest.mark.parametrize(
    ("handler", "text"),
    [
        pytest.param(_answering(b"no", 500), "failed filter with extender at URL {url}filter, code 500", id="500"),
        pytest.param(_answering(b"", 404), "failed filter with extender at URL {url}filter, code 404", id="404"),
        pytest.param(_answering(b"{}", 201), "failed filter with extender at URL {url}filter, code 201", id="201"),
        pytest.param(_answering(b""), "EOF", id="empty"),
        pytest.param(_answering(b'{"NodeNames":'), "unexpected EOF", id="cut"),
        pytest.param(_answering(b"<html>"), "invalid character '<' looking for beginning of value", id="html"),
        pytest.param(
            _answering(b'["n0"]'),
            "json: cannot unmarshal array into Go value of type v1.ExtenderFilterResult",
            id="list",
        ),
        pytest.param(
            _answering(b'{"nodenames": "n0"}'),
            "json: cannot unmarshal string into Go struct field ExtenderFilterResult.NodeNames of type []string",
            id="string",
        ),
        pytest.param(
            _answering(b'{"FailedNodes": {"n0": 1}}'),
            "json: cannot unmarshal number into Go struct field ExtenderFilterResult.FailedNodes of type string",
            id="number",
        ),
        pytest.param(_answering(b'{"Error": "no licence"}'), "no licence", id="its own error"),
        pytest.param(_answering(b'{"Error": "half \\ud800"}'), "half \ufffd", id="half a character"),
        pytest.param(
            _answering(b'{"NodeNames": NaN}'), "invalid character 'N' looking for beginning of value", id="not a number"
        ),
        pytest.param(_answering(b"[" * 20_000), "invalid character '[' exceeded max depth", id="deep"),
        pytest.param(
            _answering(b'{"x":' + b"[" * 20_000 + b"]" * 20_000 + b"}"),
            "invalid character '[' exceeded max depth",
            id="deep and whole",
        ),
        pytest.param(_answering(b'{"NodeNames":["' + b"x" * (2 << 20)), "unexpected EOF", id="long and cut"),
        pytest.param(
            _slow,
            'Post "{url}filter": context deadline exceeded (Client.Timeout exceeded while awaiting headers)',
            id="slow",
        ),
        pytest.param(
            _endless,
            "context deadline exceeded (Client.Timeout or context cancellation while reading body)",
            id="slow body",
        ),
        pytest.param(_hangs_up, 'Post "{url}filter": EOF', id="hangs up"),
        pytest.param(_redirecting("filter"), 'Post "{url}filter": stopped after 10 redirects', id="in circles"),
        pytest.param(
            _redirecting("ftp://a/b"), 'Post "{url}filter": unsupported protocol scheme "ftp"', id="to another protocol"
        ),
        pytest.param(
            _talks_nonsense,
            'Post "{url}filter": net/http: HTTP/1.x transport connection broken: malformed HTTP response',
            id="no HTTP",
        ),
    ],
)
async def test_a_bad_response_has_the_error_text_of_kube_scheduler(
    session: aiohttp.ClientSession, handler: Handler, text: str
) -> None:
    """The event of a pod says what its extender did; without the text nobody can tell which program is at fault."""
    async with _Server(handler) as url:
        client = extender_client.ExtenderClient(
            session, scheduler_configuration.Extender(url_prefix=url, http_timeout=TIMEOUT)
        )
        with pytest.raises(extender_wire.ExtenderError) as caught:
            _filter_of(await client.send("filter", b"{}"))
    assert str(caught.value) == text.format(url=url)


async def test_an_unreachable_extender_is_reported_with_its_address(session: aiohttp.ClientSession) -> None:
    """An extender that is down is named by its address."""
    (port,) = ports.free_ports(1)
    client = extender_client.ExtenderClient(
        session, scheduler_configuration.Extender(url_prefix=f"http://127.0.0.1:{port}", http_timeout=TIMEOUT)
    )
    with pytest.raises(extender_wire.ExtenderError) as caught:
        await client.send("filter", b"{}")
    address = f"127.0.0.1:{port}"
    assert str(caught.value) == f'Post "http://{address}/filter": dial tcp {address}: connect: connection refused'


async def test_bytes_after_the_first_json_value_are_ignored(session: aiohttp.ClientSession) -> None:
    """Go decodes one value and looks no further; an extender that appends something goes on working."""
    async with _Server(_answering(b' {"nodeNames": ["n1"]}\n{"x": 1} trailing')) as url:
        client = extender_client.ExtenderClient(
            session, scheduler_configuration.Extender(url_prefix=url, http_timeout=TIMEOUT)
        )
        assert _filter_of(await client.send("filter", b"{}")).names == ("n1",)


@dataclasses.dataclass(frozen=True)
class _Tls:
    authority: certificates.Authority
    server: ssl.SSLContext


@pytest.fixture
def tls(tmp_path: Path) -> _Tls:
    """A server that wants client certificates of the same authority."""
    authority = certificates.Authority()
    certificate, key = authority.issue("server").write(tmp_path, "server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(cadata=authority.certificate.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    return _Tls(authority, context)


async def _subject(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    peer = request.transport.get_extra_info("peercert") or {}
    names = [value for entry in peer.get("subject", ()) for key, value in entry if key == "commonName"]
    return web.json_response({"NodeNames": names})


async def test_https_with_authority_and_client_certificate(session: aiohttp.ClientSession, tls: _Tls) -> None:
    """The extender is checked by the authority named, and gets the client certificate."""
    pair = tls.authority.issue("scheduler")
    settings = ClientTLS(ca_data=tls.authority.certificate, cert_data=pair.certificate, key_data=pair.key)
    async with _Server(_subject, tls.server) as url:
        config = scheduler_configuration.Extender(
            url_prefix=url, enable_https=True, tls_config=settings, http_timeout=TIMEOUT
        )
        client = extender_client.ExtenderClient(session, config)
        assert _filter_of(await client.send("filter", b"{}")).names == ("scheduler",)


async def test_a_renewed_client_certificate_is_used(session: aiohttp.ClientSession, tls: _Tls, tmp_path: Path) -> None:
    """Certificates live for hours: an extender would refuse the scheduler as soon as the first one has run out."""
    now = 0.0
    certificate, key = tls.authority.issue("first").write(tmp_path, "client")
    settings = ClientTLS(ca_data=tls.authority.certificate, cert_file=str(certificate), key_file=str(key))
    async with _Server(_subject, tls.server) as url:
        config = scheduler_configuration.Extender(
            url_prefix=url, enable_https=True, tls_config=settings, http_timeout=TIMEOUT
        )
        client = extender_client.ExtenderClient(session, config, lambda: now)

        async def caller() -> tuple[str, ...]:
            return tuple(_filter_of(await client.send("filter", b"{}")).names)

        assert await caller() == ("first",)
        renewed = tls.authority.issue("second")
        Path(certificate).write_bytes(renewed.certificate)
        now += 2
        # Half of the pair was not written yet.
        assert await caller() == ("first",)
        Path(key).write_bytes(renewed.key)
        now += 2
        assert await caller() == ("second",)


async def test_https_without_authority_trusts_anybody(session: aiohttp.ClientSession, tls: _Tls) -> None:
    """As in kube-scheduler, enableHTTPS without an authority checks nothing; an unknown one named is refused."""
    async with _Server(_subject, tls.server) as url:
        config = scheduler_configuration.Extender(url_prefix=url, enable_https=True, http_timeout=TIMEOUT)
        assert _filter_of(await extender_client.ExtenderClient(session, config).send("filter", b"{}")).names == ()
        other = ClientTLS(ca_data=certificates.Authority("another").certificate)
        strict = extender_client.ExtenderClient(session, dataclasses.replace(config, tls_config=other))
        with pytest.raises(extender_wire.ExtenderError, match="failed to verify certificate"):
            await strict.send("filter", b"{}")
