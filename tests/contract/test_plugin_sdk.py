"""Plugins written on the Python SDK: how they are described and served, and how they call the scheduler back."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from tests.contract import certificates
from tests.contract.plugin_servers import fill
from tests.contract.sdk_hosts import PerNode
from trireme import sdk
from trireme.remote import (
    remote_plugins,
)
from trireme.rpc import grpc_server, listen_flags
from trireme.snapshot import snapshot
from trireme.v1 import (
    cycle_pb2,
    frontend_pb2,
    frontend_pb2_grpc,
    plugin_pb2,
    plugin_pb2_grpc,
    snapshot_pb2,
)


@pytest.mark.parametrize(
    ("methods", "info", "words"),
    [
        ({}, sdk.Info("X"), "plugin X: extension_points: there is none"),
        ({"filter": None, "filter_nodes": None}, sdk.Info("X"), "plugin X: has both filter and filter_nodes"),
        ({"filter": None}, sdk.Info("X", pod_fields=("spec.nope",)), "plugin X: pod_fields: spec.nope: "),
    ],
    ids=["no step", "two methods", "no field"],
)
def test_an_invalid_plugin_description_is_refused_at_the_start(
    methods: dict[str, Any], info: sdk.Info, words: str
) -> None:
    """If this fails, a plugin starts that no scheduler takes."""
    plugin = type("Wrong", (), {"info": info, **methods})()
    with pytest.raises(ValueError, match="^" + words):
        sdk.describe(plugin)


def test_main_prints_one_line_for_an_error(tmp_path: Path) -> None:
    """If this fails, a plugin that cannot start ends with a traceback."""
    program = tmp_path / "plugin.py"
    program.write_text("from trireme import sdk\nclass P:\n    info = sdk.Info('P')\nraise SystemExit(sdk.main(P()))\n")
    ended = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("Error: plugin P: extension_points: there is none; allowed: PRE_ENQUEUE (1), ")
    assert ended.stderr.count("\n") == 1


class _Frontend(frontend_pb2_grpc.HandleServiceServicer):
    async def Allow(self, request: frontend_pb2.AllowRequest, context: Any) -> frontend_pb2.AllowResponse:
        await self._check(request.pod, request.plugin, context)
        return frontend_pb2.AllowResponse()

    async def Reject(self, request: frontend_pb2.RejectRequest, context: Any) -> frontend_pb2.RejectResponse:
        assert request.message == "too late"
        await self._check(request.pod, request.plugin, context)
        return frontend_pb2.RejectResponse()

    async def Activate(self, request: frontend_pb2.ActivateRequest, context: Any) -> frontend_pb2.ActivateResponse:
        return frontend_pb2.ActivateResponse(activated=request.pods[:1])

    async def _check(self, pod: cycle_pb2.PodIdentity, plugin: str, context: Any) -> None:
        if (pod.name, plugin) != ("waits", "P"):
            await context.abort(grpc.StatusCode.NOT_FOUND, "it does not wait")


async def test_a_plugin_calls_the_scheduler_back(tmp_path: Path) -> None:
    """If this fails, a pod that waits for a plugin waits until it times out."""
    server = aio.server()
    frontend_pb2_grpc.add_HandleServiceServicer_to_server(_Frontend(), server)
    server.add_insecure_port(f"unix:{tmp_path}/frontend.sock")
    await server.start()
    waits, other = (cycle_pb2.PodIdentity(name=name) for name in ("waits", "other"))
    async with sdk.Handle(f"unix:{tmp_path}/frontend.sock", "P") as handle:
        assert await handle.allow(waits)
        assert not await handle.allow(other)
        assert await handle.reject(waits, "too late")
        assert not await handle.reject(other, "too late")
        assert await handle.activate([waits, other]) == [waits]
    await server.stop(0)


async def _frontend(pair: certificates.Pair, authority: certificates.Authority, address: str) -> tuple[Any, int]:
    """A frontend over mutual TLS, with callers' certificates of the authority."""
    server = aio.server(options=[("grpc.so_reuseport", 0)])
    frontend_pb2_grpc.add_HandleServiceServicer_to_server(_Frontend(), server)
    secure = grpc.ssl_server_credentials([(pair.key, pair.certificate)], authority.certificate, True)
    port = server.add_secure_port(address, secure)
    await server.start()
    return server, port


async def test_a_plugin_calls_the_scheduler_back_with_files_that_were_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """If this fails, a plugin that runs for longer than its certificate loses the scheduler."""
    before, after = certificates.Authority("before"), certificates.Authority("after")
    pod, ca = cycle_pb2.PodIdentity(name="waits"), tmp_path / "ca.crt"
    ca.write_bytes(before.certificate)
    cert, key = before.issue("plugin").write(tmp_path, "tls")
    server, port = await _frontend(before.issue("frontend"), before, "127.0.0.1:0")
    async with sdk.Handle(f"127.0.0.1:{port}", "P", sdk.HandleTls(str(ca), str(cert), str(key))) as handle:
        assert await handle.allow(pod)
        former = handle._renewable.channel  # type: ignore[union-attr]
        pair = after.issue("plugin")
        cert.write_bytes(pair.certificate)
        ca.write_bytes(after.certificate)
        assert await handle.allow(pod)  # over the open connection
        await server.stop(0)
        while (state := former.get_state()) is grpc.ChannelConnectivity.READY:
            await former.wait_for_state_change(state)
        for _ in range(2):  # the key is still the former one
            with pytest.raises(aio.AioRpcError):
                await handle.allow(pod)
        assert len([entry for entry in caplog.records if "the certificate before stays in use" in entry.message]) == 1
        server, _ = await _frontend(after.issue("frontend"), after, f"127.0.0.1:{port}")
        key.write_bytes(pair.key)
        assert await handle.allow(pod)
    await server.stop(0)


async def test_a_handle_is_not_made_with_files_that_cannot_be_used(tmp_path: Path) -> None:
    """If this fails, every request fails, and the log has only gRPC's messages about handshakes."""
    authority, ca = certificates.Authority(), tmp_path / "ca.crt"
    ca.write_bytes(authority.certificate)
    cert, _ = authority.issue("one").write(tmp_path, "one")
    _, key = authority.issue("two").write(tmp_path, "two")
    for tls, words in (
        (sdk.HandleTls(str(ca), str(cert), str(key)), f"HandleTls.keyFile: {key}: not the key of {cert}"),
        (sdk.HandleTls(str(ca), str(cert)), "cert_file and key_file need each other"),
        (sdk.HandleTls(str(tmp_path / "none")), "HandleTls.caFile"),
    ):
        with pytest.raises(ValueError, match=re.escape(words)):
            sdk.Handle("127.0.0.1:1", "P", tls)


async def test_a_plugin_with_tls_accepts_authorized_callers_only(tmp_path: Path) -> None:
    """If this fails, any process at the address decides about pods, or any process may call the plugin."""
    authority = certificates.Authority()
    certificate, key = authority.issue("plugin").write(tmp_path, "plugin")
    client_ca = tmp_path / "ca.crt"
    client_ca.write_bytes(authority.certificate)
    listener = listen_flags.make_listener(
        "127.0.0.1:0",
        certificate=str(certificate),
        private_key=str(key),
        client_ca=str(client_ca),
        identities=("filter",),
    )
    server = grpc_server.ReplicaServer(listener, sdk.services(PerNode()))
    address = (await server.start()).text
    outcomes = []
    try:
        for name in ("filter", "somebody"):
            own_certificate, own_key = authority.issue(name).write(tmp_path, name)
            tls = snapshot_pb2.RemotePluginTls(
                ca_file=str(client_ca), certificate_file=str(own_certificate), private_key_file=str(own_key)
            )
            config = snapshot_pb2.RemotePlugin(name="PerNode", endpoints=[address], deadline_ms=5000, tls=tls)
            snap = snapshot.Snapshot()
            remotes = remote_plugins.RemotePlugins(snap)
            plugin = remotes.make_filter_plugin(config, "p")
            outcomes.append(await plugin.pre_filter(fill(snap, 1), snap))
            await remotes.connections.close()
    finally:
        await server.stop(0)
    allowed, refused = outcomes
    assert allowed.state.pre_filter == b"shop"
    assert refused.status is not None
    assert "PERMISSION_DENIED: the client's identity is not allowed to call" in refused.status.message


def test_a_plugin_on_a_unix_socket_has_no_tls_and_reads_no_files(tmp_path: Path) -> None:
    """If this fails, it serves TLS on a socket where the scheduler speaks none, and no call comes through."""
    socket, none = f"unix:{tmp_path}/plugin.sock", str(tmp_path / "none")
    code = (
        "from tests.contract.sdk_hosts import PerNode; from trireme import sdk; raise SystemExit(sdk.main(PerNode()))"
    )
    flags = ["--tls-cert-file", none, "--tls-private-key-file", none, "--client-ca-file", none]
    process = subprocess.Popen(
        [sys.executable, "-c", code, "--listen", socket, *flags, "--allowed-identities", "filter"],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    )
    with process, grpc.insecure_channel(socket, [("grpc.default_authority", "localhost")]) as channel:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == f"listening on {socket}\n"
            answer = plugin_pb2_grpc.PluginServiceStub(channel).GetPluginInfo(
                plugin_pb2.GetPluginInfoRequest(), wait_for_ready=True, timeout=60
            )
            assert [plugin.name for plugin in answer.plugins] == ["PerNode"]
        finally:
            process.terminate()
