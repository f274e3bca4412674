"""BindPhase over real gRPC and in-process, before an API server that loses replies, fails, hangs and conflicts."""

import asyncio
import time
from pathlib import Path

import grpc
import pytest
from grpc import aio

from tests.contract import bind_cluster
from tests.contract.bind_cluster import Bind, details, ok
from trireme.bind import binding_retries
from trireme.v1 import (
    bind_pb2,
    bind_phase_pb2,
    plugin_pb2,
    plugin_pb2_grpc,
    snapshot_pb2,
    status_pb2,
)
from trireme_kube.embedded.endpoints.faults import Fault, FaultAction

BINDING = "/binding"


def text(status: status_pb2.Status) -> str:
    assert status.code == status_pb2.CODE_ERROR
    assert status.plugin == "DefaultBinder"
    (message,) = status.messages
    return message


async def test_pods_are_bound(bind: Bind) -> None:
    """A batch ends with all pods on their node, one POST each."""
    names = [f"pod-{number}" for number in range(50)]
    await bind.make_pods(*names)
    counted = bind.cluster.faults.add(Fault(FaultAction.DELAY, "POST", BINDING, times=-1))
    assert ok(await bind.bind(*names, node="node-00001"))
    assert counted.struck == 50
    assert {await bind.node_of(name) for name in names} == {"node-00001"}


async def test_a_repeated_call_is_a_success(bind: Bind) -> None:
    """A caller that lost our answer asks again and hears the truth; the pod stays where it is."""
    await bind.make_pods("web")
    assert ok(await bind.bind("web", node="node-00000"))
    assert ok(await bind.bind("web", node="node-00000"))


async def test_a_second_node_is_refused(bind: Bind) -> None:
    """A pod is never bound twice; the message is kube-scheduler's."""
    await bind.make_pods("web")
    await bind.bind("web", node="node-00000")
    (status,) = await bind.bind("web", node="node-00001")
    assert text(status) == (
        'running Bind plugin "DefaultBinder": Operation cannot be fulfilled on pods/binding "web": '
        'pod web is already assigned to node "node-00000"'
    )
    assert [reason.code for reason in status.reasons] == ["alreadyAssigned"]
    assert await bind.node_of("web") == "node-00000"


async def test_two_nodes_at_once_bind_once(bind: Bind) -> None:
    """Of calls that race for one pod at most one binds it, and the others hear that they did not."""
    await bind.make_pods("web")
    bind.cluster.faults.add(Fault(FaultAction.DELAY, "POST", BINDING, times=-1, seconds=0.05))
    nodes = ["node-00000", "node-00001", "node-00002"] * 4
    statuses = [status for (status,) in await asyncio.gather(*(bind.bind("web", node=node) for node in nodes))]
    bound_to = await bind.node_of("web")
    assert bound_to
    for node, status in zip(nodes, statuses, strict=True):
        assert (status.code == status_pb2.CODE_SUCCESS) is (node == bound_to)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(FaultAction.DROP_AFTER, "POST", BINDING, times=1), id="reply-lost"),
        pytest.param(Fault(FaultAction.DROP_BEFORE, "POST", BINDING, times=1), id="request-lost"),
        pytest.param(Fault(FaultAction.DROP_AFTER, "POST", BINDING, times=3), id="replies-lost"),
        pytest.param(Fault(FaultAction.STATUS, "POST", BINDING, times=3, code=500), id="500"),
        pytest.param(Fault(FaultAction.STATUS, "POST", BINDING, times=3, code=503), id="503"),
        pytest.param(Fault(FaultAction.STATUS, "POST", BINDING, times=1, code=429, retry_after=1), id="429"),
        pytest.param(
            Fault(FaultAction.DELAY_REPLY, "POST", BINDING, times=1, seconds=2.0), id="reply-after-the-deadline"
        ),
        pytest.param(Fault(FaultAction.HANG, "POST", BINDING, times=1, seconds=2.0), id="hangs"),
    ],
)
async def test_faults_of_the_api_server_do_no_harm(bind: Bind, fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost, late and failing answers: the pod is bound, once, and the caller hears so."""
    monkeypatch.setattr(binding_retries, "POST_DEADLINE_SECONDS", 1.5)
    await bind.make_pods("web", "other")
    armed = bind.cluster.faults.add(
        Fault(fault.action, fault.method, f"web{fault.path}", fault.times, fault.code, fault.seconds, fault.retry_after)
    )
    assert ok(await bind.bind("web", "other", node="node-00000"))
    assert armed.struck > 0
    assert await bind.node_of("web") == "node-00000"


async def test_a_lost_reply_hidden_by_failing_reads_stays_open(bind: Bind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody can tell, the call ends with UNAVAILABLE for that pod alone; asked again it is the truth."""
    monkeypatch.setattr(binding_retries, "RESOLVE_SECONDS", 0.2)
    monkeypatch.setattr(binding_retries, "READ_DEADLINE_SECONDS", 0.2)
    await bind.make_pods("web", "other")
    faults = bind.cluster.faults
    faults.add(Fault(FaultAction.DROP_AFTER, "POST", f"web{BINDING}"))
    faults.add(Fault(FaultAction.DROP_BEFORE, "GET", "pods/web", times=-1))
    request = bind_pb2.BindRequest(cycle=bind.cycle(), items=bind.items(["web", "other"], "node-00000"))
    results: list[bind_pb2.BindResult] = []

    async def collect() -> None:
        async for response in bind.stub.Bind(request, timeout=20):
            results.extend(response.results)

    with pytest.raises(aio.AioRpcError) as caught:
        await collect()
    assert [result.index for result in results] == [1]
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "default/web" in str(caught.value.details())
    faults.clear()
    assert ok(await bind.bind("web", "other", node="node-00000"))


async def test_a_frozen_api_server_is_not_waited_for_forever(bind: Bind, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that accepts and never answers costs a deadline; the caller's own deadline ends the call."""
    monkeypatch.setattr(binding_retries, "POST_DEADLINE_SECONDS", 0.3)
    monkeypatch.setattr(binding_retries, "READ_DEADLINE_SECONDS", 0.3)
    await bind.make_pods("web")
    bind.cluster.faults.add(Fault(FaultAction.HANG, ".*", "pods/web", times=-1, seconds=30.0))
    started = time.monotonic()
    with pytest.raises(aio.AioRpcError) as caught:
        await bind.bind("web", node="node-00000", timeout=1.5)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert time.monotonic() - started < 3.0
    bind.cluster.faults.clear()
    assert ok(await bind.bind("web", node="node-00000"))


async def test_binding_a_deleted_pod_is_reported_as_not_found(bind: Bind) -> None:
    """A pod deleted meanwhile is certainly not bound."""
    await bind.make_pods("web")
    await bind.api.delete("/api/v1/namespaces/default/pods/web")
    (status,) = await bind.bind("web", node="node-00000")
    assert text(status) == 'running Bind plugin "DefaultBinder": pods "web" not found'


async def test_another_pod_of_the_name_is_not_bound(bind: Bind) -> None:
    """A pod deleted and made again has another UID, and nobody has placed it."""
    await bind.make_pods("web")
    old = bind.identity("web")
    await bind.api.delete("/api/v1/namespaces/default/pods/web")
    await bind.make_pods("web")
    request = bind_pb2.BindRequest(cycle=bind.cycle(), items=[bind_pb2.BindItem(pod=old, node_name="node-00000")])
    results = [result async for response in bind.stub.Bind(request, timeout=10) for result in response.results]
    assert "running Bind plugin" in text(results[0].status)
    assert await bind.node_of("web") == ""


async def test_a_call_without_the_lease_is_refused(bind: Bind) -> None:
    """A caller that is not the holder, has an old epoch or ran out of time: FAILED_PRECONDITION, with the reason."""
    await bind.make_pods("web")
    bind.holder = "host-b_1"
    with pytest.raises(aio.AioRpcError) as caught:
        await bind.bind("web", node="node-00000")
    assert details(caught.value) == (grpc.StatusCode.FAILED_PRECONDITION, "not-holder")
    bind.holder, bind.epoch = bind_cluster.HOLDER, bind.epoch - 1
    with pytest.raises(aio.AioRpcError) as caught:
        await bind.bind("web", node="node-00000")
    assert details(caught.value) == (grpc.StatusCode.FAILED_PRECONDITION, "stale-epoch")
    bind.epoch += 1
    with pytest.raises(aio.AioRpcError) as caught:
        await bind.bind("web", node="node-00000", valid_ms=0)
    assert details(caught.value) == (grpc.StatusCode.FAILED_PRECONDITION, "lease-expired")
    assert await bind.node_of("web") == ""
    assert ok(await bind.bind("web", node="node-00000"))


async def test_a_successor_fences_its_predecessor(bind: Bind) -> None:
    """After Fence nothing of the old leader is under way, nothing of it begins, and its calls are refused."""
    names = [f"pod-{number}" for number in range(200)]
    await bind.make_pods(*names)
    bind.cluster.faults.add(Fault(FaultAction.DELAY, "POST", BINDING, times=-1, seconds=0.1))
    old = asyncio.create_task(bind.bind(*names, node="node-00000"))
    await asyncio.sleep(0.05)
    successor = Bind(bind.cluster, bind.api, bind.stub, bind.channel, bind.epoch, uids=bind.uids)
    await successor.acquire("host-b_1")
    response = await successor.configure()
    assert (response.epoch, response.drain_ms) == (successor.epoch, 0)
    bound_at_fence = [name for name in names if await bind.node_of(name)]
    statuses = await old
    assert 0 < len(bound_at_fence) < len(names)
    assert [name for name, status in zip(names, statuses, strict=True) if status.code == 1] == bound_at_fence
    assert {status.reasons[0].code for status in statuses if status.code != 1} == {"notBegun"}
    with pytest.raises(aio.AioRpcError) as caught:
        await bind.bind(names[-1], node="node-00000")
    assert details(caught.value)[1] == "stale-epoch"
    assert ok(await successor.bind(*names[-3:], node="node-00001"))


async def test_fence_returns_how_long_older_work_may_last(bind: Bind, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that does not end within the caller's patience is told with the time that is left of it."""
    monkeypatch.setattr(binding_retries, "POST_DEADLINE_SECONDS", 4.0)
    await bind.make_pods("web")
    bind.cluster.faults.add(Fault(FaultAction.HANG, "POST", BINDING, seconds=1.0))
    old = asyncio.create_task(bind.bind("web", node="node-00000"))
    await asyncio.sleep(0.2)
    await bind.acquire("host-b_1")
    response = await bind.stub.Fence(
        bind_phase_pb2.FenceRequest(fence=bind.fence(), config_hash=bind_cluster.CONFIG_HASH), timeout=0.5
    )
    assert 3_000 < response.drain_ms <= 5_000
    old.cancel()
    await asyncio.wait((old,))


async def test_a_lease_that_cannot_be_read_is_unavailable(bind: Bind) -> None:
    """Bind trusts nobody while it cannot ask; the caller may try again."""
    bind.cluster.faults.add(Fault(FaultAction.STATUS, "GET", "leases/kube-scheduler", times=-1, code=403))
    bind.epoch += 1
    with pytest.raises(aio.AioRpcError) as caught:
        await bind.configure()
    assert details(caught.value) == (grpc.StatusCode.UNAVAILABLE, "unverified")


async def test_after_a_restart_configuration_and_epoch_come_again(tmp_path: Path) -> None:
    """A replica without a configuration says so, and Fence without it does not help."""
    async with bind_cluster.running(tmp_path) as bind:
        await bind.acquire()
        await bind.make_pods("web")
        with pytest.raises(aio.AioRpcError) as caught:
            await bind.bind("web", node="node-00000")
        assert details(caught.value) == (grpc.StatusCode.FAILED_PRECONDITION, "config-mismatch")
        request = bind_phase_pb2.FenceRequest(fence=bind.fence(), config_hash=bind_cluster.CONFIG_HASH)
        with pytest.raises(aio.AioRpcError) as caught:
            await bind.stub.Fence(request, timeout=20)
        assert details(caught.value) == (grpc.StatusCode.FAILED_PRECONDITION, "config-mismatch")
        await bind.configure()
        assert ok(await bind.bind("web", node="node-00000"))


async def test_without_leader_election_no_lease_is_needed(tmp_path: Path) -> None:
    """A single frontend without a Lease binds; a lower epoch is refused all the same."""
    async with bind_cluster.running(tmp_path, "--leader-elect=false") as bind:
        bind.epoch, bind.holder = 5, ""
        await bind.configure()
        await bind.make_pods("web")
        assert ok(await bind.bind("web", node="node-00000", valid_ms=0))
        bind.epoch = 4
        with pytest.raises(aio.AioRpcError) as caught:
            await bind.configure()
        assert details(caught.value)[1] == "stale-epoch"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        pytest.param({"epoch": 0}, "fence.epoch", id="no-epoch"),
        pytest.param({"profile": "other"}, "cycle.profile", id="unknown-profile"),
        pytest.param({"namespace": "../kube-system"}, "items[0].pod.namespace", id="namespace-with-a-path"),
        pytest.param({"name": "web/../x"}, "items[0].pod.name", id="name-with-a-path"),
        pytest.param({"uid": ""}, "items[0].pod.uid", id="no-uid"),
        pytest.param({"node_name": ""}, "items[0].node_name", id="no-node"),
    ],
)
async def test_malformed_calls_are_refused(bind: Bind, change: dict[str, object], named: str) -> None:
    """INVALID_ARGUMENT names the field, and nothing is written."""
    await bind.make_pods("web")
    request = bind_pb2.BindRequest(cycle=bind.cycle(), items=bind.items(["web"], "node-00000"))
    for name, value in change.items():
        owner = next(
            part
            for part in (request.cycle.fence, request.cycle, request.items[0].pod, request.items[0])
            if name in part.DESCRIPTOR.fields_by_name
        )
        setattr(owner, name, value)
    with pytest.raises(aio.AioRpcError) as caught:
        await bind.stub.Bind(request, timeout=20).read()
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert named in str(caught.value.details())
    assert await bind.node_of("web") == ""


async def test_a_configuration_with_an_unknown_plugin_is_refused(bind: Bind) -> None:
    """A PreBind that is not there must not be left out in silence: its pods would be bound unprepared."""
    config = bind_cluster.configuration(pre_bind=["VolumeBlinding"])
    request = bind_phase_pb2.FenceRequest(fence=bind.fence(), config_hash=78, configuration=config)
    with pytest.raises(aio.AioRpcError) as caught:
        await bind.stub.Fence(request, timeout=20)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "no PreBind plugin VolumeBlinding" in str(caught.value.details())


async def test_a_frontend_of_a_distant_release_is_refused(bind: Bind) -> None:
    """Nobody has tested what its requests mean to this one."""
    config = bind_cluster.configuration()
    config.release = "99.0.0"
    request = bind_phase_pb2.FenceRequest(fence=bind.fence(), config_hash=79, configuration=config)
    with pytest.raises(aio.AioRpcError) as caught:
        await bind.stub.Fence(request, timeout=20)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "configuration: the frontend is of release 99.0.0 and this process of" in str(caught.value.details())


async def test_a_later_frontend_may_know_more_points_of_a_plugin(bind: Bind) -> None:
    """A bind that is updated last would refuse all frontends because of one plugin."""
    newer = plugin_pb2.ExtensionPoint.ValueType(99)
    info = plugin_pb2.PluginInfo(name="P", extension_points=[plugin_pb2.EXTENSION_POINT_PRE_BIND, newer])
    info.events_to_register.add(resource="NewKind", actions=["Rise"])
    plugin = snapshot_pb2.RemotePlugin(name="P", endpoints=["127.0.0.1:1"], deadline_ms=1000, info=info)
    config = bind_cluster.configuration(remote=[plugin], pre_bind=["P"])
    config.profiles[0].plugin_sets.add(extension_point=newer).plugins.add(name="P")
    await bind.stub.Fence(
        bind_phase_pb2.FenceRequest(fence=bind.fence(), config_hash=79, configuration=config), timeout=20
    )


async def test_the_handshake_names_what_is_hosted(bind: Bind) -> None:
    """The frontend can see that the profile is covered."""
    stub = plugin_pb2_grpc.PluginServiceStub(bind.channel)
    response = await stub.GetPluginInfo(plugin_pb2.GetPluginInfoRequest(), timeout=20)
    assert [(plugin.name, list(plugin.extension_points)) for plugin in response.plugins] == [
        ("DefaultBinder", [plugin_pb2.EXTENSION_POINT_BIND]),
        ("DynamicResources", [plugin_pb2.EXTENSION_POINT_PRE_BIND]),
        ("VolumeBinding", [plugin_pb2.EXTENSION_POINT_PRE_BIND]),
    ]
    assert response.instance


async def test_points_without_plugins_pass(bind: Bind) -> None:
    """Permit lets all pods go on, PreBind has nothing to do, PostBind nobody to tell."""
    await bind.make_pods("web")
    items = bind.items(["web"], "node-00000")
    permitted = await bind.stub.Permit(bind_pb2.PermitRequest(cycle=bind.cycle(), items=items), timeout=20)
    prepared = await bind.pre_bind(items)
    await bind.stub.PostBind(bind_pb2.PostBindRequest(cycle=bind.cycle(), items=items), timeout=20)
    assert [result.status.code for result in permitted.results] == [status_pb2.CODE_SUCCESS]
    assert [result.status.code for result in prepared] == [status_pb2.CODE_SKIP]


async def test_configuration_changes_with_its_hash(bind: Bind) -> None:
    """A new configuration replaces the old one, and calls that name the old one are refused."""
    await bind.make_pods("web")
    config = bind_cluster.configuration()
    request = bind_phase_pb2.FenceRequest(fence=bind.fence(), config_hash=99, configuration=config)
    await bind.stub.Fence(request, timeout=20)
    with pytest.raises(aio.AioRpcError) as caught:
        await bind.bind("web", node="node-00000")
    assert details(caught.value)[1] == "config-mismatch"
