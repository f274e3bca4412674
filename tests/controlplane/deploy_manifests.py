"""The manifests of deploy/ as kustomize renders them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from typing import Any

import launcher
import yaml

DEPLOY = launcher.REPOSITORY / "deploy"
KUSTOMIZATIONS = ("base", "overlays/cert-manager", "overlays/default-scheduler")
NAMESPACE = "trireme-system"

Json = dict[str, Any]


def render(kustomization: str) -> str:
    """What `kubectl kustomize` prints."""
    command = [str(launcher.BINARY), "kubectl", "kustomize", str(DEPLOY / kustomization)]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert outcome.returncode == 0, outcome.stderr
    assert not outcome.stderr, outcome.stderr
    return outcome.stdout


def objects(kustomization: str) -> list[Json]:
    """The objects of a kustomization."""
    return list(yaml.safe_load_all(render(kustomization)))


def of_kind(all_objects: Iterable[Json], *kinds: str) -> list[Json]:
    """Those of some kinds."""
    return [entry for entry in all_objects if entry["kind"] in kinds]
