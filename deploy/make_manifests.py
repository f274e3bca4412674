"""Writes the kustomizations of deploy/ from the chart: `make manifests`, or `python -m deploy.make_manifests`.

The chart is the source. The base is what Helm renders of it without cert-manager; a component is the difference that
its values make, as JSON patches and new objects, so that components combine as values do. What only composes these
(`kustomization.yaml` of the base and the overlays, and namespaces) is written by hand.

Also change: deploy/chart/values.yaml (components and overlays).
Also change: docs/deployment.md.
Also change: deploy/base/kustomization.yaml, deploy/base/roles/kustomization.yaml,
deploy/overlays/cert-manager/kustomization.yaml, deploy/overlays/default-scheduler/kustomization.yaml,
deploy/overlays/shadow/kustomization.yaml (which of its files they use).

Tests: tests/contract/test_chart_manifests.py, tests/e2e/controlplane/test_controlplane_manifests.py.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tools.programs import build_programs

DEPLOY = Path(__file__).resolve().parent
CHART = DEPLOY / "chart"
_HEADER = "# Written by `make manifests` from deploy/chart.\n"
_SOURCE = "# Source: trireme/templates/"
_OF_HELM = ("helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/instance", "app.kubernetes.io/version")

Json = dict[str, Any]
Rendered = dict[str, list[Json]]
"""Objects by the chart's template, such as `roles/bind.yaml`."""


@dataclass(frozen=True, slots=True)
class Component:
    """A component of kustomize, by the values that make it."""

    name: str
    purpose: str
    values: Json
    on: Json = field(default_factory=dict)
    """Values of what it is added to, where that is more than the base."""


SECRETS: Json = {"certificates": {"source": "secrets"}}
INSIGHT: Json = {"insight": {"enabled": True}}
POD_GROUPS: Json = {"scheduler": {"featureGates": {"GenericWorkload": True}}}
DEFAULT: Json = {"scheduler": {"default": True}}
COMPONENTS = (
    Component(
        "cert-manager",
        "Has cert-manager issue and renew the certificates of all services, insight's too.",
        {"certificates": {"source": "certManager"}},
        on=INSIGHT,
    ),
    Component(
        "default-scheduler",
        "Replaces kube-scheduler: with its scheduler name, and its Lease, so that only one of the two schedules.",
        DEFAULT,
    ),
    Component(
        "coordinated-election",
        "Lets the API server choose the leader, after default-scheduler, if its gate CoordinatedLeaderElection is on.",
        {"scheduler": {"featureGates": {"CoordinatedLeaderElection": True}}},
        on=DEFAULT,
    ),
    Component("pod-groups", "Schedules PodGroups, if the API server serves them.", POD_GROUPS),
    Component(
        "composite-pod-groups",
        "Schedules CompositePodGroups, after pod-groups, if the API server serves them.",
        {"scheduler": {"featureGates": {"CompositePodGroup": True, "TopologyAwareWorkloadScheduling": True}}},
        on=POD_GROUPS,
    ),
    Component("insight", "Runs insight, which explains pods (docs/explain.md).", INSIGHT),
    Component(
        "insight-http",
        "Serves insight's explanations and the console over HTTPS, after insight.",
        {"insight": {"http": {"enabled": True}}},
        on=INSIGHT,
    ),
    Component(
        "insight-recording",
        "Has insight record, after insight (docs/recording.md): a day or 1 GiB for each replica.",
        {"insight": {"recording": {"enabled": True}}},
        on=INSIGHT,
    ),
    Component(
        "alerts",
        "Alerts and service levels for the Prometheus operator. For a Prometheus without it: docs/runbooks/README.md.",
        {"monitoring": {"alerts": {"enabled": True}}},
    ),
    Component(
        "plugin-endpoints",
        "Lets the frontend follow the EndpointSlices of remote plugins in the namespace `plugins`.",
        {"pluginNamespaces": ["plugins"]},
    ),
    Component(
        "plugin-sidecar",
        "Runs a remote plugin beside frontend, filter and score, behind a Unix socket (docs/operating-plugins.md): set "
        "the image `trireme-plugin`, and name, extension points and arguments in the two files.",
        {
            "plugins": [
                {
                    "name": "Maintenance",
                    "run": "sidecar",
                    "image": "trireme-plugin",
                    "extensionPoints": ["filter", "score"],
                    "weight": 1,
                    "settings": {"failurePolicy": "Ignore", "budgetPerSecond": "200ms"},
                }
            ]
        },
    ),
)


def main() -> int:
    """Write the files that differ, and delete those that are no longer rendered."""
    build_programs.build()
    texts = generated()
    for path in written():
        if path not in texts:
            path.unlink()
            print(f"deleted {path.relative_to(DEPLOY.parent)}")
    for path, text in texts.items():
        if not path.exists() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"wrote {path.relative_to(DEPLOY.parent)}")
    return 0


def written() -> Iterator[Path]:
    """The files in deploy/ that an earlier call wrote."""
    for folder in ("base", "components", "overlays"):
        for path in sorted((DEPLOY / folder).rglob("*.yaml")):
            if path.read_text().startswith(_HEADER):
                yield path


def generated() -> dict[Path, str]:
    """All files, by path."""
    base = render(SECRETS, "trireme-system")
    texts = _files(base, DEPLOY / "base", "config")
    texts |= _files(render({"mode": "shadow"}, "trireme-shadow"), DEPLOY / "overlays" / "shadow", "")
    for component in COMPONENTS:
        texts |= _component_files(component)
    return texts


def render(values: Mapping[str, Any], namespace: str) -> Rendered:
    """What Helm renders with these values, without what only Helm or its rollouts need. Raises: RuntimeError."""
    out: Rendered = {}
    for document in template(values, namespace).split("\n---\n"):
        parsed = yaml.safe_load(document)
        if parsed is None:
            continue
        (source,) = (line for line in document.splitlines() if line.startswith(_SOURCE))
        name = source.removeprefix(_SOURCE)
        if not name.startswith("tests/"):
            out.setdefault(name, []).append(_without_helm(parsed))
    return out


def template(values: Mapping[str, Any], namespace: str) -> str:
    """The output of `helm template`. Raises: RuntimeError: with what Helm says."""
    command = [build_programs.HELM, "template", "trireme", CHART, "--namespace", namespace, "--values", "-"]
    done = subprocess.run(command, input=yaml.safe_dump(dict(values)), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> Json:
    """Values of both, as Helm merges files of values."""
    out = dict(first)
    for name, value in second.items():
        both = isinstance(value, dict) and isinstance(out.get(name), dict)
        out[name] = merged(out[name], value) if both else value
    return out


def _without_helm(entry: Json) -> Json:
    for label in _OF_HELM:
        entry["metadata"].get("labels", {}).pop(label, None)
    pod = entry.get("spec", {}).get("template", {}).get("metadata", {})
    pod.get("annotations", {}).pop("checksum/config", None)
    if not pod.get("annotations", {"other"}):
        del pod["annotations"]
    return entry


def _dump(documents: Sequence[Any]) -> str:
    return _HEADER + yaml.safe_dump_all(documents, sort_keys=False, width=120)


def _files(rendered: Rendered, folder: Path, config: str) -> dict[Path, str]:
    """A file for each template, and one for each file of a ConfigMap."""
    texts: dict[Path, str] = {}
    for name, objects in rendered.items():
        rest = [entry for entry in objects if entry["kind"] != "ConfigMap"]
        if rest:
            texts[folder / name] = _dump(rest)
        for entry in objects:
            if entry["kind"] == "ConfigMap":
                texts |= {folder / config / key: _HEADER + text for key, text in entry["data"].items()}
    return texts


def _component_files(component: Component) -> dict[Path, str]:
    """The kustomization of the component, and files of the objects that it adds."""
    folder = DEPLOY / "components" / component.name
    on = merged(SECRETS, component.on)
    before = _by_identity(render(on, "trireme-system"))
    after = render(merged(on, component.values), "trireme-system")
    new: Rendered = {}
    maps: list[Json] = []
    patches: list[Json] = []
    texts: dict[Path, str] = {}
    for name, objects in after.items():
        for entry in objects:
            old = before.get(_identity(entry))
            if entry["kind"] == "ConfigMap":
                files = {key: text for key, text in entry["data"].items() if old is None or old["data"][key] != text}
                texts |= {folder / key: _HEADER + text for key, text in files.items()}
                maps += [_generator(entry, list(files), merge=old is not None)] if files else []
            elif old is None:
                new.setdefault(Path(name).name, []).append(entry)
            elif old != entry:
                kind, named = _identity(entry)
                operations = list(difference(old, entry))
                patches.append({"target": {"kind": kind, "name": named}, "patch": yaml.safe_dump(operations)})
    texts |= {folder / name: _dump(objects) for name, objects in new.items()}
    document: Json = {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component"}
    parts = {"resources": sorted(new), "configMapGenerator": maps, "patches": patches}
    document |= {name: part for name, part in parts.items() if part}
    text = yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120)
    texts[folder / "kustomization.yaml"] = f"{_HEADER}# {component.purpose}\n{text}"
    return texts


class _Dumper(yaml.SafeDumper):
    """Writes patches as blocks of text."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def _generator(entry: Json, files: list[str], merge: bool) -> Json:
    """The ConfigMap, whose name gets a hash of its content: a changed one rolls the pods."""
    out = {"name": entry["metadata"]["name"], "namespace": entry["metadata"]["namespace"]}
    labels = {"options": {"labels": entry["metadata"]["labels"]}}
    return {**out, **({"behavior": "merge"} if merge else labels), "files": files}


def _identity(entry: Json) -> tuple[str, str]:
    return entry["kind"], entry["metadata"]["name"]


def _by_identity(rendered: Rendered) -> dict[tuple[str, str], Json]:
    return {_identity(entry): entry for objects in rendered.values() for entry in objects}


def difference(old: Any, new: Any, path: str = "") -> Iterator[Json]:
    """JSON patch operations that make `new` of `old`. What is added to lists is appended, so that patches combine.

    Raises: ValueError: something is removed, or moved within a list.
    """
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        if removed := old.keys() - new.keys():
            raise ValueError(f"{path}: {sorted(removed)} removed")
        for name, value in new.items():
            child = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
            if name in old:
                yield from difference(old[name], value, child)
            else:
                yield {"op": "add", "path": child, "value": value}
    elif isinstance(old, list) and isinstance(new, list):
        yield from _list_difference(old, new, path)
    else:
        # Positions in lists are those of the base: the patch fails where something else has changed them.
        yield {"op": "test", "path": path, "value": old}
        yield {"op": "replace", "path": path, "value": new}


def _list_difference(old: list[Any], new: list[Any], path: str) -> Iterator[Json]:
    if len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from difference(before, after, f"{path}/{index}")
        return
    added = []
    remaining = list(old)
    for entry in new:
        if remaining and remaining[0] == entry:
            remaining.pop(0)
        else:
            added.append(entry)
    if remaining:
        raise ValueError(f"{path}: {remaining[0]} removed or moved")
    for entry in added:
        yield {"op": "add", "path": f"{path}/-", "value": entry}


if __name__ == "__main__":
    sys.exit(main())
