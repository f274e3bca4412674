"""How one service calls another: with which certificates, whom it expects there, and what a renewal does to streams."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from tests.contract.certificates import Authority
from tests.contract.linked_frontend import Frontend
from tools.controlplane import ports
from trireme.config import remote_plugin_settings, service_tls, trireme_configuration
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.frontend import handle
from trireme.frontend.phase_clients import bind_phase_client
from trireme.phases import phase_process
from trireme.remote import remote_client, remote_connection
from trireme.rpc import dialing, follower, grpc_server, listen_flags
from trireme.scheduling import waiting_pods
from trireme.snapshot import snapshot
from trireme.v1 import (
    bind_phase_pb2,
    bind_phase_pb2_grpc,
    cycle_pb2,
    frontend_pb2,
    frontend_pb2_grpc,
    plugin_pb2,
    snapshot_pb2,
)

FILES = {"cert_file": "tls.crt", "key_file": "tls.key", "ca_file": "ca.crt"}
NAME = "trireme-filter.kube-system.svc"


class Side:
    """The files of one side of a connection."""

    def __init__(self, folder: Path, authority: Authority, common_name: str, *names: str) -> None:
        self.folder = folder
        self.common_name = common_name
        self.names = names
        self.issue(authority)

    def issue(self, authority: Authority, trusted: bytes = b"") -> None:
        """New files; `trusted` is who vouches for the other side, where that is not the same authority alone."""
        authority.issue(self.common_name, *self.names).write(self.folder, "tls")
        (self.folder / "ca.crt").write_bytes(trusted or authority.certificate)

    def dialer(self, *identities: str) -> dialing.Dialer:
        folder = self.folder
        return dialing.Dialer(
            dialing.TlsSettings(f"{folder}/ca.crt", f"{folder}/tls.crt", f"{folder}/tls.key", identities)
        )


@contextlib.asynccontextmanager
async def serve(
    side: Side, address: str = "127.0.0.1:0", services: Sequence[grpc_server.Service] = ()
) -> AsyncIterator[str]:
    """A follower that the frontend alone may call; its address."""
    follow = follower.Follower(snapshot.Snapshot(), lambda configuration: None)
    hosted = phase_process.PhasePluginService("i", {plugin_pb2.EXTENSION_POINT_FILTER: dict})
    listener = listen_flags.make_listener(
        address,
        certificate=f"{side.folder}/tls.crt",
        private_key=f"{side.folder}/tls.key",
        client_ca=f"{side.folder}/ca.crt",
        identities=("frontend",),
        guarded=True,
    )
    server = grpc_server.ReplicaServer(listener, [*phase_process.shared_services(follow, hosted), *services])
    found = await server.start()
    try:
        yield found.text
    finally:
        await server.stop(0)


async def test_a_phase_with_another_identity_is_not_used(tmp_path: Path) -> None:
    """Any certificate of the authority would do else: a filter could stand in for bind, and get every pod."""
    authority = Authority()
    caller = Side(tmp_path / "frontend", authority, "frontend")
    async with serve(Side(tmp_path / "filter", authority, "filter", NAME)) as address:
        for identities, expected in (((NAME,), True), (("trireme-bind.kube-system.svc",), False)):
            frontend = Frontend(caller.dialer(*identities))
            frontend.links.set_endpoints([address])
            if expected:
                await frontend.follows()
            else:
                await frontend.fails(f"its certificate is not for {identities[0]}, as tls.allowedIdentities wants")
            await frontend.links.close()


@pytest.mark.parametrize("wrong", ["expired", "not yet valid", "another authority", "no TLS"])
async def test_why_tls_refuses_a_phase_is_in_words(tmp_path: Path, wrong: str) -> None:
    """The library's text names neither the setting nor what was expected: nobody would find out at night."""
    authority = Authority()
    caller = Side(tmp_path / "frontend", authority, "frontend")
    side = Side(tmp_path / "filter", authority, "filter", NAME)
    told = "UNAVAILABLE: its certificate, or that of its authority, has expired "
    told += "(https://trireme.dev/docs/runbooks#triremecertificateexpires)"
    if wrong == "expired":
        authority.issue("filter", NAME, hours=-0.5).write(side.folder, "tls")
    if wrong == "not yet valid":
        authority.issue("filter", NAME, begins=0.5).write(side.folder, "tls")
        told = "UNAVAILABLE: its certificate, or that of its authority, is not valid yet, by the clock of this host "
        told += "(https://trireme.dev/docs/troubleshooting.html#clocks-that-differ)"
    if wrong == "another authority":
        side.issue(Authority("another"), trusted=authority.certificate)
        told = "UNAVAILABLE: its certificate is of no authority in tls.caFile ("
    if wrong == "no TLS":
        told = "UNAVAILABLE: it does not speak TLS, as tls says it does"
    async with _served_without_tls() if wrong == "no TLS" else serve(side) as address:
        frontend = Frontend(caller.dialer(NAME))
        frontend.links.set_endpoints([address])
        await frontend.fails(told)
        await frontend.links.close()


@pytest.mark.parametrize(
    ("hours", "begins", "problem"),
    [(-0.5, -1.0, "expired at "), (1.0, 0.5, "not valid before ")],
    ids=["expired", "not-yet-valid"],
)
async def test_our_own_certificate_is_named_if_a_phase_cannot_accept_it(
    tmp_path: Path, hours: float, begins: float, problem: str
) -> None:
    """The phase ends the connection without a reason: every phase would look broken, and none is."""
    authority = Authority()
    caller = Side(tmp_path / "frontend", authority, "frontend")
    authority.issue("frontend", hours=hours, begins=begins).write(caller.folder, "tls")
    async with serve(Side(tmp_path / "filter", authority, "filter", NAME)) as address:
        frontend = Frontend(caller.dialer(NAME))
        frontend.links.set_endpoints([address])
        await frontend.fails(f"; tls.certFile: {caller.folder}/tls.crt: {problem}")
        await frontend.links.close()


@contextlib.asynccontextmanager
async def _served_without_tls() -> AsyncIterator[str]:
    server = aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(0)


async def test_files_that_are_being_written_do_not_hinder_another_dialer(tmp_path: Path) -> None:
    """A reload of the configuration at that moment ended the leader: its plugins are connected to anew."""
    authority = Authority()
    caller = Side(tmp_path / "frontend", authority, "frontend")
    in_use = caller.dialer(NAME)
    (tmp_path / "frontend" / "tls.key").write_bytes(authority.issue("frontend").key)  # its certificate comes later
    async with serve(Side(tmp_path / "filter", authority, "filter", NAME)) as address:
        frontend = Frontend(caller.dialer(NAME))
        frontend.links.set_endpoints([address])
        await frontend.follows()
        await frontend.links.close()
    assert in_use.reloads == 0


def test_files_that_were_never_valid_are_refused(tmp_path: Path) -> None:
    """The first use names the mistake, instead of a connection without a certificate."""
    authority = Authority()
    caller = Side(tmp_path / "frontend", authority, "frontend")
    (tmp_path / "frontend" / "tls.key").write_bytes(authority.issue("frontend").key)
    with pytest.raises(listen_flags.ListenError, match="not the key of"):
        caller.dialer(NAME)


async def test_a_proxy_of_the_environment_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pods have HTTPS_PROXY for the outside world, no phase would be reached, or the proxy sees the cluster."""
    for variable in ("http_proxy", "https_proxy", "grpc_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    authority = Authority()
    caller = Side(tmp_path / "frontend", authority, "frontend")
    async with serve(Side(tmp_path / "filter", authority, "filter", NAME)) as address:
        frontend = Frontend(caller.dialer(NAME))
        frontend.links.set_endpoints([address])
        await frontend.follows()
        await frontend.links.close()


async def test_one_of_several_identities_is_enough(tmp_path: Path) -> None:
    """A name that is being changed is allowed in the old and the new form for a while."""
    authority = Authority()
    caller = Side(tmp_path / "frontend", authority, "frontend")
    async with serve(Side(tmp_path / "filter", authority, "filter", NAME)) as address:
        frontend = Frontend(caller.dialer("old-name", NAME))
        frontend.links.set_endpoints([address])
        await frontend.follows()
        await frontend.links.close()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("no certificate", "UNAVAILABLE"),
        ("another authority", "UNAVAILABLE"),
        ("another identity", "PERMISSION_DENIED"),
    ],
)
async def test_a_wrong_caller_gets_no_stream(tmp_path: Path, wrong: str, told: str) -> None:
    """The stream brings every pod and node: who is not the frontend must neither open nor replace it."""
    authority = Authority()
    stranger = Side(tmp_path / "stranger", authority, "stranger" if wrong == "another identity" else "frontend")
    if wrong == "another authority":
        stranger.issue(Authority("another"), trusted=authority.certificate)
    dialer = stranger.dialer(NAME)
    if wrong == "no certificate":
        dialer = dialing.Dialer(dialing.TlsSettings(f"{stranger.folder}/ca.crt", identities=(NAME,)))
    async with serve(Side(tmp_path / "filter", authority, "filter", NAME)) as address:
        frontend = Frontend(dialer)
        frontend.links.set_endpoints([address])
        await frontend.fails(told)
        await frontend.links.close()


async def test_a_renewal_on_both_sides_drops_no_stream_and_counts_for_the_next(tmp_path: Path) -> None:
    """Certificates live for hours, streams for weeks.

    After a renewal by a new authority the old certificates are worth nothing, and a frontend that went on with them
    could never connect again.
    """
    old, new = Authority("old"), Authority("new")
    caller = Side(tmp_path / "frontend", old, "frontend")
    phase = Side(tmp_path / "filter", old, "filter", NAME)
    frontend = Frontend(caller.dialer(NAME))
    async with serve(phase) as address:
        frontend.links.set_endpoints([address])
        await frontend.follows()
        for side in (caller, phase):
            side.issue(new)
        frontend.add_nodes(3)
        generation = frontend.publish()
        async with asyncio.timeout(20):
            while frontend.link.acknowledged < generation:
                await asyncio.sleep(0.01)
        assert frontend.link.full_syncs == 1
    async with serve(phase, address):
        async with asyncio.timeout(20):
            while frontend.link.full_syncs < 2 or not frontend.link.in_step:
                await asyncio.sleep(0.01)
        await frontend.links.close()


class _Bind(bind_phase_pb2_grpc.BindPhaseServicer):
    async def Fence(self, request: Any, context: Any) -> bind_phase_pb2.FenceResponse:
        return bind_phase_pb2.FenceResponse(epoch=1)


def _bind_service() -> grpc_server.Service:
    return grpc_server.Service(
        bind_phase_pb2.DESCRIPTOR.services_by_name["BindPhase"],
        lambda server: bind_phase_pb2_grpc.add_BindPhaseServicer_to_server(_Bind(), server),
    )


async def test_bind_is_found_again_after_a_renewal(tmp_path: Path) -> None:
    """As for the stream: a channel that was made with the old certificates would try with them forever."""
    old, new = Authority("old"), Authority("new")
    caller = Side(tmp_path / "frontend", old, "frontend")
    phase = Side(tmp_path / "bind", old, "bind", NAME)
    binders = bind_phase_client.BindPhaseClient(
        cycle_pb2.Fence, bind_phase_pb2.FenceRequest, caller.dialer(NAME), 60.0, lambda: None
    )

    async def until(available: bool) -> None:
        async with asyncio.timeout(20):
            while binders.available != available:
                await asyncio.sleep(0.01)

    async with serve(phase, services=[_bind_service()]) as address:
        binders.set_endpoints([address])
        await until(True)
    await until(False)
    for side in (caller, phase):
        side.issue(new)
    async with serve(phase, address, [_bind_service()]):
        await until(True)
        await binders.close()


async def test_a_plugin_is_found_again_after_a_renewal(tmp_path: Path) -> None:
    """As for the phases; a plugin's connection is made by every process that asks it."""
    old, new = Authority("old"), Authority("new")
    caller = Side(tmp_path / "frontend", old, "frontend")
    plugin = Side(tmp_path / "plugin", old, "plugin", NAME)
    method = remote_connection.Method("/trireme.v1.PluginService/GetPluginInfo", plugin_pb2.GetPluginInfoResponse)
    folder = caller.folder
    tls = snapshot_pb2.RemotePluginTls(
        ca_file=f"{folder}/ca.crt",
        certificate_file=f"{folder}/tls.crt",
        private_key_file=f"{folder}/tls.key",
        allowed_identities=[NAME],
    )

    async def asked() -> str:
        return await connection.call(method, b"", lambda response: response.instance)

    async with serve(plugin) as address:
        config = snapshot_pb2.RemotePlugin(name="P", endpoints=[address], deadline_ms=5000, tls=tls)
        connection = remote_connection.PluginConnection(config)
        assert await asked() == "i"
    for side in (caller, plugin):
        side.issue(new)
    async with serve(plugin, address):
        async with asyncio.timeout(20):
            while True:
                with contextlib.suppress(remote_connection.PluginError):
                    assert await asked() == "i"
                    break
                await asyncio.sleep(0.05)
        await connection.close()


def _permit_plugin(name: str, **fields: Any) -> remote_plugin_settings.RemotePlugin:
    return remote_plugin_settings.RemotePlugin(name, "unix:/p", (ExtensionPoint.PERMIT,), **fields)


async def test_a_plugin_decides_in_its_own_name_only(tmp_path: Path) -> None:
    """A caller of the Handle service decides in any plugin's name which pods are bound."""
    authority = Authority()
    side = Side(tmp_path / "frontend", authority, "frontend", "trireme-frontend.default.svc")
    files = {name: f"{side.folder}/{file}" for name, file in FILES.items()}
    (port,) = ports.free_ports(1)
    config = trireme_configuration.TriremeConfiguration(
        tls=service_tls.TLS(**files),
        handle=trireme_configuration.Handle(f"127.0.0.1:{port}", ("operator.default.svc",)),
        remote_plugins=(
            _permit_plugin("A", handle_identities=("a.default.svc",)),
            _permit_plugin("B", tls=service_tls.TLS(ca_file="/ca", allowed_identities=("b.default.svc",))),
        ),
    )
    answers: dict[str, list[str]] = {}
    service = handle.HandleService(config, waiting_pods.WaitingPods(), lambda pods: [])
    async with handle.serve(config, service):
        for name in ("a.default.svc", "b.default.svc", "operator.default.svc", "stranger.default.svc"):
            pair = authority.issue("x", name)
            credentials = grpc.ssl_channel_credentials(authority.certificate, pair.key, pair.certificate)
            async with aio.secure_channel(config.handle.listen, credentials) as channel:
                stub = frontend_pb2_grpc.HandleServiceStub(channel)
                answers[name] = [
                    (await _code(call)).name
                    for plugin in ("A", "B", "GangScheduling")
                    for call in (
                        stub.Allow(frontend_pb2.AllowRequest(plugin=plugin), timeout=10),
                        stub.Reject(frontend_pb2.RejectRequest(plugin=plugin, message="no"), timeout=10),
                    )
                ]
                answers[name].append((await _code(stub.Activate(frontend_pb2.ActivateRequest(), timeout=10))).name)
    found, denied, wrong = ["NOT_FOUND"] * 2, ["PERMISSION_DENIED"] * 2, ["INVALID_ARGUMENT"] * 2
    assert answers == {
        "a.default.svc": [*found, *denied, *wrong, "OK"],
        "b.default.svc": [*denied, *found, *wrong, "OK"],
        "operator.default.svc": [*denied, *denied, *wrong, "OK"],
        "stranger.default.svc": ["PERMISSION_DENIED"] * 7,
    }


async def _code(call: Any) -> grpc.StatusCode:
    try:
        await call
    except aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def test_a_local_caller_may_only_act_for_remote_plugins(tmp_path: Path) -> None:
    """Without TLS a plugin could let gangs go that wait for an in-tree plugin."""
    config = trireme_configuration.TriremeConfiguration(
        handle=trireme_configuration.Handle(f"unix:{tmp_path}/handle.sock"), remote_plugins=(_permit_plugin("A"),)
    )
    service = handle.HandleService(config, waiting_pods.WaitingPods(), lambda pods: [])
    async with handle.serve(config, service), aio.insecure_channel(config.handle.listen) as channel:
        stub = frontend_pb2_grpc.HandleServiceStub(channel)
        codes = [
            await _code(stub.Allow(frontend_pb2.AllowRequest(plugin=plugin), timeout=10))
            for plugin in ("A", "", "GangScheduling")
        ]
    assert codes == [
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.INVALID_ARGUMENT,
    ]


async def test_a_certificate_that_is_half_written_is_not_taken(tmp_path: Path) -> None:
    """Certificates are written one file after the other."""
    authority = Authority()
    caller = Side(tmp_path / "frontend", authority, "frontend")
    dialer = caller.dialer(NAME)
    (caller.folder / "tls.crt").write_bytes(authority.issue("frontend").certificate)
    async with serve(Side(tmp_path / "filter", authority, "filter", NAME)) as address:
        frontend = Frontend(dialer)
        frontend.links.set_endpoints([address])
        await frontend.follows()
        assert dialer.reloads == 0
        await frontend.links.close()


async def test_files_that_cannot_be_used_are_named_at_the_start(tmp_path: Path) -> None:
    """The operator reads which field of the configuration is wrong, not a handshake error hours later."""
    side = Side(tmp_path / "frontend", Authority(), "frontend")
    (side.folder / "ca.crt").unlink()
    with pytest.raises(listen_flags.ListenError, match=r"^tls\.caFile: .*ca\.crt: No such file"):
        side.dialer()


async def test_a_plugin_is_called_over_tls_and_its_identity_verified(tmp_path: Path) -> None:
    """A remote plugin sees pods: it is as much a service of ours as a phase."""
    authority = Authority()
    caller = Side(tmp_path / "frontend", authority, "frontend")
    folder = caller.folder

    async def greet(address: str, identity: str) -> str:
        tls = dialing.TlsSettings(f"{folder}/ca.crt", f"{folder}/tls.crt", f"{folder}/tls.key", (identity,))
        with pytest.raises(remote_client.HandshakeError) as caught:
            await remote_client.handshake("P", address, deadline_seconds=1, tls=tls)
        return str(caught.value)

    async with serve(Side(tmp_path / "plugin", authority, "plugin", "plugin.default.svc")) as address:
        assert "hosts no plugin" in await greet(address, "plugin.default.svc")
        told = "UNAVAILABLE: its certificate is not for another.default.svc, as tls.allowedIdentities wants"
        assert await greet(address, "another.default.svc") == f"plugin P at {address}: {told}"
        tls = snapshot_pb2.RemotePluginTls(
            ca_file=f"{folder}/ca.crt",
            certificate_file=f"{folder}/tls.crt",
            private_key_file=f"{folder}/tls.key",
            allowed_identities=["another.default.svc"],
        )
        config = snapshot_pb2.RemotePlugin(name="P", endpoints=[address], deadline_ms=5000, tls=tls)
        connection = remote_connection.PluginConnection(config)
        method = remote_connection.Method("/trireme.v1.PluginService/GetPluginInfo", plugin_pb2.GetPluginInfoResponse)
        with pytest.raises(remote_connection.PluginError) as caught:
            await connection.call(method, b"", lambda response: response.instance)
        assert str(caught.value) == f"{address}: {told}"
        await connection.close()


async def test_a_server_s_own_words_are_left_as_they_are() -> None:
    details = "the inventory: certificate has expired"
    error = aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, aio.Metadata(), aio.Metadata(), details=details)
    assert dialing.Dialer().error_details(error, "10.0.0.1:1", 0) == details
