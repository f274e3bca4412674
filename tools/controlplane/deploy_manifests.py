"""The manifests of deploy/ as kustomize renders them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from tools.controlplane import launcher

DEPLOY = launcher.REPOSITORY / "deploy"
KUSTOMIZATIONS = ("base", "overlays/cert-manager", "overlays/default-scheduler")
NAMESPACE = "trireme-system"

# What cert-manager and the Prometheus operator bring, as far as an API server must know it to take the objects.
KINDS = {
    "issuers.cert-manager.io": ("v1", "Issuer"),
    "certificates.cert-manager.io": ("v1", "Certificate"),
    "servicemonitors.monitoring.coreos.com": ("v1", "ServiceMonitor"),
    "prometheusrules.monitoring.coreos.com": ("v1", "PrometheusRule"),
}

Json = dict[str, Any]


def render(kustomization: str | Path) -> str:
    """What `kubectl kustomize` prints of one in deploy/, or elsewhere."""
    command = [str(launcher.BINARY), "kubectl", "kustomize", str(DEPLOY / kustomization)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert outcome.returncode == 0, outcome.stderr
    assert not outcome.stderr, outcome.stderr
    return outcome.stdout


def objects(kustomization: str | Path) -> list[Json]:
    """The objects of a kustomization."""
    return list(yaml.safe_load_all(render(kustomization)))


def with_components(folder: Path, *components: str) -> Path:
    """A kustomization of the base and some components, written to this folder, as a user would."""
    folder.mkdir()
    document = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(DEPLOY / "base", folder)],
        "components": [os.path.relpath(DEPLOY / "components" / name, folder) for name in components],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(document))
    return folder


def of_kind(all_objects: Iterable[Json], *kinds: str) -> list[Json]:
    """Those of some kinds."""
    return [entry for entry in all_objects if entry["kind"] in kinds]


def define_kinds(cluster: launcher.ControlPlane) -> None:
    """Have the API server take objects of `KINDS`."""
    definitions = [_definition(name, *version_and_kind) for name, version_and_kind in KINDS.items()]
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(definitions))
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")


def _definition(name: str, version: str, kind: str) -> Json:
    plural, _, group = name.partition(".")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [served],
        },
    }


def pods_of(rendered: Iterable[Json]) -> list[Json]:
    """Each Deployment's pod, as a pod by itself, for an API server that runs no controllers."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                **entry["spec"]["template"]["metadata"],
                "name": entry["metadata"]["name"],
                "namespace": entry["metadata"]["namespace"],
            },
            "spec": entry["spec"]["template"]["spec"],
        }
        for entry in of_kind(rendered, "Deployment")
    ]
