"""BindPhase over real gRPC and in-process, before an API server that loses replies, fails, hangs and conflicts."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from tests.contract import bind_cluster
from tests.contract.bind_cluster import Bind, details
from trireme.bind import binding_retries
from trireme.v1 import (
    bind_pb2,
    bind_phase_pb2,
    core_pb2,
    plugin_pb2,
    plugin_pb2_grpc,
    snapshot_pb2,
    status_pb2,
)
from trireme_kube.client.rest.errors import ApiError
from trireme_kube.embedded.endpoints.faults import Fault, FaultAction

BINDING = "/binding"


@pytest.fixture(params=[False, True], ids=["process", "in-process"])
async def bind(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Bind]:
    """A configured bind service and its leader."""
    async with bind_cluster.running(tmp_path, in_process=request.param) as found:
        await found.acquire()
        await found.configure()
        yield found


def ok(statuses: list[status_pb2.Status]) -> bool:
    return all(status.code == status_pb2.CODE_SUCCESS for status in statuses)


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


@pytest.mark.parametrize(
    ("action", "named"),
    [
        pytest.param({}, "action: not set", id="no-action"),
        pytest.param(
            {"deallocate": bind_pb2.Deallocate(namespace="../default", name="claim", uid="u")},
            "deallocate: namespace",
            id="deallocate-a-path",
        ),
        pytest.param(
            {"remove_claim_user": bind_pb2.RemoveClaimUser(namespace="default", name="../claim", uid="u")},
            "remove_claim_user: namespace, name",
            id="remove-the-user-of-a-path",
        ),
        pytest.param(
            {"undo_pre_bind": bind_pb2.UndoPreBind(state=b"\xff")}, "undo_pre_bind.state", id="state-of-no-plugin"
        ),
    ],
)
async def test_malformed_actions_are_refused(bind: Bind, action: dict[str, Any], named: str) -> None:
    """INVALID_ARGUMENT names the field, and no action of the call is executed."""
    await bind.make_pods("web")
    evict = bind_pb2.Action(pod=bind.identity("web"), evict=bind_pb2.Evict(message="m"))
    with pytest.raises(aio.AioRpcError) as caught:
        await bind.apply(evict, bind_pb2.Action(pod=bind.identity("web"), **action))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert f"actions[1].{named}" in str(caught.value.details())
    assert "deletionTimestamp" not in (await bind.pod("web"))["metadata"]


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


def condition(message: str) -> core_pb2.PodCondition:
    made = core_pb2.PodCondition(
        type="PodScheduled", status="False", reason="Unschedulable", message=message, observed_generation=1
    )
    made.last_transition_time.seconds = 1_767_322_800
    return made


async def test_a_condition_is_written_as_kube_scheduler_writes_it(bind: Bind) -> None:
    """The pod shows why it was not scheduled, where it waits, and later that it waits no more."""
    await bind.make_pods("web")
    message = "0/3 nodes are available: 3 Insufficient cpu."
    wanted = bind_pb2.SetCondition(condition=condition(message), nominated_node_name="node-00002")
    assert ok(await bind.apply(bind_pb2.Action(pod=bind.identity("web"), set_condition=wanted)))
    status = (await bind.pod("web"))["status"]
    (written,) = status["conditions"]
    written.pop("lastProbeTime", None)
    assert [written] == [
        {
            "lastTransitionTime": "2026-01-02T03:00:00Z",
            "message": message,
            "observedGeneration": 1,
            "reason": "Unschedulable",
            "status": "False",
            "type": "PodScheduled",
        }
    ]
    assert status["nominatedNodeName"] == "node-00002"
    cleared = bind_pb2.SetCondition(condition=condition(message), nominated_node_name="")
    assert ok(await bind.apply(bind_pb2.Action(pod=bind.identity("web"), set_condition=cleared)))
    assert "nominatedNodeName" not in (await bind.pod("web"))["status"]


async def test_actions_about_one_pod_keep_their_order(bind: Bind) -> None:
    """Nominate, clear, nominate: the last one stands, in one call and across calls."""
    await bind.make_pods("web")
    pod = bind.identity("web")
    bind.cluster.faults.add(Fault(FaultAction.DELAY, "PATCH", "web/status", times=1, seconds=0.2))
    first = asyncio.create_task(
        bind.apply(
            bind_pb2.Action(pod=pod, nominate=bind_pb2.Nominate(node_name="node-00000")),
            bind_pb2.Action(pod=pod, clear_nomination=bind_pb2.ClearNomination()),
        )
    )
    await asyncio.sleep(0.05)
    assert ok(await bind.apply(bind_pb2.Action(pod=pod, nominate=bind_pb2.Nominate(node_name="node-00001"))))
    assert ok(await first)
    assert (await bind.pod("web"))["status"]["nominatedNodeName"] == "node-00001"


@pytest.mark.parametrize("code", [500, 503, 409])
async def test_a_status_patch_is_tried_four_times(bind: Bind, code: int) -> None:
    """As often as kube-scheduler: three failures pass, four are an error."""
    await bind.make_pods("web")
    action = bind_pb2.Action(pod=bind.identity("web"), nominate=bind_pb2.Nominate(node_name="node-00000"))
    bind.cluster.faults.add(Fault(FaultAction.STATUS, "PATCH", "web/status", times=3, code=code))
    assert ok(await bind.apply(action))


def eviction(bind: Bind, name: str) -> bind_pb2.Action:
    message = "default-scheduler: preempting to accommodate a higher priority pod"
    evict = bind_pb2.Evict(message=message, observed_generation=1, preemptor=bind.identity("preemptor"))
    return bind_pb2.Action(pod=bind.identity(name), evict=evict)


async def test_a_victim_is_marked_and_deleted(bind: Bind) -> None:
    """A pod that runs shows DisruptionTarget and is being deleted; doing it again changes nothing."""
    await bind.make_pods("victim", "preemptor")
    await bind.bind("victim", node="node-00000")
    assert ok(await bind.apply(eviction(bind, "victim")))
    victim = await bind.pod("victim")
    assert victim["metadata"]["deletionTimestamp"]
    (mark,) = (entry for entry in victim["status"]["conditions"] if entry["type"] == "DisruptionTarget")
    assert (mark["status"], mark["reason"]) == ("True", "PreemptionByScheduler")
    assert mark["message"] == "default-scheduler: preempting to accommodate a higher priority pod"
    assert mark["observedGeneration"] == 1
    assert ok(await bind.apply(eviction(bind, "victim")))
    assert ok(await bind.apply(eviction(bind, "victim")))


async def test_a_deletion_that_conflicts_is_not_taken_for_done(bind: Bind) -> None:
    """A 409 need not mean that another pod has the name; the preemptor would wait for a victim that stays."""
    await bind.make_pods("victim", "preemptor")
    await bind.bind("victim", node="node-00000")
    bind.cluster.faults.add(Fault(FaultAction.STATUS, "DELETE", "pods/victim", times=1, code=409))
    assert ok(await bind.apply(eviction(bind, "victim")))
    assert (await bind.pod("victim"))["metadata"]["deletionTimestamp"]


async def test_a_victim_that_cannot_be_deleted_stays_and_says_why(bind: Bind) -> None:
    """The preemptor is then tried again, and does not wait for room."""
    await bind.make_pods("victim", "preemptor")
    await bind.bind("victim", node="node-00000")
    bind.cluster.faults.add(Fault(FaultAction.STATUS, "DELETE", "pods/victim", times=20, code=409))
    (status,) = await bind.apply(eviction(bind, "victim"))
    assert status.code == status_pb2.CODE_ERROR
    assert status.messages[0]
    assert "deletionTimestamp" not in (await bind.pod("victim"))["metadata"]


async def test_a_deleted_or_replaced_victim_is_not_evicted(bind: Bind) -> None:
    """Evicting is done when the pod is not there; another pod of its name is not touched."""
    await bind.make_pods("victim", "preemptor")
    action = eviction(bind, "victim")
    await bind.api.delete("/api/v1/namespaces/default/pods/victim")
    assert ok(await bind.apply(action))
    await bind.make_pods("victim")
    assert ok(await bind.apply(action))
    victim = await bind.pod("victim")
    assert "deletionTimestamp" not in victim["metadata"]
    assert not victim["status"].get("conditions")


async def test_a_victim_that_was_seen_is_not_read(bind: Bind) -> None:
    """A request costs the API server a millisecond, and preemptors may be thousands; kube-scheduler sends two."""
    await bind.make_pods("victim", "preemptor")
    read = bind.cluster.faults.add(Fault(FaultAction.STATUS, "GET", "pods/victim", code=403))
    assert ok(await bind.apply(eviction(bind, "victim")))
    assert read.struck == 0


@pytest.mark.parametrize(
    ("method", "path"), [("PATCH", "victim/status"), ("DELETE", "pods/victim")], ids=["mark", "delete"]
)
async def test_an_eviction_survives_lost_replies(bind: Bind, method: str, path: str) -> None:
    """A step whose reply is lost is looked at and, where need be, done again."""
    await bind.make_pods("victim", "preemptor")
    lost = bind.cluster.faults.add(Fault(FaultAction.DROP_AFTER, method, path))
    assert ok(await bind.apply(eviction(bind, "victim")))
    assert lost.struck == 1
    pods = (await bind.api.get("/api/v1/namespaces/default/pods")).json()["items"]
    assert "victim" not in [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]


async def test_configuration_changes_with_its_hash(bind: Bind) -> None:
    """A new configuration replaces the old one, and calls that name the old one are refused."""
    await bind.make_pods("web")
    config = bind_cluster.configuration()
    request = bind_phase_pb2.FenceRequest(fence=bind.fence(), config_hash=99, configuration=config)
    await bind.stub.Fence(request, timeout=20)
    with pytest.raises(aio.AioRpcError) as caught:
        await bind.bind("web", node="node-00000")
    assert details(caught.value)[1] == "config-mismatch"


CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


async def make_claim(bind: Bind, reserved_for: str) -> str:
    """A claim allocated and reserved for the pod of that name; answers its own UID."""
    body = {"metadata": {"name": "claim", "finalizers": ["resource.kubernetes.io/delete-protection"]}, "spec": {}}
    claim = (await bind.api.post(CLAIMS, body)).json()
    claim["status"] = {
        "allocation": {"devices": {"results": []}},
        "reservedFor": [{"resource": "pods", "name": reserved_for, "uid": bind.uids[reserved_for]}],
    }
    await bind.api.put(f"{CLAIMS}/claim/status", claim)
    return str(claim["metadata"]["uid"])


def deallocation(bind: Bind, uid: str, *, delete: bool = False) -> bind_pb2.Action:
    wanted = bind_pb2.Deallocate(namespace="default", name="claim", uid=uid, delete=delete)
    return bind_pb2.Action(pod=bind.identity("web"), deallocate=wanted)


@pytest.mark.parametrize("fault", ["none", "conflict", "reply-lost"])
async def test_a_claim_is_deallocated(bind: Bind, fault: str) -> None:
    """Allocation and reservation go, also when another write came between or the reply was lost; again is a success."""
    await bind.make_pods("web")
    uid = await make_claim(bind, "web")
    if fault == "conflict":
        bind.cluster.faults.add(Fault(FaultAction.STATUS, "PUT", "claim/status", code=409))
    elif fault == "reply-lost":
        bind.cluster.faults.add(Fault(FaultAction.DROP_AFTER, "PUT", "claim/status"))
    assert ok(await bind.apply(deallocation(bind, uid)))
    assert not (await bind.api.get(f"{CLAIMS}/claim")).json().get("status")
    assert ok(await bind.apply(deallocation(bind, uid)))


async def test_a_claim_in_use_keeps_its_allocation(bind: Bind) -> None:
    """Another pod reserved it since the decision was made."""
    await bind.make_pods("web", "another")
    uid = await make_claim(bind, "another")
    (status,) = await bind.apply(deallocation(bind, uid))
    assert status.code == status_pb2.CODE_ERROR
    assert "reserved for somebody else" in status.messages[0]
    assert (await bind.api.get(f"{CLAIMS}/claim")).json()["status"]["allocation"]


async def test_a_group_gives_up_its_claim_or_leaves_it(bind: Bind) -> None:
    """What the group reserved is its own to give up; leaving keeps the devices and the other users. Again is fine."""
    await bind.make_pods("web")
    uid = await make_claim(bind, "web")
    claim = (await bind.api.get(f"{CLAIMS}/claim")).json()
    # Not a PodGroup: what is reserved for one that is not there the cluster's controller takes away.
    group = {"apiGroup": "example.com", "resource": "groups", "name": "g", "uid": "group"}
    claim["status"]["reservedFor"].append(group)
    await bind.api.put(f"{CLAIMS}/claim/status", claim)
    leaving = bind_pb2.RemoveClaimUser(namespace="default", name="claim", uid=uid, user_uid=bind.uids["web"])
    for _ in range(2):
        assert ok(await bind.apply(bind_pb2.Action(pod=bind.identity("web"), remove_claim_user=leaving)))
    left = (await bind.api.get(f"{CLAIMS}/claim")).json()["status"]
    assert (left["reservedFor"], "allocation" in left) == ([group], True)
    (status,) = await bind.apply(deallocation(bind, uid))
    assert status.code == status_pb2.CODE_ERROR
    action = deallocation(bind, uid)
    action.deallocate.user_uid = "group"
    assert ok(await bind.apply(action))
    assert not (await bind.api.get(f"{CLAIMS}/claim")).json().get("status")


async def test_a_claim_made_by_the_scheduler_is_deleted(bind: Bind) -> None:
    """Its finalizer goes first; a claim that is gone, or another one of the name, is a success."""
    await bind.make_pods("web")
    uid = await make_claim(bind, "web")
    assert ok(await bind.apply(deallocation(bind, "another-claim", delete=True)))
    assert (await bind.api.get(f"{CLAIMS}/claim")).json()["metadata"]["uid"] == uid
    assert ok(await bind.apply(deallocation(bind, uid, delete=True)))
    with pytest.raises(ApiError, match="not found"):
        await bind.api.get(f"{CLAIMS}/claim")
    assert ok(await bind.apply(deallocation(bind, uid, delete=True)))
