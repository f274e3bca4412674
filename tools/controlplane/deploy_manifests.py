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
