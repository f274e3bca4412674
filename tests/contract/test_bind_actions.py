"""What bind does besides bindings (conditions, nominations, evictions, claims), before an API server that fails."""

import asyncio
from typing import Any

import grpc
import pytest
from grpc import aio

from tests.contract.bind_cluster import Bind, ok
from trireme.v1 import (
    bind_pb2,
    core_pb2,
    status_pb2,
)
from trireme_kube.client.rest.errors import ApiError
from trireme_kube.embedded.endpoints.faults import Fault, FaultAction

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


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
