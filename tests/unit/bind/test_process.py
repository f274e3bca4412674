"""How the bind process is put together, before an API server that is not there: what it serves, watches and awaits."""

import asyncio
import contextlib
import types
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Self

import grpc
import pytest

from tests.helpers import phase_calls
from tests.helpers.virtual_time import on_virtual_time
from trireme.bind import flags, process
from trireme.remote import plugin_connections
from trireme.rpc import grpc_server, parent_death
from trireme.v1 import bind_pb2, bind_phase_pb2, cycle_pb2, plugin_pb2, snapshot_pb2, status_pb2
from trireme_kube.apimachinery import api_writes
from trireme_kube.client.rest import client
from trireme_kube.componentbase import supervision
from trireme_kube.componentbase.logs import klog
from trireme_kube.componentbase.tls import certificate_expiry

HASH = 77
HOLDER = "host-a_1"
LEASE_SECONDS = 15
FENCE = cycle_pb2.Fence(epoch=5, holder_identity=HOLDER, lease_valid_ms=10_000)
CYCLE = cycle_pb2.Cycle(fence=FENCE, config_hash=HASH, profile="p")


class _Api:
    """A client that reads a Lease of the holder, and presents `certificate`."""

    def __init__(self, certificate: tuple[str, str] | None) -> None:
        self.client_certificate = certificate
        self.read_paths: list[str] = []
        self.closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.closed = True

    def rate_limit_delay(self) -> float:
        return 0.0

    async def read(self, path: str, *, deadline: float) -> Any:
        self.read_paths.append(path)
        await asyncio.sleep(0.01)
        return self

    def json(self) -> dict[str, Any]:
        spec = {"holderIdentity": HOLDER, "leaseDurationSeconds": LEASE_SECONDS}
        return {"metadata": {"resourceVersion": "9"}, "spec": spec}


class _Writer:
    """Takes so many seconds for a binding."""

    seconds = 3.0

    async def bind(self, pod: api_writes.PodName, node: str, deadline: float) -> api_writes.Outcome:
        await asyncio.sleep(self.seconds)
        return api_writes.Written({})


class _Server:
    """Keeps what is added to a gRPC server, by the RPC."""

    def __init__(self) -> None:
        self.handlers: dict[str, Any] = {}

    def add_generic_rpc_handlers(self, _: Sequence[grpc.GenericRpcHandler]) -> None:
        """The same handlers, for old callers of gRPC."""

    def add_registered_method_handlers(self, _: str, handlers: dict[str, Any]) -> None:
        self.handlers |= handlers


class _Setup:
    """The parts that a test looks at, of a process started with these flags."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, certificate: tuple[str, str] | None = None) -> None:
        self.apis: list[_Api] = []
        self.watched: list[certificate_expiry.Certificate] = []

        async def connect(_: client.ClientSettings) -> _Api:
            self.apis.append(_Api(certificate))
            return self.apis[-1]

        @contextlib.asynccontextmanager
        async def serve(*_: Any) -> AsyncIterator[None]:
            yield

        monkeypatch.setattr(client, "connect", connect)
        monkeypatch.setattr(process.phase_metrics, "serve", serve)
        monkeypatch.setattr(certificate_expiry, "Expiries", self.watched.extend)
        monkeypatch.setattr(process, "Writer", lambda _: _Writer())
        monkeypatch.setattr(process, "time", types.SimpleNamespace(monotonic=asyncio.get_running_loop().time))

    def certificates(self) -> list[tuple[str, str]]:
        """Use and file of each certificate that is watched."""
        return [(each.use, each.file) for each in self.watched]


def _handlers(services: Sequence[grpc_server.Service]) -> dict[str, Any]:
    server: Any = _Server()
    for each in services:
        each.add_to(server)
    return dict(server.handlers)


async def _configure(handlers: dict[str, Any]) -> None:
    points = plugin_pb2.ExtensionPoint
    bind = snapshot_pb2.PluginSet(extension_point=points.EXTENSION_POINT_BIND)
    for name in ("Quota", "DefaultBinder"):
        bind.plugins.add(name=name)
    info = plugin_pb2.PluginInfo(name="Quota", extension_points=[points.EXTENSION_POINT_BIND])
    remote = snapshot_pb2.RemotePlugin(name="Quota", endpoints=["127.0.0.1:1"], deadline_ms=1000, info=info)
    profile = snapshot_pb2.Profile(scheduler_name="p", plugin_sets=[bind])
    configuration = snapshot_pb2.Configuration(profiles=[profile], remote_plugins=[remote])
    request = bind_phase_pb2.FenceRequest(fence=FENCE, config_hash=HASH, configuration=configuration)
    await handlers["Fence"].unary_unary(request, phase_calls.context(5.0))


@on_virtual_time
async def _serve(
    monkeypatch: pytest.MonkeyPatch, options: flags.Options, look: Callable[[_Setup, dict[str, Any]], Any]
) -> None:
    setup = _Setup(monkeypatch)
    async with process.lifespan(options, supervision.Supervisor()) as services:
        await look(setup, _handlers(services))
    assert [each.closed for each in setup.apis] == [True, True]


def test_the_services_are_those_of_a_bind_phase_with_in_tree_and_remote_plugins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def look(setup: _Setup, handlers: dict[str, Any]) -> None:
        await _configure(handlers)
        answer = await handlers["GetPluginInfo"].unary_unary(plugin_pb2.GetPluginInfoRequest(), phase_calls.context())
        assert {"DefaultBinder", "Quota"} <= {plugin.name for plugin in answer.plugins}
        assert setup.apis[1].read_paths == ["/apis/coordination.k8s.io/v1/namespaces/ns/leases/mine"]
        assert setup.apis[0].read_paths == [], "readings of the Lease wait for no write"

    named = ["--leader-elect-resource-name=mine", "--leader-elect-resource-namespace=ns"]
    _serve(monkeypatch, flags.parse(named, set_up_log=False), look)


@on_virtual_time
async def test_the_services_are_found_by_the_names_of_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    _Setup(monkeypatch)
    options = flags.parse([], set_up_log=False)
    async with process.lifespan(options, supervision.Supervisor()) as services:
        names = [each.descriptor.full_name for each in services]
    assert names == ["trireme.v1.BindPhase", "trireme.v1.PluginService"]


def test_without_leader_election_no_lease_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async def look(setup: _Setup, handlers: dict[str, Any]) -> None:
        await _configure(handlers)
        assert [each.read_paths for each in setup.apis] == [[], []]

    _serve(monkeypatch, flags.parse(["--leader-elect=false"], set_up_log=False), look)


@pytest.mark.parametrize(
    ("close_seconds", "code"), [(_Writer.seconds + 1.0, status_pb2.CODE_SUCCESS), (_Writer.seconds - 1.0, None)]
)
@on_virtual_time
async def test_a_binding_under_way_has_some_seconds_at_the_end(
    close_seconds: float, code: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    _Setup(monkeypatch)
    ended: list[str] = []

    async def end(_: object) -> None:
        ended.append("connections")

    monkeypatch.setattr(plugin_connections.PluginConnections, "close", end)
    options = flags.parse(["--leader-elect=false"], set_up_log=False)
    found: list[int] = []

    async def bind(handlers: dict[str, Any]) -> None:
        pod = cycle_pb2.PodIdentity(namespace="ns", name="web", uid="u")
        request = bind_pb2.BindRequest(cycle=CYCLE, items=[bind_pb2.BindItem(pod=pod, node_name="n")])
        async for answer in handlers["Bind"].unary_stream(request, phase_calls.context(60.0)):
            found.extend(result.status.code for result in answer.results)

    now = asyncio.get_running_loop().time
    async with process.lifespan(options, supervision.Supervisor(), close_seconds=close_seconds) as services:
        handlers = _handlers(services)
        await _configure_in_tree(handlers)
        call = asyncio.ensure_future(bind(handlers))
        await asyncio.sleep(0.1)
        started = now()
    assert now() - started == pytest.approx(min(_Writer.seconds - 0.1, close_seconds), abs=0.05)
    await asyncio.wait((call,), timeout=0.1)
    assert found == ([] if code is None else [code])
    assert ended == ["connections"]
    call.cancel()
    await asyncio.wait((call,))


async def _configure_in_tree(handlers: dict[str, Any]) -> None:
    bind = snapshot_pb2.PluginSet(extension_point=plugin_pb2.EXTENSION_POINT_BIND)
    bind.plugins.add(name="DefaultBinder")
    profile = snapshot_pb2.Profile(scheduler_name="p", plugin_sets=[bind])
    configuration = snapshot_pb2.Configuration(profiles=[profile])
    request = bind_phase_pb2.FenceRequest(fence=FENCE, config_hash=HASH, configuration=configuration)
    await handlers["Fence"].unary_unary(request, phase_calls.context(5.0))


@on_virtual_time
async def test_the_lease_is_read_no_more_once_the_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the second half of the time that a reading is trusted it is read ahead, in the background."""
    _Setup(monkeypatch)
    before = asyncio.all_tasks()
    async with process.lifespan(flags.parse([], set_up_log=False), supervision.Supervisor()) as services:
        handlers = _handlers(services)
        await _configure(handlers)
        await asyncio.sleep(0.6 * LEASE_SECONDS)
        await _configure(handlers)
        assert len(asyncio.all_tasks() - before) == 1
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


SERVES = ["--tls-cert-file=/tls.crt", "--tls-private-key-file=/tls.key"]
MUTUAL = [*SERVES, "--client-ca-file=/ca.crt"]


@pytest.mark.parametrize(
    ("arguments", "shows", "watched"),
    [
        pytest.param(SERVES, "", [("serving", "/tls.crt")], id="server"),
        pytest.param(MUTUAL, "", [("serving", "/tls.crt"), ("authority", "/ca.crt")], id="mutual"),
        pytest.param(SERVES, "/own.crt", [("serving", "/tls.crt"), ("client", "/own.crt")], id="server-and-client"),
        pytest.param([], "/own.crt", [("client", "/own.crt")], id="client"),
        pytest.param([], "", [], id="none"),
    ],
)
@on_virtual_time
async def test_the_certificates_of_the_process_are_watched(
    arguments: list[str], shows: str, watched: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = _Setup(monkeypatch, ("the kubeconfig", shows) if shows else None)
    async with process.lifespan(flags.parse(arguments, set_up_log=False), supervision.Supervisor()):
        assert setup.certificates() == watched


@on_virtual_time
async def test_a_frontend_that_serves_bind_itself_keeps_its_log_and_watches_its_certificates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    setup = _Setup(monkeypatch, ("the kubeconfig", "/own.crt"))
    logs: list[object] = []
    monkeypatch.setattr(klog, "setup", logs.append)
    async with process.open_services(MUTUAL, supervision.Supervisor()) as services:
        assert len(services) == 2
        assert (setup.certificates(), logs) == ([], [])


@pytest.mark.parametrize("parent", [0, 42])
def test_a_child_ends_with_its_parent(parent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    parents: list[int] = []
    monkeypatch.setattr(parent_death, "exit_with_parent", parents.append)
    monkeypatch.setattr(grpc_server, "serve", lambda listener, lifespan: 3)
    monkeypatch.setattr(process.gc, "freeze", lambda: None)
    monkeypatch.setattr(klog, "setup", lambda options: None)
    assert process.main([f"--exit-with-parent={parent}"] if parent else []) == 3
    assert parents == ([parent] if parent else [])
