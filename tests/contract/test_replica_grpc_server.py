"""The server under every phase: who may call, certificates that change, health, reflection, and stopping."""

import asyncio
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.contract.certificates import Authority, Pair
from trireme.frontend.phase_clients import replica_link
from trireme.rpc import grpc_server
from trireme.rpc.fencing import REASON_METADATA, Refusal, RefusalReason
from trireme.rpc.grpc_server import ReplicaServer, Service, refuse
from trireme.rpc.listen_flags import Listener, ListenError, make_listener
from trireme.v1 import bind_pb2, bind_phase_pb2, bind_phase_pb2_grpc, plugin_pb2, plugin_pb2_grpc

INFO = plugin_pb2.GetPluginInfoRequest()


class _Plugin(plugin_pb2_grpc.PluginServiceServicer):
    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.refusal: Refusal | None = None

    async def GetPluginInfo(self, request: Any, context: Any) -> plugin_pb2.GetPluginInfoResponse:
        self.begun.set()
        await self.go_on.wait()
        if self.refusal is not None:
            await refuse(context, self.refusal)
        return plugin_pb2.GetPluginInfoResponse(instance="x")


class _LargeAnswers(_Plugin):
    async def GetPluginInfo(self, request: Any, context: Any) -> plugin_pb2.GetPluginInfoResponse:
        return plugin_pb2.GetPluginInfoResponse(instance="x" * (40 << 20))


class _Bind(bind_phase_pb2_grpc.BindPhaseServicer):
    async def Bind(self, request: Any, context: Any) -> AsyncIterator[bind_pb2.BindResponse]:
        yield bind_pb2.BindResponse(results=[bind_pb2.BindResult(index=1)])
        yield bind_pb2.BindResponse(results=[bind_pb2.BindResult(index=2)])

    async def Apply(self, request: Any, context: Any) -> None:
        await context.write(bind_phase_pb2.ApplyResponse(results=[bind_pb2.BindResult(index=3)]))


@asynccontextmanager
async def serving(listener: Listener, plugin: _Plugin | None = None) -> AsyncIterator[tuple[ReplicaServer, str]]:
    """A server with two services, and its address."""
    implementation = plugin or _Plugin()
    server = ReplicaServer(
        listener,
        [
            Service(
                plugin_pb2.DESCRIPTOR.services_by_name["PluginService"],
                lambda it: plugin_pb2_grpc.add_PluginServiceServicer_to_server(implementation, it),
            ),
            Service(
                bind_phase_pb2.DESCRIPTOR.services_by_name["BindPhase"],
                lambda it: bind_phase_pb2_grpc.add_BindPhaseServicer_to_server(_Bind(), it),
            ),
        ],
    )
    address = await server.start()
    try:
        yield server, address.text
    finally:
        await server.stop(0)


def credentials(authority: Authority, client: Pair | None = None) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(
        authority.certificate, client.key if client else None, client.certificate if client else None
    )


async def ask(address: str, secure: grpc.ChannelCredentials | None = None) -> grpc.StatusCode:
    """How a call ends."""
    channel = aio.insecure_channel(address) if secure is None else aio.secure_channel(address, secure)
    async with channel:
        try:
            await plugin_pb2_grpc.PluginServiceStub(channel).GetPluginInfo(INFO, timeout=20)
        except aio.AioRpcError as error:
            return error.code()
    return grpc.StatusCode.OK


def mutual(folder: Path, authority: Authority, *identities: str) -> Listener:
    """A listener with mutual TLS on loopback."""
    certificate, key = authority.issue("server").write(folder, "server")
    (folder / "ca.crt").write_bytes(authority.certificate)
    return make_listener(
        "127.0.0.1:0",
        certificate=str(certificate),
        private_key=str(key),
        client_ca=str(folder / "ca.crt"),
        identities=identities,
    )


async def test_a_phase_may_answer_at_length(tmp_path: Path) -> None:
    """Where each of many nodes refuses a pod by a text of its own, the pod failed with RESOURCE_EXHAUSTED forever."""
    async with serving(make_listener(f"unix:{tmp_path}/x.sock"), _LargeAnswers()) as (_, address):
        async with aio.insecure_channel(address, options=replica_link.CHANNEL_OPTIONS) as channel:
            answer = await plugin_pb2_grpc.PluginServiceStub(channel).GetPluginInfo(INFO, timeout=20)
        assert len(answer.instance) == 40 << 20


async def test_a_unix_socket_is_accessible_to_its_owner_only(tmp_path: Path) -> None:
    """Another user of the machine cannot give orders."""
    async with serving(make_listener(f"unix:{tmp_path}/x.sock")) as (_, address):
        assert stat.S_IMODE((tmp_path / "x.sock").stat().st_mode) == 0o600
        assert await ask(address) is grpc.StatusCode.OK


@pytest.mark.parametrize(
    ("common_name", "dns_names", "expected"),
    [
        pytest.param("frontend", (), grpc.StatusCode.OK, id="common-name"),
        pytest.param("x", ("a.b", "trireme-frontend.kube-system.svc"), grpc.StatusCode.OK, id="dns-name"),
        pytest.param("stranger", ("other",), grpc.StatusCode.PERMISSION_DENIED, id="stranger"),
        pytest.param(None, (), grpc.StatusCode.UNAVAILABLE, id="no-certificate"),
    ],
)
async def test_only_allowed_identities_may_call(
    tmp_path: Path, common_name: str | None, dns_names: tuple[str, ...], expected: grpc.StatusCode
) -> None:
    """Any certificate of the authority gets a connection, but only the named ones an answer."""
    authority = Authority()
    listener = mutual(tmp_path, authority, "frontend", "trireme-frontend.kube-system.svc")
    client = authority.issue(common_name, *dns_names) if common_name else None
    async with serving(listener) as (_, address):
        assert await ask(address, credentials(authority, client)) is expected


async def test_a_certificate_of_another_authority_is_refused(tmp_path: Path) -> None:
    """The name in a certificate counts for nothing without the right signature."""
    authority = Authority()
    async with serving(mutual(tmp_path, authority, "frontend")) as (_, address):
        stranger = Authority("another").issue("frontend")
        assert await ask(address, credentials(authority, stranger)) is grpc.StatusCode.UNAVAILABLE


async def test_identities_hold_for_streams_and_not_for_health(tmp_path: Path) -> None:
    """Every kind of call is guarded; health may be asked by anybody who connects."""
    authority = Authority()
    async with serving(mutual(tmp_path, authority, "frontend")) as (_, address):
        for name, allowed in (("frontend", True), ("stranger", False)):
            async with aio.secure_channel(address, credentials(authority, authority.issue(name))) as channel:
                stub = bind_phase_pb2_grpc.BindPhaseStub(channel)
                healthy = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=20)
                assert healthy.status == health_pb2.HealthCheckResponse.SERVING
                bind, apply = (
                    stub.Bind(bind_pb2.BindRequest(), timeout=20),
                    stub.Apply(bind_phase_pb2.ApplyRequest(), timeout=20),
                )
                if allowed:
                    assert [result.index async for response in bind for result in response.results] == [1, 2]
                    assert [result.index async for response in apply for result in response.results] == [3]
                    continue
                for call in (bind, apply):
                    with pytest.raises(aio.AioRpcError) as caught:
                        await call.read()
                    assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED


async def test_certificates_are_replaced_while_serving(tmp_path: Path) -> None:
    """A renewed certificate is used for the next connection; a half-written one is not, and does no harm."""
    old, new = Authority("old"), Authority("new")
    async with serving(mutual(tmp_path, old, "frontend")) as (_, address):
        assert await ask(address, credentials(old, old.issue("frontend"))) is grpc.StatusCode.OK
        renewed = new.issue("server")
        (tmp_path / "server.crt").write_bytes(renewed.certificate)  # the key does not fit yet
        assert await ask(address, credentials(old, old.issue("frontend"))) is grpc.StatusCode.OK
        (tmp_path / "server.key").write_bytes(renewed.key)
        (tmp_path / "ca.crt").write_bytes(new.certificate)
        assert await ask(address, credentials(new, new.issue("frontend"))) is grpc.StatusCode.OK
        assert await ask(address, credentials(old, old.issue("frontend"))) is grpc.StatusCode.UNAVAILABLE
        (tmp_path / "server.crt").unlink()
        assert await ask(address, credentials(new, new.issue("frontend"))) is grpc.StatusCode.OK


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        pytest.param("server.crt", "--tls-cert-file", id="certificate"),
        pytest.param("server.key", "--tls-private-key-file", id="key"),
        pytest.param("ca.crt", "--client-ca-file", id="authority"),
    ],
)
@pytest.mark.parametrize("how", ["missing", "garbage"])
async def test_bad_files_stop_the_start(tmp_path: Path, spoil: str, named: str, how: str) -> None:
    """One line names the flag and the file, before anything listens."""
    listener = mutual(tmp_path, Authority(), "frontend")
    if how == "missing":
        (tmp_path / spoil).unlink()
    else:
        (tmp_path / spoil).write_bytes(b"-----BEGIN NONSENSE-----\n")
    with pytest.raises(ListenError, match=f"{named}: .*{spoil}"):
        async with serving(listener):
            pass


async def test_a_key_of_another_certificate_stops_the_start(tmp_path: Path) -> None:
    """A pair that does not fit would fail at every handshake instead."""
    authority = Authority()
    listener = mutual(tmp_path, authority, "frontend")
    (tmp_path / "server.key").write_bytes(authority.issue("other").key)
    with pytest.raises(ListenError, match="not the key of"):
        async with serving(listener):
            pass


async def test_an_address_that_is_taken_is_refused(tmp_path: Path) -> None:
    """Two processes never share a port by chance, and a socket in use is not taken from its owner."""
    async with serving(make_listener("127.0.0.1:0")) as (_, address):
        with pytest.raises(ListenError, match="--listen"):
            async with serving(make_listener(address)):
                pass
    socket = make_listener(f"unix:{tmp_path}/x.sock")
    async with serving(socket) as (_, address):
        with pytest.raises(ListenError, match="another process listens there"):
            async with serving(socket):
                pass
        assert await ask(address) is grpc.StatusCode.OK
    (tmp_path / "file").write_text("precious")
    with pytest.raises(ListenError, match="no socket"):
        async with serving(make_listener(f"unix:{tmp_path}/file")):
            pass
    assert (tmp_path / "file").read_text() == "precious"


async def test_a_socket_left_behind_is_no_obstacle(tmp_path: Path) -> None:
    """A process that was killed leaves its socket; the next one starts all the same."""
    listener = make_listener(f"unix:{tmp_path}/x.sock")
    async with serving(listener):
        (tmp_path / "x.sock").rename(tmp_path / "kept")
    (tmp_path / "kept").rename(tmp_path / "x.sock")
    async with serving(listener) as (_, address):
        assert await ask(address) is grpc.StatusCode.OK


async def test_stopping_lets_calls_finish_and_takes_no_new_ones(tmp_path: Path) -> None:
    """A call under way gets its answer; who asks later goes elsewhere."""
    plugin = _Plugin()
    plugin.go_on.clear()
    async with serving(make_listener(f"unix:{tmp_path}/x.sock"), plugin) as (server, address):
        under_way = asyncio.create_task(ask(address))
        await plugin.begun.wait()
        async with aio.insecure_channel(address) as channel:
            watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=20)
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
            stopping = asyncio.create_task(server.stop(60))
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
            watch.cancel()
        # CANCELLED if the server accepts the connection before it stops listening.
        assert await ask(address) in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
        plugin.go_on.set()
        assert await under_way is grpc.StatusCode.OK
        await stopping


async def test_reflection_lists_the_services(tmp_path: Path) -> None:
    """Tools find out what a phase serves without the .proto files."""
    async with (
        serving(make_listener(f"unix:{tmp_path}/x.sock")) as (_, address),
        aio.insecure_channel(address) as channel,
    ):
        call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(
            iter([reflection_pb2.ServerReflectionRequest(list_services="")]), timeout=20
        )
        names = {service.name for service in (await call.read()).list_services_response.service}
    assert {"trireme.v1.PluginService", "trireme.v1.BindPhase", "grpc.health.v1.Health"} <= names


@pytest.mark.parametrize("reason", list(RefusalReason))
async def test_a_refusal_reaches_the_caller_with_its_reason(tmp_path: Path, reason: RefusalReason) -> None:
    """The caller acts on the code and the reason, not on the text."""
    plugin = _Plugin()
    plugin.refusal = Refusal(reason, "because")
    async with (
        serving(make_listener(f"unix:{tmp_path}/x.sock"), plugin) as (_, address),
        aio.insecure_channel(address) as channel,
    ):
        with pytest.raises(aio.AioRpcError) as caught:
            await plugin_pb2_grpc.PluginServiceStub(channel).GetPluginInfo(INFO, timeout=20)
    expected = grpc.StatusCode.UNAVAILABLE if plugin.refusal.transient else grpc.StatusCode.FAILED_PRECONDITION
    assert caught.value.code() is expected
    assert dict(caught.value.trailing_metadata() or ())[REASON_METADATA] == reason.value


async def test_the_pings_of_the_frontend_are_welcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keepalive = dict(replica_link.CHANNEL_OPTIONS)["grpc.keepalive_time_ms"]
    assert keepalive > 2 * grpc_server.MIN_PING_INTERVAL_MS
    # As often as gRPC lets it, once a second; the third that is not welcome is the last.
    monkeypatch.setattr(grpc_server, "MIN_PING_INTERVAL_MS", 100)
    options = [("grpc.keepalive_time_ms", 1000), ("grpc.http2.max_pings_without_data", 0)]
    async with (
        serving(make_listener(f"unix:{tmp_path}/s.sock")) as (_, address),
        aio.insecure_channel(address, options=options) as channel,
    ):
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        await watch.read()
        with pytest.raises(TimeoutError):  # the stream has nothing more to say, and is not ended either
            async with asyncio.timeout(4.5):
                await watch.read()
