"""The roles of deploy/ are exactly what the processes need: with them nothing is refused, and nothing is left over."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e import group_sides, installation
from tests.e2e.controlplane import access_scenario
from tests.e2e.installation import make_certificates, pod
from tools.controlplane import access_log, controlplane_fixture, deploy_manifests, launcher
from tools.controlplane.controlplane_fixture import start_controlplane
from trireme_kube.apimachinery import timestamps
from trireme_kube.client.leaderelection import lease_candidate
from trireme_kube.componentbase import clocks

__all__ = ["start_controlplane"]

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(300)]

NAMESPACE = deploy_manifests.NAMESPACE
ELECTION = {"leaderElect": True, "resourceName": "trireme", "resourceNamespace": NAMESPACE}

Json = dict[str, Any]
Here = installation.Installation


def account(name: str) -> str:
    """The name by which the API server knows a service account of ours."""
    return f"system:serviceaccount:{NAMESPACE}:{name}"


def kubeconfig_of(cluster: launcher.ControlPlane, folder: Path, name: str) -> Path:
    token = cluster.kubectl("create", "token", name, "--namespace", NAMESPACE).strip()
    path = folder / f"{name}.kubeconfig"
    path.write_text(launcher.kubeconfig(cluster.server, cluster.authority, name, token))
    return path


async def _fallback(here: Here) -> None:
    """No bind answers any more: the frontend's own does what is to be done, in the frontend's name."""
    here.phases["bind"][0].stop()
    await here.logged(here.frontends[0], "no bind answered")
    await here.create_pods([pod("last")])
    await access_scenario.on_a_node(here, "last")


async def test_the_roles_are_what_the_processes_use(
    start_controlplane: controlplane_fixture.StartControlPlane, tmp_path: Path
) -> None:
    """With one rule too few something is refused to the scheduler, in the middle of the night.

    With one too many, so much more is open to an attacker who breaks into it.
    """
    options = launcher.Options(
        authorization="RBAC",
        users=(launcher.User("nobody"),),
        feature_gates=dict.fromkeys((*group_sides.GATES, group_sides.OF_GROUPS), True),
        runtime_config={**group_sides.SERVED, "scheduling.k8s.io/v1alpha3": True},
        extra={"kube-apiserver": access_log.flags(tmp_path)},
    )
    cluster = start_controlplane(options)
    rendered = deploy_manifests.with_components(tmp_path / "deploy", "pod-groups", "composite-pod-groups")
    kinds = ("Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    objects = deploy_manifests.of_kind(deploy_manifests.objects(rendered), *kinds)
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))
    async with access_scenario.opened(cluster, tmp_path, nodes=2) as here:
        here.kubeconfig = kubeconfig_of(cluster, tmp_path, "trireme-frontend")
        here.bind_kubeconfig = kubeconfig_of(cluster, tmp_path, "trireme-bind")
        here.bind_flags = ["--leader-elect-resource-name=trireme", f"--leader-elect-resource-namespace={NAMESPACE}"]
        here.frontend_flags = [
            f"--authentication-kubeconfig={here.kubeconfig}",
            f"--authorization-kubeconfig={here.kubeconfig}",
            "--feature-gates=GenericWorkload=true",
            "--feature-gates=TopologyAwareWorkloadScheduling=true,CompositePodGroup=true",
        ]
        here.services = NAMESPACE
        here.certificates = make_certificates(tmp_path / "certificates")
        await here.start(configuration={"leaderElection": ELECTION}, own={"fallback": {"after": "1s"}})
        frontend = here.frontends[0]
        assert await here.site(frontend, "/metrics", cluster.token("nobody")) == 403
        await access_scenario.volumes(here)
        await access_scenario.preemption(here)
        await access_scenario.devices(here)
        await access_scenario.groups(here)
        await _fallback(here)
    _check(tmp_path, objects)


async def test_a_chosen_leader_may_be_a_candidate(
    start_controlplane: controlplane_fixture.StartControlPlane, tmp_path: Path
) -> None:
    """Without the component's rules no frontend becomes a candidate, and with the gate on nobody ever leads."""
    options = launcher.Options(
        authorization="RBAC",
        feature_gates={lease_candidate.GATE: True},
        runtime_config={"coordination.k8s.io/v1beta1": True},
        extra={"kube-apiserver": access_log.flags(tmp_path)},
    )
    cluster = start_controlplane(options)
    rendered = deploy_manifests.with_components(tmp_path / "deploy", "default-scheduler", "coordinated-election")
    kinds = ("Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
    objects = deploy_manifests.of_kind(deploy_manifests.objects(rendered), *kinds)
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(objects))
    async with access_scenario.opened(cluster, tmp_path, nodes=1) as here:
        here.kubeconfig = kubeconfig_of(cluster, tmp_path, "trireme-frontend")
        here.bind_kubeconfig = kubeconfig_of(cluster, tmp_path, "trireme-bind")
        here.frontend_flags = [f"--feature-gates={lease_candidate.GATE}=true"]
        await here.start(configuration={"leaderElection": {"leaderElect": True}})
        await here.leads(here.frontends[0])
        await here.create_pods([pod("chosen")])
        await access_scenario.on_a_node(here, "chosen")
        # The API server's controller asks candidates whether they are still there.
        candidates = ("--namespace=kube-system", "leasecandidates.v1beta1.coordination.k8s.io")
        name = cluster.kubectl("get", *candidates, "--output=jsonpath={.items[0].metadata.name}")
        asked = json.dumps({"spec": {"pingTime": timestamps.rfc3339_micros(clocks.wall_ns())}})
        cluster.kubectl("patch", *candidates, name, "--type=merge", f"--patch={asked}")
        candidacy = account("trireme-frontend")
        await installation.until(
            lambda: any(
                (request.resource, request.verb) == ("leasecandidates", "update")
                for request in access_log.requests(tmp_path, {candidacy})
            ),
            30,
            lambda: "the candidate was not renewed",
        )
    requests = access_log.requests(tmp_path, {account("trireme-frontend"), account("trireme-bind")})
    assert not [request for request in requests if not request.allowed]
    granted = {grant.verb for grant in access_log.grants(objects) if grant.resource == "leasecandidates"}
    used = {request.verb for request in requests if request.resource == "leasecandidates"}
    # Lists are streamed by watches; an API server that does not do that is asked for them.
    assert granted - {"list"} == used - {"list"}


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
    # Lists are streamed by watches; an API server that does not do that is asked for them, as by client-go.
    unused -= {dataclasses.replace(grant, verb="list") for grant in used if grant.verb == "watch"}
    assert not unused, "these verbs are in rules of deploy/, and nobody needs them"
    assert any((grant.user, grant.role) == (spare, "trireme-bind") for grant in used)
    for request in set(asked):
        allowing = [grant for grant in grants if grant.allows(request)]
        assert len(allowing) == 1, f"without one rule of these {request} is allowed still: {allowing}"
