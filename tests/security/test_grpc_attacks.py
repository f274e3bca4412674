"""What hostile callers of the phases' gRPC servers can do.

Callers with the wrong certificate at every RPC, calls and connections that are held, messages that are too large, and
old protocols. The real processes are attacked.
"""

import asyncio
import contextlib
import socket
import ssl
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pool
from grpc import aio
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.contract import contract_services
from tests.e2e import installation
from trireme.rpc import grpc_server
from trireme.v1 import (
    bind_phase_pb2,
    filter_phase_pb2,
    insight_pb2,
    plugin_pb2,
    plugin_pb2_grpc,
    score_phase_pb2,
    snapshot_pb2,
)
from trireme_kube.embedded.cluster import EmbeddedCluster

_DECLARED = (bind_phase_pb2, filter_phase_pb2, insight_pb2, score_phase_pb2, snapshot_pb2, plugin_pb2)
"""Loaded so that the pool has their descriptors."""

_REFUSED = {grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAVAILABLE}
_SECONDS = 10.0


@dataclass(frozen=True)
class _Attacked:
    """A phase that serves over TLS, and the certificates of everybody."""

    phase: str
    address: str
    certificates: Path
    others: Path
    pid: int

    def credentials(self, caller: Path | None) -> grpc.ChannelCredentials:
        """What a caller with the certificate in that folder presents; None: a caller without one."""
        pair = ((caller / "tls.key").read_bytes(), (caller / "tls.crt").read_bytes()) if caller else (None, None)
        return grpc.ssl_channel_credentials((self.certificates / "ca.crt").read_bytes(), *pair)

    @contextlib.asynccontextmanager
    async def channel(self, caller: Path | None) -> AsyncIterator[aio.Channel]:
        """A connection with that caller's certificate."""
        options = (
            ("grpc.ssl_target_name_override", f"trireme-{self.phase}"),
            ("grpc.max_send_message_length", -1),
            ("grpc.use_local_subchannel_pool", 1),
        )
        async with aio.secure_channel(self.address, self.credentials(caller), options=options) as channel:
            yield channel


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The certificates of one authority for everybody, and those of another."""
    folder = tmp_path_factory.mktemp("certificates")
    return installation.make_certificates(folder / "ours"), installation.make_certificates(folder / "others")


@contextlib.contextmanager
def _process(phase: str, certificates: tuple[Path, Path], *flags: str) -> Iterator[_Attacked]:
    ours, others = certificates
    command = [
        sys.executable,
        str(contract_services.ROOT / "cmd" / phase),
        "--listen=127.0.0.1:0",
        f"--tls-cert-file={ours / phase / 'tls.crt'}",
        f"--tls-private-key-file={ours / phase / 'tls.key'}",
        f"--client-ca-file={ours / 'ca.crt'}",
        "--allowed-identities=trireme-frontend",
        *flags,
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip().removeprefix("listening on ")
        yield _Attacked(phase, address, ours, others, process.pid)
    finally:
        process.terminate()
        process.communicate(timeout=contract_services.DEADLINE)


@pytest.fixture(params=["filter", "score", "bind", "insight"])
async def attacked(
    request: pytest.FixtureRequest, certificates: tuple[Path, Path], tmp_path: Path
) -> AsyncIterator[_Attacked]:
    """Each phase in turn."""
    async with contextlib.AsyncExitStack() as stack:
        flags = []
        if request.param == "bind":
            cluster = await stack.enter_async_context(EmbeddedCluster(nodes=1))
            cluster.write_kubeconfig(tmp_path / "kubeconfig")
            flags = [f"--kubeconfig={tmp_path / 'kubeconfig'}"]
        yield stack.enter_context(_process(request.param, certificates, *flags))


@pytest.fixture
def filtering(certificates: tuple[Path, Path]) -> Iterator[_Attacked]:
    """A filter: what holds for the server of one phase holds for all."""
    with _process("filter", certificates) as process:
        yield process


async def _services(channel: aio.Channel) -> list[str]:
    """What a server says that it serves."""
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    call = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]), timeout=_SECONDS)
    return [service.name async for answer in call for service in answer.list_services_response.service]


async def _silence() -> AsyncIterator[bytes]:
    """A stream on which nothing is sent: writing into a call that is refused by then is an error of its own."""
    await asyncio.Event().wait()
    yield b""


async def _code(channel: aio.Channel, path: str, streaming: tuple[bool, bool]) -> grpc.StatusCode:
    """How an empty call of a method ends."""
    requests, responses = streaming
    shape = f"{'stream' if requests else 'unary'}_{'stream' if responses else 'unary'}"
    call: Any = getattr(channel, shape)(path)
    begun = call(_silence() if requests else b"", timeout=_SECONDS)
    try:
        if responses:
            async for _ in begun:
                return grpc.StatusCode.OK
        else:
            await begun
    except aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def test_every_rpc_refuses_every_wrong_caller(attacked: _Attacked) -> None:
    """One method that forgets to check would let any pod with a certificate bind pods, or read the whole cluster."""
    wrong = {
        "no certificate": None,
        "another authority": attacked.others / "frontend",
        "itself": attacked.certificates / attacked.phase,
        **{name: attacked.certificates / name for name in ("filter", "score", "bind", "insight")},
    }
    async with attacked.channel(attacked.certificates / "frontend") as channel:
        services = await _services(channel)
    assert len(services) >= 4, services
    pool: Any = descriptor_pool.Default()
    methods = [method for service in services for method in pool.FindServiceByName(service).methods]
    for name, caller in wrong.items():
        async with attacked.channel(caller) as channel:
            for method in methods:
                path = f"/{method.containing_service.full_name}/{method.name}"
                if path == "/grpc.health.v1.Health/Check" and caller is not None:
                    continue  # the kubelet's probes have no certificate of ours
                code = await _code(channel, path, (method.client_streaming, method.server_streaming))
                assert code in _REFUSED, f"{path} by {name}: {code}"


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/grpc.health.v1.Health/Watch", id="an-answer-that-never-ends"),
        pytest.param("/trireme.v1.FilterPhase/Filter", id="a-request-that-never-comes"),
        pytest.param("/trireme.v1.SnapshotFollower/Sync", id="a-stream-that-never-begins"),
    ],
)
async def test_held_calls_of_strangers_leave_room_for_the_frontend(filtering: _Attacked, path: str) -> None:
    """Every call counts against the limit of concurrent ones, so a stranger's must end before anything is awaited."""
    async with filtering.channel(filtering.certificates / "score") as stranger:
        call: Any = stranger.stream_stream(path)
        held = [call() for _ in range(grpc_server.MAX_CONCURRENT_CALLS + 100)]
        if "health" in path:
            await asyncio.gather(*(each.write(b"") for each in held), return_exceptions=True)
        await asyncio.sleep(1)
        async with filtering.channel(filtering.certificates / "frontend") as channel:
            info = await plugin_pb2_grpc.PluginServiceStub(channel).GetPluginInfo(
                plugin_pb2.GetPluginInfoRequest(), timeout=_SECONDS
            )
        assert info.instance
        for each in held:
            each.cancel()


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
async def test_a_message_that_is_too_large_is_refused(filtering: _Attacked, compression: grpc.Compression) -> None:
    """200 MiB of zeros are 200 kB on the wire: the limit counts what they become."""
    async with filtering.channel(filtering.certificates / "frontend") as channel:
        before = _resident_mebibytes(filtering.pid)
        call: Any = channel.unary_unary("/trireme.v1.FilterPhase/Filter")
        with pytest.raises(aio.AioRpcError) as caught:
            await call(bytes(200 << 20), timeout=_SECONDS, compression=compression)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert _resident_mebibytes(filtering.pid) < before + 100
        stub = plugin_pb2_grpc.PluginServiceStub(channel)
        assert (await stub.GetPluginInfo(plugin_pb2.GetPluginInfoRequest(), timeout=_SECONDS)).instance


async def test_connections_that_say_nothing_are_closed(filtering: _Attacked) -> None:
    """Each holds a file descriptor; a caller without a certificate gets no further than that."""
    host, _, port = filtering.address.rpartition(":")
    async with contextlib.AsyncExitStack() as stack:
        readers = []
        for _ in range(200):
            reader, writer = await asyncio.open_connection(host, int(port))
            stack.callback(writer.close)
            readers.append(reader)
        async with filtering.channel(filtering.certificates / "frontend") as channel:
            stub = plugin_pb2_grpc.PluginServiceStub(channel)
            assert (await stub.GetPluginInfo(plugin_pb2.GetPluginInfoRequest(), timeout=_SECONDS)).instance
        async with asyncio.timeout(grpc_server.HANDSHAKE_SECONDS + 10):
            for reader in readers:
                assert await reader.read() == b""


def test_old_protocols_are_refused(filtering: _Attacked) -> None:
    """TLS 1.0 and 1.1 are broken; a caller that offers nothing newer gets no connection."""
    for versions, works in (
        ((ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1), False),
        ((ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3), True),
    ):
        context = ssl.create_default_context(cafile=filtering.certificates / "ca.crt")
        folder = filtering.certificates / "frontend"
        context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            context.minimum_version, context.maximum_version = versions
        host, _, port = filtering.address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=_SECONDS) as plain:
            context.set_alpn_protocols(["h2"])
            expected = contextlib.nullcontext() if works else pytest.raises((ssl.SSLError, ConnectionResetError))
            with expected, context.wrap_socket(plain, server_hostname="trireme-filter") as secure:
                assert secure.version() in ("TLSv1.2", "TLSv1.3")


def _resident_mebibytes(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024
