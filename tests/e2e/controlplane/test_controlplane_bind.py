"""Bind against the real API server: the refusals and the writes are what it takes them for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract import bind_cluster
from tools.controlplane import controlplane_fixture, launcher
from trireme.bind import flags
from trireme.v1 import bind_pb2, bind_phase_pb2_grpc, core_pb2, status_pb2
from trireme_kube.client.rest import client
from trireme_kube.client.rest.credentials import Source

pytestmark = pytest.mark.controlplane

NODES = ("node-a", "node-b")


SCHEDULER = launcher.User("system:kube-scheduler")


@pytest.fixture
async def bind(
    start_controlplane: controlplane_fixture.StartControlPlane, tmp_path: Path
) -> AsyncIterator[bind_cluster.Bind]:
    """A bind service with kube-scheduler's rights, in front of a real API server with two nodes."""
    controlplane = start_controlplane(launcher.Options(authorization="RBAC", users=(SCHEDULER,)))
    kubeconfig, own = str(controlplane.kubeconfig), str(controlplane.kubeconfig_of(SCHEDULER.name))
    options = flags.parse(["--listen", f"unix:{tmp_path}/bind.sock", "--kubeconfig", own, "--kube-api-qps=-1"])
    async with (
        await client.connect(client.ClientSettings(source=Source(kubeconfig), qps=-1)) as api,
        bind_cluster.serving(options) as channel,
    ):
        for name in NODES:
            await api.post("/api/v1/nodes", {"metadata": {"name": name}})
        account = {"metadata": {"name": "default", "namespace": "default"}}
        await api.post("/api/v1/namespaces/default/serviceaccounts", account)
        unused: Any = None  # the embedded cluster, in whose place the real API server is
        found = bind_cluster.Bind(unused, api, bind_phase_pb2_grpc.BindPhaseStub(channel), channel)
        await found.acquire()
        await found.configure()
        yield found


def message(status: status_pb2.Status) -> str:
    assert status.code == status_pb2.CODE_ERROR
    return str(status.messages[0])


async def test_bindings_and_their_refusals(bind: bind_cluster.Bind) -> None:
    """A binding, the same again, another node, another pod of the name, no pod: each is told as it is."""
    await bind.make_pods("web", "gone")
    assert [status.code for status in await bind.bind("web", node="node-a")] == [1]
    assert [status.code for status in await bind.bind("web", node="node-a")] == [1]
    (other,) = await bind.bind("web", node="node-b")
    assert message(other) == (
        'running Bind plugin "DefaultBinder": Operation cannot be fulfilled on pods/binding "web": '
        'pod web is already assigned to node "node-a"'
    )
    await bind.api.delete("/api/v1/namespaces/default/pods/gone")
    (gone,) = await bind.bind("gone", node="node-a")
    assert message(gone) == 'running Bind plugin "DefaultBinder": pods "gone" not found'
    old = bind.uids["gone"]
    await bind.make_pods("gone")
    bind.uids["gone"] = old
    (replaced,) = await bind.bind("gone", node="node-a")
    assert message(replaced)
    assert await bind.node_of("gone") == ""


async def test_conditions_nominations_and_evictions(bind: bind_cluster.Bind) -> None:
    """The patches are taken as kube-scheduler's are; a victim is marked and goes, and nobody else of its name."""
    await bind.make_pods("web", "victim")
    condition = core_pb2.PodCondition(
        type="PodScheduled", status="False", reason="Unschedulable", message="no", observed_generation=1
    )
    condition.last_transition_time.seconds = 1_767_322_800
    wanted = bind_pb2.SetCondition(condition=condition, nominated_node_name="node-b")
    action = bind_pb2.Action(pod=bind.identity("web"), set_condition=wanted)
    for _ in range(2):
        assert [status.code for status in await bind.apply(action)] == [1]
        pod = await bind.pod("web")
        assert pod["status"]["conditions"] == [
            {
                "lastProbeTime": None,
                "lastTransitionTime": "2026-01-02T03:00:00Z",
                "message": "no",
                "observedGeneration": 1,
                "reason": "Unschedulable",
                "status": "False",
                "type": "PodScheduled",
            }
        ]
        assert pod["status"]["nominatedNodeName"] == "node-b"
    clear = bind_pb2.Action(pod=bind.identity("web"), clear_nomination=bind_pb2.ClearNomination())
    assert [status.code for status in await bind.apply(clear)] == [1]
    assert "nominatedNodeName" not in (await bind.pod("web"))["status"]

    await bind.bind("victim", node="node-a")
    evict = bind_pb2.Evict(message="x: preempting", observed_generation=1, preemptor=bind.identity("web"))
    eviction = bind_pb2.Action(pod=bind.identity("victim"), evict=evict)
    for _ in range(2):
        assert [status.code for status in await bind.apply(eviction)] == [1]
        victim = await bind.pod("victim")
        assert victim["metadata"]["deletionTimestamp"]
        marks = [entry for entry in victim["status"]["conditions"] if entry["type"] == "DisruptionTarget"]
        assert [mark["reason"] for mark in marks] == ["PreemptionByScheduler"]
        assert [entry["type"] for entry in victim["status"]["conditions"]] == ["PodScheduled", "DisruptionTarget"]
    (late,) = await bind.bind("victim", node="node-a")
    assert late.code == 1  # it is bound there, if not for long


async def test_a_claim_loses_its_allocation_and_is_deleted(bind: bind_cluster.Bind) -> None:
    """The write of the status and the removal of the finalizer pass the API server's validation."""
    await bind.make_pods("web")
    claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    request = {"name": "r", "exactly": {"deviceClassName": "dev", "allocationMode": "ExactCount", "count": 1}}
    body: dict[str, Any] = {"metadata": {"name": "claim"}, "spec": {"devices": {"requests": [request]}}}
    body["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    claim = (await bind.api.post(claims, body)).json()
    result = {"request": "r", "driver": "drv.example.com", "pool": "p", "device": "d0"}
    claim["status"] = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "web", "uid": bind.uids["web"]}],
    }
    await bind.api.put(f"{claims}/claim/status", claim)
    wanted = bind_pb2.Deallocate(namespace="default", name="claim", uid=claim["metadata"]["uid"])
    action = bind_pb2.Action(pod=bind.identity("web"), deallocate=wanted)
    assert [status.code for status in await bind.apply(action)] == [1]
    found = (await bind.api.get(f"{claims}/claim")).json()
    assert not found.get("status")
    role = (await bind.api.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/system:kube-scheduler")).json()
    may_delete = any("resourceclaims" in rule["resources"] and "delete" in rule["verbs"] for rule in role["rules"])
    launcher.require(may_delete, "a built-in role of schedulers that may delete ResourceClaims")
    wanted.delete = True
    action = bind_pb2.Action(pod=bind.identity("web"), deallocate=wanted)
    assert [status.code for status in await bind.apply(action)] == [1]
    listed = (await bind.api.get(claims)).json()["items"]
    assert listed == []
