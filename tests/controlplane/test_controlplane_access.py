"""The roles of deploy/ are exactly what the processes need: with them nothing is refused, and nothing is left over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import access_log
import clusters
import controlplane_fixture
import deploy_manifests
import grpc
import installation
import launcher
import pytest
import witness
import yaml
from controlplane_fixture import start_controlplane
from grpc import aio
from installation import make_certificates, pod

from trireme.v1 import bind_pb2, bind_pb2_grpc, cycle_pb2, status_pb2

__all__ = ["start_controlplane"]

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(180)]

MERGE = "application/merge-patch+json"
NAMESPACE = deploy_manifests.NAMESPACE
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
RESOURCE_CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
ELECTION = {"leaderElect": True, "resourceName": "trireme", "resourceNamespace": NAMESPACE}
PROTECTION = "resource.kubernetes.io/delete-protection"

Json = dict[str, Any]
Here = installation.Installation


def account(name: str) -> str:
    """The name by which the API server knows a service account of ours."""
    return f"system:serviceaccount:{NAMESPACE}:{name}"


def _kubeconfig(cluster: launcher.ControlPlane, folder: Path, name: str) -> Path:
    token = cluster.kubectl("create", "token", name, "--namespace", NAMESPACE).strip()
    path = folder / f"{name}.kubeconfig"
    path.write_text(launcher.kubeconfig(cluster.server, cluster.authority, name, token))
    return path


@asynccontextmanager
async def opened(cluster: launcher.ControlPlane, folder: Path, nodes: int) -> AsyncIterator[Here]:
    """The cluster with so many nodes of two CPUs, and nothing of the scheduler started."""
    async with (
        clusters.real(cluster, folder, nodes, "2") as here,
        witness.watching(here.session, here.url, here.headers, here.tls) as here.witness,
    ):
        yield here
    await asyncio.sleep(clusters.CLOSING_SECONDS)


async def _gone(here: Here, name: str) -> None:
    async def there() -> bool:
        return name not in {entry["metadata"]["name"] for entry in await here.pods()}

    await installation.until(there, 30, lambda: f"{name} is there still")


async def _on_a_node(here: Here, name: str) -> str:
    async def there() -> bool:
        return bool((await here.pod(name))["spec"].get("nodeName"))

    await installation.until(there, 40, lambda: f"{name} is bound\n{here.frontends[0].said[-2000:]}")
    return str((await here.pod(name))["spec"]["nodeName"])


async def _delete(here: Here, name: str) -> None:
    await here.request("DELETE", f"/api/v1/namespaces/default/pods/{name}?gracePeriodSeconds=0")
    await _gone(here, name)


async def _volumes(here: Here) -> None:
    """A claim that takes a volume that is there, and one that is provisioned: what a controller does is done here."""
    for name, provisioner in (("static", "kubernetes.io/no-provisioner"), ("dynamic", "csi.example.com")):
        body = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
        await here.request("POST", "/apis/storage.k8s.io/v1/storageclasses", body)
        spec: Json = {"accessModes": ["ReadWriteOnce"], "storageClassName": name}
        spec["resources"] = {"requests": {"storage": "1Gi"}}
        await here.request("POST", CLAIMS, {"metadata": {"name": name}, "spec": spec})
    await _volume(here, "static", "node-0")
    for name in ("static", "dynamic"):
        wanted = pod(name)
        wanted["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        await here.create_pods([wanted])
    await _until_claim(here, "static", lambda claim, volume: bool(volume and volume["spec"].get("claimRef")))
    await _bind_claim(here, "static")

    def selected(claim: Json, _: Json | None) -> bool:
        return "volume.kubernetes.io/selected-node" in (claim["metadata"].get("annotations") or {})

    await _until_claim(here, "dynamic", selected)
    claim = await here.request("GET", f"{CLAIMS}/dynamic")
    await _volume(here, "dynamic", claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"])
    await _bind_claim(here, "dynamic")
    for name in ("static", "dynamic"):
        await _on_a_node(here, name)


async def _volume(here: Here, name: str, node: str) -> None:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": name,
        "local": {"path": "/mnt"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    await here.request("POST", "/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec})
    available = {"status": {"phase": "Available"}}
    await here.request("PATCH", f"/api/v1/persistentvolumes/{name}/status", available, MERGE)


async def _bind_claim(here: Here, name: str) -> None:
    done = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": name}}
    await here.request("PATCH", f"{CLAIMS}/{name}", done, MERGE)


async def _until_claim(here: Here, name: str, true: Callable[[Json, Json | None], bool]) -> None:
    async def there() -> bool:
        claim = await here.request("GET", f"{CLAIMS}/{name}")
        volumes = (await here.request("GET", "/api/v1/persistentvolumes"))["items"]
        return true(claim, next((volume for volume in volumes if volume["metadata"]["name"] == name), None))

    await installation.until(there, 30, lambda: f"claim {name}\n{here.frontends[0].said[-2000:]}")


async def _preemption(here: Here) -> None:
    """A pod that makes room for another; and one for which nobody can, tried again whenever one of the others goes."""
    await here.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 9})
    await here.create_pods(pod(f"small{n}", cpu="1500m", terminationGracePeriodSeconds=0) for n in range(2))
    for number in range(2):
        await _on_a_node(here, f"small{number}")
    await here.create_pods([pod("vip", cpu="1500m", priorityClassName="high", terminationGracePeriodSeconds=0)])
    await _on_a_node(here, "vip")
    await here.create_pods([pod("huge", cpu="64")])
    await here.condition("huge", "Insufficient cpu")
    await _delete(here, "vip")

    async def repeated() -> bool:
        # Each pod that goes could have made room: the refusal is told of again, and then it is a series.
        await here.create_pods([pod("passing", cpu="100m", terminationGracePeriodSeconds=0)])
        await _on_a_node(here, "passing")
        await _delete(here, "passing")
        await asyncio.sleep(1)
        return any(event.get("series") for event in await here.events_of("huge", "FailedScheduling"))

    await installation.until(repeated, 60, lambda: "no event became a series")
    await _delete(here, "huge")


async def _deallocation(here: Here, process: installation.Process) -> None:
    """Claims whose devices preemption takes back: what filter asks for then, asked in the frontend's name."""
    lease = await here.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/trireme")
    epoch = int(process.said.split("leading with epoch ")[1].split()[0])
    fence = cycle_pb2.Fence(epoch=epoch, lease_valid_ms=5000, holder_identity=lease["spec"]["holderIdentity"])
    request = {"name": "r", "exactly": {"deviceClassName": "c"}}
    result = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "x"}
    actions = []
    for name in ("freed", "deleted"):
        body = {"metadata": {"name": name, "finalizers": [PROTECTION]}, "spec": {"devices": {"requests": [request]}}}
        claim = await here.request("POST", RESOURCE_CLAIMS, body)
        if name == "freed":
            claim["status"] = {"allocation": {"devices": {"results": [result]}}}
            claim = await here.request("PUT", f"{RESOURCE_CLAIMS}/{name}/status", claim)
        taken = bind_pb2.Deallocate(
            namespace="default", name=name, uid=claim["metadata"]["uid"], delete=name == "deleted"
        )
        identity = cycle_pb2.PodIdentity(namespace="default", name="p", uid="u")
        actions.append(bind_pb2.Action(pod=identity, deallocate=taken))
    async with aio.secure_channel(*_as_frontend(here)) as channel:
        call = bind_pb2_grpc.BindServiceStub(channel).Apply(
            bind_pb2.ApplyRequest(fence=fence, actions=actions), timeout=20
        )
        results = [result.status async for response in call for result in response.results]
    assert [result.code for result in results] == [status_pb2.CODE_SUCCESS] * 2, results
    assert "allocation" not in (await here.request("GET", f"{RESOURCE_CLAIMS}/freed")).get("status", {})


def _as_frontend(here: Here) -> tuple[str, grpc.ChannelCredentials, tuple[tuple[str, str], ...]]:
    """Bind's address, and how the frontend calls it."""
    assert here.certificates is not None
    folder = here.certificates / "frontend"
    files = [(folder / name).read_bytes() for name in ("ca.crt", "tls.key", "tls.crt")]
    name = (("grpc.ssl_target_name_override", f"trireme-bind.{NAMESPACE}.svc"),)
    return here.socket("bind", 0), grpc.ssl_channel_credentials(*files), name


async def _fallback(here: Here) -> None:
    """No bind answers any more: the frontend's own does what is to be done, in the frontend's name."""
    here.phases["bind"][0].stop()
    await here.logged(here.frontends[0], "no bind answered")
    await here.create_pods([pod("last")])
    await _on_a_node(here, "last")


async def test_the_roles_are_what_the_processes_use(
    start_controlplane: controlplane_fixture.StartControlPlane, tmp_path: Path
) -> None:
    """With one rule too few something is refused to the scheduler, in the middle of the night; with one too many, so
    much more is open to whoever breaks into it.
    """
    options = launcher.Options(
        authorization="RBAC",
        users=(launcher.User("nobody"),),
        extra={"kube-apiserver": access_log.flags(tmp_path)},
    )
    cluster = start_controlplane(options)
    kinds = ("Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    objects = deploy_manifests.of_kind(deploy_manifests.objects("base"), *kinds)
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))
    async with opened(cluster, tmp_path, nodes=2) as here:
        here.kubeconfig = _kubeconfig(cluster, tmp_path, "trireme-frontend")
        here.bind_kubeconfig = _kubeconfig(cluster, tmp_path, "trireme-bind")
        here.bind_flags = ["--leader-elect-resource-name=trireme", f"--leader-elect-resource-namespace={NAMESPACE}"]
        here.frontend_flags = [
            f"--authentication-kubeconfig={here.kubeconfig}",
            f"--authorization-kubeconfig={here.kubeconfig}",
        ]
        here.services = NAMESPACE
        here.certificates = make_certificates(tmp_path / "certificates")
        await here.start(configuration={"leaderElection": ELECTION}, own={"fallback": {"after": "1s"}})
        frontend = here.frontends[0]
        assert await here.site(frontend, "/metrics", cluster.token("nobody")) == 403
        await _volumes(here)
        await _preemption(here)
        await _deallocation(here, frontend)
        await _fallback(here)
    _check(tmp_path, objects)


def _check(folder: Path, objects: list[Json]) -> None:
    users = {account("trireme-frontend"), account("trireme-bind")}
    asked = access_log.requests(folder, users)
    refused = {request for request in asked if not request.allowed}
    assert not refused
    grants = access_log.grants(objects)
    used = {grant for request in set(asked) for grant in grants if grant.allows(request)}
    # What the fallback may do is what bind may do, and is used in no other way.
    spare = account("trireme-frontend")
    unused = {grant for grant in set(grants) - used if (grant.user, grant.role) != (spare, "trireme-bind")}
    assert not unused, "these verbs are in rules of deploy/, and nobody needs them"
    assert any((grant.user, grant.role) == (spare, "trireme-bind") for grant in used)
    for request in set(asked):
        allowing = [grant for grant in grants if grant.allows(request)]
        assert len(allowing) == 1, f"without one rule of these {request} is allowed still: {allowing}"
