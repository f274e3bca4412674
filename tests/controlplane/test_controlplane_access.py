"""The roles of deploy/ are exactly what the processes need: with them nothing is refused, and nothing is left over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import access_log
import access_scenario
import controlplane_fixture
import deploy_manifests
import grpc
import installation
import launcher
import pytest
import yaml
from controlplane_fixture import start_controlplane
from grpc import aio
from installation import make_certificates, pod

from trireme.v1 import bind_pb2, bind_pb2_grpc, cycle_pb2, status_pb2

__all__ = ["start_controlplane"]

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(180)]

NAMESPACE = deploy_manifests.NAMESPACE
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
    await access_scenario.on_a_node(here, "last")


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
    async with access_scenario.opened(cluster, tmp_path, nodes=2) as here:
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
        await access_scenario.volumes(here)
        await access_scenario.preemption(here)
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
