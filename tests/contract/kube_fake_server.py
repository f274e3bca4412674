"""A loopback HTTP server whose answers a test scripts, and certificates for it.

Not an API server: each test says what one would answer in the situation that it is about, also what no healthy one
does (half answers, closed connections, silence).
"""

import asyncio
import contextlib
import dataclasses
import datetime
import ipaddress
import pathlib
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import orjson
import yaml
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from trireme_kube.componentbase import clocks


@dataclasses.dataclass(frozen=True)
class Seen:
    """A request that came."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return orjson.loads(self.body)


Script = Callable[[web.Request, Seen], Awaitable[web.StreamResponse]]


@dataclasses.dataclass
class FakeServer:
    """The running server: where it is, what came, and what it does (replaceable while it runs)."""

    url: str
    script: Script
    seen: list[Seen] = dataclasses.field(default_factory=list)

    def of(self, method: str) -> list[Seen]:
        """The requests of one method."""
        return [seen for seen in self.seen if seen.method == method]


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """A JSON answer."""
    return web.Response(body=orjson.dumps(value), status=status, headers=headers, content_type="application/json")


def failure(code: int, reason: str, message: str = "no", headers: dict[str, str] | None = None) -> web.Response:
    """An API server's error."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
    return answer(status, code, headers)


def end_of_list(version: int) -> bytes:
    """The line of a watch that ends the objects with which it began."""
    metadata = {"resourceVersion": str(version), "annotations": {"k8s.io/initial-events-end": "true"}}
    return line("BOOKMARK", {"kind": "Thing", "metadata": metadata})


def without_streams(script: Script) -> Script:
    """The script of a server that does not know how to stream a list."""

    async def refusing(request: web.Request, seen: Seen) -> web.StreamResponse:
        if "sendInitialEvents" in seen.query:
            return failure(422, "Invalid", "sendInitialEvents is forbidden for watch")
        return await script(request, seen)

    return refusing


def line(kind: str, obj: dict[str, Any]) -> bytes:
    """One line of a watch."""
    return orjson.dumps({"type": kind, "object": obj}) + b"\n"


def thing(name: str, version: int) -> dict[str, Any]:
    """An object."""
    return {"metadata": {"name": name, "namespace": "default", "resourceVersion": str(version)}}


def listing(version: int, *items: dict[str, Any], more: str = "") -> web.Response:
    """A page of a list."""
    return answer({"kind": "List", "metadata": {"resourceVersion": str(version), "continue": more}, "items": items})


async def stream(request: web.Request) -> web.StreamResponse:
    """Opens the answer to a watch."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    return response


@contextlib.asynccontextmanager
async def serving(script: Script, tls: ssl.SSLContext | None = None, port: int = 0) -> AsyncIterator[FakeServer]:
    """Runs a server in this event loop."""
    server = FakeServer("", script)

    async def handle(request: web.Request) -> web.StreamResponse:
        seen = Seen(request.method, request.path, dict(request.query), dict(request.headers), await request.read())
        server.seen.append(seen)
        return await server.script(request, seen)

    runner = web.ServerRunner(web.Server(handle), shutdown_timeout=0.1)  # type: ignore[arg-type]  # a handler may take web.Request, as aiohttp documents
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls)
    await site.start()
    bound = runner.addresses[0][1]
    server.url = f"{'https' if tls else 'http'}://127.0.0.1:{bound}"
    try:
        yield server
    finally:
        await runner.cleanup()


@contextlib.contextmanager
def serving_in_a_thread(script: Script) -> Iterator[FakeServer]:
    """Runs a server that goes on while the test's own event loop is blocked."""
    started: list[FakeServer] = []
    ready = threading.Event()
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def run() -> None:
        stop = asyncio.Event()
        async with serving(script) as server:
            started.append(server)
            loops.append((asyncio.get_running_loop(), stop))
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    assert ready.wait(10)
    loop, stop = loops[0]
    try:
        yield started[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)


def write_kubeconfig(folder: pathlib.Path, server: str, cluster: dict[str, Any], user: dict[str, Any]) -> str:
    """Writes a kubeconfig of one context; answers its path."""
    path = folder / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "test",
                "contexts": [{"name": "test", "context": {"cluster": "here", "user": "me"}}],
                "clusters": [{"name": "here", "cluster": {"server": server, **cluster}}],
                "users": [{"name": "me", "user": user}],
            }
        )
    )
    return str(path)


class Authority:
    """A certificate authority for one test."""

    def __init__(self, folder: pathlib.Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._sign(self._name, self._key.public_key(), authority=True)
        self.path = folder / f"{name}.crt"
        self.path.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str, password: bytes | None = None) -> tuple[str, str]:
        """Files of a certificate for 127.0.0.1 and clients, and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate_path, key_path = self._folder / f"{name}.crt", self._folder / f"{name}.key"
        certificate = self._sign(subject, key.public_key(), authority=False)
        certificate_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        protection = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        key_path.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection)
        )
        return str(certificate_path), str(key_path)

    def server_context(self) -> ssl.SSLContext:
        """TLS for a server that asks its clients for certificates of this authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.issue("server"))
        context.load_verify_locations(self.path)
        context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def _sign(self, subject: x509.Name, key: ec.EllipticCurvePublicKey, authority: bool) -> x509.Certificate:
        now = clocks.utc_now()
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        )
        return builder.sign(self._key, hashes.SHA256())
