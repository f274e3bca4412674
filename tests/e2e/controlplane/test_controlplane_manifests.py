"""What deploy/ renders: an API server takes all of it, and the parts say the same of each other."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy import make_manifests
from tools.controlplane import access_log, controlplane_fixture, deploy_manifests, launcher
from tools.controlplane.controlplane_fixture import start_controlplane
from tools.programs import programs_fixture
from trireme.bind import flags
from trireme.config import gates, loading, trireme_configuration
from trireme.phases import phase_process

__all__ = ["start_controlplane"]

pytestmark = pytest.mark.controlplane

PHASES = ("filter", "score", "bind")

Json = dict[str, Any]


def test_an_api_server_takes_all_of_it(
    start_controlplane: controlplane_fixture.StartControlPlane, tmp_path: Path
) -> None:
    """A misspelt field is dropped in silence where nobody validates.

    And a pod that asks for too much is refused by the policy of its own namespace, hours later and in an event of a
    ReplicaSet.
    """
    cluster = start_controlplane(launcher.Options())
    deploy_manifests.define_kinds(cluster)
    namespace = deploy_manifests.of_kind(deploy_manifests.objects("base"), "Namespace")
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(namespace))
    every = deploy_manifests.with_components(
        tmp_path / "every",
        "pod-groups",
        "composite-pod-groups",
        "cert-manager",
        "default-scheduler",
        "coordinated-election",
        "insight",
        "insight-http",
        "insight-recording",
        "plugin-sidecar",
    )
    for kustomization in (*deploy_manifests.KUSTOMIZATIONS, every):
        rendered = deploy_manifests.objects(kustomization)
        text = yaml.safe_dump_all(rendered)
        applied = cluster.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=text)
        assert len(applied.splitlines()) == len(rendered)
        pods = deploy_manifests.pods_of(rendered)
        assert len(pods) == (5 if kustomization is every else 4)
        cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump_all(pods))


@pytest.mark.parametrize("component", make_manifests.COMPONENTS, ids=lambda component: component.name)
def test_a_component_makes_of_the_base_what_the_chart_renders(
    component: make_manifests.Component, tmp_path: Path
) -> None:
    """Kustomize applies patches by rules of its own: what it makes of them is compared, not the patches."""
    programs_fixture.require_programs()
    controlplane_fixture.require_built()
    before = [other.name for other in make_manifests.COMPONENTS if other.values == component.on]
    kustomized = deploy_manifests.objects(
        deploy_manifests.with_components(tmp_path / "deploy", *before, component.name)
    )
    values = make_manifests.merged(make_manifests.merged(make_manifests.SECRETS, component.on), component.values)
    rendered = [
        entry for group in make_manifests.render(values, deploy_manifests.NAMESPACE).values() for entry in group
    ]
    namespace = deploy_manifests.of_kind(kustomized, "Namespace")
    assert _comparable(kustomized) == _comparable([*rendered, *namespace])


def _comparable(objects: list[Json]) -> list[str]:
    """Objects without the order of lists, the layout of files, and the hashes in names of ConfigMaps."""
    for config in deploy_manifests.of_kind(objects, "ConfigMap"):
        config["data"] = {name: yaml.safe_load(text) for name, text in config["data"].items()}
    return sorted(json.dumps(_sorted(entry), sort_keys=True) for entry in objects)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(child) for name, child in value.items()}
    if isinstance(value, list):
        return sorted((_sorted(child) for child in value), key=lambda child: json.dumps(child, sort_keys=True))
    return re.sub(r"-(?=[a-z0-9]{10}$)(?=.*\d)[a-z0-9]{10}$", "", value) if isinstance(value, str) else value


def _container(rendered: list[Json], name: str) -> Json:
    (deployment,) = (
        entry
        for entry in deploy_manifests.of_kind(rendered, "Deployment")
        if entry["metadata"]["name"] == f"trireme-{name}"
    )
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    found: Json = container
    return found


@pytest.mark.parametrize("kustomization", deploy_manifests.KUSTOMIZATIONS)
def test_the_namespace_is_deleted_first_and_permissions_last(kustomization: str) -> None:
    """`kubectl delete -k` goes by this order: without them the Lease cannot be given back."""
    kinds = [entry["kind"] for entry in deploy_manifests.objects(kustomization)]
    assert kinds[0] == "Namespace"
    permissions = kinds[kinds.index("ServiceAccount") :]
    assert set(permissions) == {"ServiceAccount", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"}
    assert len(kinds) - len(permissions) > 15


@pytest.mark.parametrize("kustomization", deploy_manifests.KUSTOMIZATIONS)
def test_flags_configuration_and_names_fit_together(kustomization: str) -> None:
    """Each part is right by itself and the whole does not work.

    Bind obeys another identity than the frontend shows, or reads another Lease than the frontend holds.
    """
    rendered = deploy_manifests.objects(kustomization)
    (config,) = deploy_manifests.of_kind(rendered, "ConfigMap")
    own = trireme_configuration.parse(config["data"]["trireme.yaml"].encode())
    scheduler = loading.load(config["data"]["scheduler.yaml"].encode(), gates.FeatureGates(), lambda line: None)
    election = scheduler.leader_election
    assert own.tls.mutual
    assert _container(rendered, "frontend")["command"][0] == "trireme-frontend"
    for name in PHASES:
        command = _container(rendered, name)["command"]
        assert command[0] == f"trireme-{name}"
        if name == "bind":
            options = flags.parse(command[1:])
            assert options.lease == (election.resource_namespace, election.resource_name)
            identities = options.listener.identities
        else:
            parsed: argparse.Namespace = phase_process.flag_parser(name).parse_args(command[1:])
            identities = frozenset(parsed.allowed_identities.split(","))
        assert identities == {"spiffe://cluster.local/ns/trireme-system/sa/trireme-frontend"}
        assert own.phase(name).endpoints == (f"endpointslice:///trireme-system/trireme-{name}:grpc",)
        assert own.identities(name) == (f"trireme-{name}.trireme-system.svc",)
    lease = (election.resource_namespace, (election.resource_name,))
    for name, verbs in (("frontend", {"get", "update"}), ("bind", {"get"})):
        user = f"system:serviceaccount:trireme-system:trireme-{name}"
        granted = [grant for grant in access_log.grants(rendered) if (grant.user, grant.resource) == (user, "leases")]
        assert {grant.verb for grant in granted if (grant.namespace, grant.names) == lease} == verbs
    for certificate in deploy_manifests.of_kind(rendered, "Certificate"):
        if not certificate["spec"].get("isCA"):
            account = certificate["metadata"]["name"]
            assert certificate["spec"]["secretName"] == f"{account}-tls"
            assert certificate["spec"]["dnsNames"] == [f"{account}.trireme-system.svc"]
            assert certificate["spec"]["uris"] == [f"spiffe://cluster.local/ns/trireme-system/sa/{account}"]


@pytest.mark.parametrize("kustomization", deploy_manifests.KUSTOMIZATIONS)
def test_filter_and_score_have_no_access_to_the_api_server(kustomization: str) -> None:
    """They take part in every decision and read what plugins say: a hole in one of them must not open the cluster."""
    rendered = deploy_manifests.objects(kustomization)
    bindings = deploy_manifests.of_kind(rendered, "RoleBinding", "ClusterRoleBinding")
    bound = {subject["name"] for binding in bindings for subject in binding["subjects"]}
    assert bound == {"trireme-frontend", "trireme-bind"}
    for entry in deploy_manifests.of_kind(rendered, "ServiceAccount"):
        assert entry["automountServiceAccountToken"] is False
    mounting = {
        entry["metadata"]["name"]
        for entry in deploy_manifests.of_kind(rendered, "Deployment")
        if entry["spec"]["template"]["spec"].get("automountServiceAccountToken")
    }
    assert mounting == {"trireme-frontend", "trireme-bind"}
    policies = {
        entry["metadata"]["name"]: entry["spec"] for entry in deploy_manifests.of_kind(rendered, "NetworkPolicy")
    }
    for name in ("trireme-filter", "trireme-score"):
        assert policies[name].get("egress") in (None, [])
        assert "Egress" in policies[name]["policyTypes"]
