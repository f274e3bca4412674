"""Plugins that are services of their own at Permit, PreBind, Bind and PostBind, behind the bind phase."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from grpc import aio

from tests.contract import bind_cluster
from tests.contract.bind_cluster import Bind
from trireme.bind.remote_bind_plugins import RemoteBindPlugins
from trireme.bind.work_in_flight import WorkInFlight
from trireme.remote import plugin_connections, remote_bind, remote_client, remote_connection
from trireme.rpc.fencing import EpochGuard, Tenure
from trireme.rpc.grpc_server import ReplicaServer, Service
from trireme.rpc.listen_flags import make_listener
from trireme.v1 import bind_pb2, bind_pb2_grpc, cycle_pb2, plugin_pb2, snapshot_pb2, status_pb2
from trireme.v1.status_pb2 import CODE_ERROR, CODE_SKIP, CODE_SUCCESS, CODE_WAIT
from trireme_kube.apimachinery import api_writes
from trireme_kube.embedded.endpoints.faults import Fault, FaultAction

NAME = "Harbour"
POINTS = [
    plugin_pb2.EXTENSION_POINT_PERMIT,
    plugin_pb2.EXTENSION_POINT_PRE_BIND,
    plugin_pb2.EXTENSION_POINT_BIND,
    plugin_pb2.EXTENSION_POINT_POST_BIND,
]


class _Harbour(bind_pb2_grpc.BindPluginServicer):
    """A plugin whose answers the test sets."""

    def __init__(self) -> None:
        self.codes: dict[str, status_pb2.Code.ValueType] = {}
        self.states: list[bytes] = []
        self.told: list[str] = []
        self.wait_for = snapshot_pb2.ObjectKey(kind="persistent_volume_claim", namespace="default", name="data")
        #: Called for each pod of Bind before its result; may raise.
        self.on_bind: Callable[[bind_pb2.BindItem], Any] | None = None

    def _status(self, item: bind_pb2.BindItem) -> status_pb2.Status:
        code = self.codes.get(item.pod.name, CODE_SUCCESS)
        messages = [] if code in (CODE_SUCCESS, CODE_SKIP, CODE_WAIT) else ["no berth"]
        return status_pb2.Status(code=code, messages=messages)

    async def Permit(self, request: Any, context: Any) -> bind_pb2.PermitResponse:
        response = bind_pb2.PermitResponse()
        for item in request.items:
            result = response.results.add(status=self._status(item))
            result.timeout.seconds = 30
        return response

    async def PreBind(self, request: Any, context: Any) -> bind_pb2.PreBindResponse:
        response = bind_pb2.PreBindResponse()
        for item in request.items:
            self.states.append(item.state)
            result = response.results.add(status=self._status(item), state=b"moored", wait_for=[self.wait_for])
            result.timeout.seconds = 600
        return response

    async def Bind(self, request: Any, context: Any) -> AsyncIterator[bind_pb2.BindResponse]:
        for index, item in enumerate(request.items):
            if self.on_bind is not None:
                await self.on_bind(item)
            yield bind_pb2.BindResponse(results=[bind_pb2.BindResult(index=index, status=self._status(item))])

    async def PostBind(self, request: Any, context: Any) -> bind_pb2.PostBindResponse:
        self.told.extend(item.pod.name for item in request.items)
        return bind_pb2.PostBindResponse()


class _Setup:
    def __init__(self, bind: Bind, plugin: _Harbour, target: str) -> None:
        self.bind, self.plugin, self.target = bind, plugin, target

    async def configure(self, policy: Any = snapshot_pb2.FAILURE_POLICY_FAIL, **plugins: list[str]) -> None:
        remote = snapshot_pb2.RemotePlugin(
            name=NAME,
            endpoints=[self.target],
            deadline_ms=1000,
            failure_policy=policy,
            breaker_failures=5,
            breaker_open_ms=60_000,
            info=plugin_pb2.PluginInfo(name=NAME, extension_points=POINTS),
        )
        await self.bind.configure(bind_cluster.configuration(remote=[remote], **plugins))


@asynccontextmanager
async def _plugin_at(folder: Path, plugin: _Harbour) -> AsyncIterator[str]:
    service = Service(
        bind_pb2.DESCRIPTOR.services_by_name["BindPlugin"],
        lambda server: bind_pb2_grpc.add_BindPluginServicer_to_server(plugin, server),
    )
    server = ReplicaServer(make_listener(f"unix:{folder}/plugin.sock"), [service])
    address = await server.start()
    try:
        yield address.text
    finally:
        await server.stop(0)


@pytest.fixture
async def setup(tmp_path: Path) -> AsyncIterator[_Setup]:
    """A bind phase and one plugin beside it."""
    plugin = _Harbour()
    async with _plugin_at(tmp_path, plugin) as target, bind_cluster.running(tmp_path) as bind:
        await bind.acquire()
        yield _Setup(bind, plugin, target)


async def test_permit_waits_and_rejects(setup: _Setup) -> None:
    """The frontend learns who makes a pod wait and for how long, and why another is refused."""
    bind = setup.bind
    await setup.configure(permit=[NAME])
    await bind.make_pods("waits", "fails", "goes")
    setup.plugin.codes = {"waits": CODE_WAIT, "fails": CODE_ERROR}
    request = bind_pb2.PermitRequest(cycle=bind.cycle(), items=bind.items(["waits", "fails", "goes"], "node-00000"))
    waits, fails, goes = (await bind.stub.Permit(request, timeout=20)).results
    assert [(wait.plugin, wait.timeout.seconds) for wait in waits.waits] == [(NAME, 30)]
    assert waits.status.code == CODE_WAIT
    assert list(fails.status.messages) == [f'running Permit plugin "{NAME}": no berth']
    assert goes.status.code == CODE_SUCCESS


async def test_pre_bind_waits_for_objects_and_keeps_its_state(setup: _Setup) -> None:
    """The plugin that waits is asked again with the state that it gave."""
    bind = setup.bind
    await setup.configure(pre_bind=[NAME])
    await bind.make_pods("web")
    setup.plugin.codes = {"web": CODE_WAIT}
    items = bind.items(["web"], "node-00000")
    (first,) = await bind.pre_bind(items)
    assert first.status.code == CODE_WAIT
    assert [key.name for key in first.wait_for] == ["data"]
    setup.plugin.codes = {}
    items[0].state = first.state
    (second,) = await bind.pre_bind(items)
    assert second.status.code == CODE_SUCCESS
    assert setup.plugin.states == [b"", b"moored"]


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (
            {"kind": "Widget", "name": "w"},
            ".kind: 'Widget' is not known here; allowed: composite_pod_group, csi_driver,",
        ),
        ({"name": "w"}, ".kind: '' is not known here; allowed: composite_pod_group, csi_driver,"),
        ({"kind": "persistent_volume"}, ".name is not set"),
    ],
    ids=["an unknown kind", "no kind", "no name"],
)
async def test_pre_bind_waits_for_nothing_that_cannot_come(setup: _Setup, key: dict[str, str], text: str) -> None:
    bind = setup.bind
    await setup.configure(pre_bind=[NAME])
    await bind.make_pods("web")
    setup.plugin.codes = {"web": CODE_WAIT}
    setup.plugin.wait_for = snapshot_pb2.ObjectKey(**key)
    (result,) = await bind.pre_bind(bind.items(["web"], "node-00000"))
    assert result.status.code == CODE_ERROR
    prefix = f'running PreBind plugin "{NAME}": {setup.target}: the answer to PreBind is wrong: results[0].wait_for[0]'
    assert result.status.messages[0].startswith(f"{prefix}{text}")


@pytest.mark.parametrize("ignore", [False, True], ids=["fail", "ignore"])
async def test_a_pod_whose_plugin_is_not_called_hears_of_no_mistake_as_its_own(setup: _Setup, ignore: bool) -> None:
    policy = snapshot_pb2.FAILURE_POLICY_IGNORE if ignore else snapshot_pb2.FAILURE_POLICY_FAIL
    bind = setup.bind
    await setup.configure(policy, pre_bind=[NAME])
    await bind.make_pods("web", "wrong")
    setup.plugin.codes = {"wrong": CODE_WAIT}
    setup.plugin.wait_for = snapshot_pb2.ObjectKey(kind="Widget", name="w")
    for _ in range(5):
        await bind.pre_bind(bind.items(["wrong"], "node-00000"))
    (result,) = await bind.pre_bind(bind.items(["web"], "node-00000"))
    assert len(setup.plugin.states) == 5
    if ignore:
        assert result.status.code == CODE_SKIP
        return
    assert result.status.code == CODE_ERROR
    assert [reason.code for reason in result.status.reasons] == ["pluginNotCalled"]
    (text,) = result.status.messages
    begin = (
        f'running PreBind plugin "{NAME}": PreBind was not called: the circuit breaker of plugin {NAME} is open since '
    )
    assert text.startswith(begin)
    assert " UTC, because the last 5 calls of PreBind failed, about this or other pods, the last one with: " in text


class _Surveyor(_Harbour):
    """Knows beforehand what it has work for; answers as PreBind does."""

    async def PreBindPreFlight(self, request: Any, context: Any) -> bind_pb2.PreBindPreFlightResponse:
        self.states += [item.state for item in request.items]
        return bind_pb2.PreBindPreFlightResponse(statuses=[self._status(item) for item in request.items])


async def test_a_plugin_finds_out_whether_it_has_work(tmp_path: Path) -> None:
    """A nomination is written only for pods for which some PreBind plugin has work."""
    plugin = _Surveyor()
    async with _plugin_at(tmp_path, plugin) as target, bind_cluster.running(tmp_path) as bind:
        await bind.acquire()
        await _Setup(bind, plugin, target).configure(pre_bind=[NAME])
        await bind.make_pods("works", "rests", "fails", "waits")
        plugin.codes = {"rests": CODE_SKIP, "fails": CODE_ERROR}
        works, rests, fails = await bind.pre_bind_pre_flight(bind.items(["works", "rests", "fails"], "node-00000"))
        assert (works.code, rests.code, fails.code) == (CODE_SUCCESS, CODE_SKIP, CODE_ERROR)
        assert list(fails.messages) == [f'running PreBindPreFlight "{NAME}": no berth']
        plugin.codes = {"waits": CODE_WAIT}
        (waits,) = await bind.pre_bind_pre_flight(bind.items(["waits"], "node-00000"))
        assert waits.code == CODE_ERROR
        assert "the answer to PreBindPreFlight is wrong: statuses[0]" in waits.messages[0]


@pytest.mark.parametrize(
    "policy", [snapshot_pb2.FAILURE_POLICY_FAIL, snapshot_pb2.FAILURE_POLICY_IGNORE], ids=["fail", "ignore"]
)
async def test_a_plugin_that_does_not_serve_the_pre_flight_has_work(setup: _Setup, policy: Any) -> None:
    bind = setup.bind
    await setup.configure(policy, pre_bind=[NAME])
    await bind.make_pods("a", "b")
    items = bind.items(["a", "b"], "node-00000")
    for _ in range(10):
        assert [status.code for status in await bind.pre_bind_pre_flight(items)] == [CODE_SUCCESS, CODE_SUCCESS]
    assert [result.status.code for result in await bind.pre_bind(items)] == [CODE_SUCCESS, CODE_SUCCESS]


async def test_a_plugin_binds_what_it_wants_and_leaves_the_rest(setup: _Setup) -> None:
    """What the plugin skips DefaultBinder binds; PostBind gets them."""
    bind = setup.bind
    await setup.configure(bind=[NAME, "DefaultBinder"], post_bind=[NAME])
    await bind.make_pods("mine", "yours")
    setup.plugin.codes = {"yours": CODE_SKIP}
    statuses = await bind.bind("mine", "yours", node="node-00000")
    assert [status.code for status in statuses] == [CODE_SUCCESS, CODE_SUCCESS]
    assert (await bind.node_of("mine"), await bind.node_of("yours")) == ("", "node-00000")
    request = bind_pb2.PostBindRequest(cycle=bind.cycle(), items=bind.items(["mine", "yours"], "node-00000"))
    await bind.stub.PostBind(request, timeout=20)
    assert setup.plugin.told == ["mine", "yours"]


@pytest.mark.parametrize("ignore", [False, True], ids=["fail", "ignore"])
@pytest.mark.parametrize("how", ["raises", "silent"])
async def test_a_binder_that_fails_is_read_behind(setup: _Setup, ignore: bool, how: str) -> None:
    """A pod that the plugin bound before it failed is a success; another fails, or goes to the next binder."""
    bind = setup.bind
    policy = snapshot_pb2.FAILURE_POLICY_IGNORE if ignore else snapshot_pb2.FAILURE_POLICY_FAIL
    await setup.configure(policy, bind=[NAME, "DefaultBinder"])
    await bind.make_pods("bound", "unbound")

    async def on_bind(item: bind_pb2.BindItem) -> None:
        target = {"kind": "Node", "name": item.node_name}
        await bind.api.post(
            f"/api/v1/namespaces/default/pods/{item.pod.name}/binding",
            {"metadata": {"name": item.pod.name}, "target": target},
        )
        if how == "raises":
            raise RuntimeError("capsized")
        await asyncio.sleep(5)

    setup.plugin.on_bind = on_bind
    bound, unbound = await bind.bind("bound", "unbound", node="node-00000")
    assert bound.code == CODE_SUCCESS
    assert (unbound.code == CODE_SUCCESS) is ignore
    assert await bind.node_of("unbound") == ("node-00000" if ignore else "")
    if not ignore:
        assert unbound.messages[0].startswith(f'running Bind plugin "{NAME}": ')


async def test_a_failed_binder_behind_a_failing_api_server_leaves_the_fate_open(setup: _Setup) -> None:
    """Where the pod cannot be read either, the caller must ask again."""
    bind = setup.bind
    await setup.configure(bind=[NAME])
    await bind.make_pods("web")

    async def on_bind(item: bind_pb2.BindItem) -> None:
        raise RuntimeError("capsized")

    setup.plugin.on_bind = on_bind
    bind.cluster.faults.add(Fault(FaultAction.STATUS, "GET", "pods/web", times=-1, code=403))
    with pytest.raises(aio.AioRpcError, match="may be bound or not"):
        await bind.bind("web", node="node-00000")


@pytest.mark.parametrize(
    ("ignore", "permit", "pre_bind"),
    [pytest.param(False, CODE_ERROR, CODE_ERROR, id="fail"), pytest.param(True, CODE_SUCCESS, CODE_SKIP, id="ignore")],
)
async def test_an_absent_plugin_follows_its_failure_policy(
    setup: _Setup, ignore: bool, permit: int, pre_bind: int
) -> None:
    """With Fail the pod goes back with the reason, with Ignore it goes on without the plugin."""
    bind = setup.bind
    setup.target = "unix:/nonexistent/plugin.sock"
    policy = snapshot_pb2.FAILURE_POLICY_IGNORE if ignore else snapshot_pb2.FAILURE_POLICY_FAIL
    await setup.configure(policy, permit=[NAME], pre_bind=[NAME], post_bind=[NAME])
    await bind.make_pods("web")
    items = bind.items(["web"], "node-00000")
    (permitted,) = (await bind.stub.Permit(bind_pb2.PermitRequest(cycle=bind.cycle(), items=items), timeout=20)).results
    (flight,) = await bind.pre_bind_pre_flight(items)
    (prepared,) = await bind.pre_bind(items)
    assert flight.code == pre_bind
    assert (permitted.status.code, prepared.status.code) == (permit, pre_bind)
    await bind.stub.PostBind(bind_pb2.PostBindRequest(cycle=bind.cycle(), items=items), timeout=20)


@pytest.mark.parametrize("ignore", [False, True], ids=["fail", "ignore"])
async def test_a_failed_post_bind_is_logged(caplog: pytest.LogCaptureFixture, ignore: bool) -> None:
    policy = snapshot_pb2.FAILURE_POLICY_IGNORE if ignore else snapshot_pb2.FAILURE_POLICY_FAIL
    target = "unix:/nonexistent/plugin.sock"
    info = plugin_pb2.PluginInfo(name=NAME, extension_points=POINTS)
    config = snapshot_pb2.RemotePlugin(
        name=NAME, endpoints=[target], deadline_ms=5000, info=info, failure_policy=policy
    )
    writer: Any = _NothingBound()
    connections = plugin_connections.PluginConnections(cycle_pb2.Cycle)
    remotes = RemoteBindPlugins(connections, writer, WorkInFlight(time.monotonic), time.monotonic)
    hosted = remotes.plugins_of([config])[NAME]
    assert hosted.post_bind is not None
    pods = [cycle_pb2.PodIdentity(namespace="default", name=name, uid=name) for name in ("a", "b")]
    items = [bind_pb2.BindItem(pod=pod, node_name="node-00000") for pod in pods]
    await hosted.post_bind(bind_pb2.PostBindRequest(items=items))
    failed = [record for record in caplog.records if record.message == "Plugin failed"]
    assert len(failed) == (0 if ignore else 1)
    for record in failed:
        values = vars(record)["values"]
        assert (values["plugin"], str(values["pod"]), values["node"]) == (NAME, "default/a", "node-00000")
        assert values["err"].startswith(f'running PostBind plugin "{NAME}": {target}: UNAVAILABLE')


@pytest.mark.parametrize("gone", [False, True], ids=["caller-waits", "caller-is-gone"])
async def test_a_new_leader_waits_for_pods_that_a_plugin_binds(setup: _Setup, gone: bool) -> None:
    """A plugin's Bind goes on without its caller, and fills nodes that the new leader must know of."""
    bind = setup.bind
    await setup.configure(bind=[NAME])
    await bind.make_pods("web")
    begun = asyncio.Event()

    async def on_bind(item: bind_pb2.BindItem) -> None:
        begun.set()
        await asyncio.sleep(0.7)

    setup.plugin.on_bind = on_bind
    binding = asyncio.create_task(bind.bind("web", node="node-00000"))
    await begun.wait()
    started = asyncio.get_running_loop().time()
    if gone:
        binding.cancel()
        await asyncio.wait([binding])
    await bind.acquire("host-b_2")
    answer = await bind.configure(bind_cluster.configuration(remote=[], bind=["DefaultBinder"]))
    waited = asyncio.get_running_loop().time() - started
    # What the plugin does after its deadline of a second is without effect a second later.
    assert answer.drain_ms == 0
    assert waited > (1.5 if gone else 0.5)
    if not gone:
        await binding


async def test_a_plugin_is_not_called_for_a_leader_that_was_deposed_while_its_pods_waited(tmp_path: Path) -> None:
    plugin = _Harbour()
    begun, bound = asyncio.Event(), []

    async def on_bind(item: bind_pb2.BindItem) -> None:
        bound.append(item.pod.name)
        begun.set()
        await asyncio.sleep(0.3)

    plugin.on_bind = on_bind
    guard = EpochGuard()
    guard.admit(1)
    tenure = Tenure(guard, time.monotonic, guard.leader, float("inf"))
    writer: Any = _NothingBound()
    connections = plugin_connections.PluginConnections(cycle_pb2.Cycle)
    remotes = RemoteBindPlugins(connections, writer, WorkInFlight(time.monotonic), time.monotonic)
    async with _plugin_at(tmp_path, plugin) as target:
        info = plugin_pb2.PluginInfo(name=NAME, extension_points=POINTS, max_concurrent_calls=1)
        config = snapshot_pb2.RemotePlugin(name=NAME, endpoints=[target], deadline_ms=5000, info=info)
        hosted = remotes.plugins_of([config])[NAME]

        async def bind(name: str) -> status_pb2.Status:
            pod = cycle_pb2.PodIdentity(namespace="default", name=name, uid=name)
            assert hosted.bind is not None
            request = bind_pb2.BindRequest(items=[bind_pb2.BindItem(pod=pod, node_name="node-00000")])
            async with aclosing(hosted.bind(request, tenure)) as batches:
                (status,) = [result.status async for results in batches for result in results]
                return status

        first = asyncio.create_task(bind("first"))
        await begun.wait()
        second = asyncio.create_task(bind("second"))
        while not connections.statistics()[NAME].waiting:
            await asyncio.sleep(0.001)
        guard.admit(2)
        assert (await first).code == CODE_SUCCESS
        assert "epoch 2 has taken over" in (await second).messages[0]
        await connections.close()
    assert bound == ["first"]


async def test_the_duration_of_a_bind_call_is_the_time_that_it_waits_for_the_plugin(tmp_path: Path) -> None:
    """The time that bind's caller takes to read the results does not count."""
    now = 0.0
    async with _plugin_at(tmp_path, _Harbour()) as target:
        info = plugin_pb2.PluginInfo(name=NAME, extension_points=POINTS)
        config = snapshot_pb2.RemotePlugin(name=NAME, endpoints=[target], deadline_ms=20_000, info=info)
        connection = remote_connection.PluginConnection(config, lambda: now)
        plugin = remote_bind.RemoteBindPlugin(remote_client.PluginClient(config, cycle_pb2.Cycle, connection))
        items = [bind_pb2.BindItem(pod=cycle_pb2.PodIdentity(name=name, uid=name)) for name in ("a", "b")]
        async with aclosing(plugin.bind(cycle_pb2.Cycle(), items, nullcontext)) as results:
            async for _ in results:
                now += 10.0
        assert connection.statistics().durations == [1]  # in the bucket of the shortest
        await connection.close()


class _NothingBound:
    """A writer that finds no pod bound."""

    async def settle_binding(self, pod: api_writes.PodName, node: str, deadline: float) -> api_writes.SettledBinding:
        """Reads what became of a binding."""
        return api_writes.Conflict("not bound")
