"""Makes the changes that proposals say, as `trireme explain --proposals -o json` shows them, to manifests.

Constraints are removed by the path that the proposal names, as a person would in an editor.
"""

from __future__ import annotations

import copy
import re
from typing import Any

Json = dict[str, Any]

_HOSTNAME = "kubernetes.io/hostname"
_CONDITIONS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
_NODE_AFFINITY = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
# A field, a key or a place in brackets.
_STEP = re.compile(r"\.?([A-Za-z]+)|\[([^\]]+)\]")
# Changes of the pod, which is made anew; the others change the cluster.
_OF_PODS = ("tolerateTaints", "lowerRequest", "dropConstraint")


def kind_of(proposal: Json) -> str:
    """The kind of change."""
    return next(name for name in proposal if name not in ("feasibleCount", "exampleNodes"))


def changes_pod(proposal: Json) -> bool:
    """Whether the pod is changed, not the cluster."""
    return kind_of(proposal) in _OF_PODS


def changed_pod(manifest: Json, proposal: Json) -> Json:
    """The pod with the change."""
    out = copy.deepcopy(manifest)
    kind = kind_of(proposal)
    if kind == "tolerateTaints":
        tolerations = [{**taint, "operator": "Equal"} for taint in proposal[kind]["taints"]]
        out["spec"]["tolerations"] = [*out["spec"].get("tolerations", ()), *tolerations]
    elif kind == "lowerRequest":
        _lower_request(out["spec"], **proposal[kind])
    else:
        _drop_constraint(out, proposal[kind])
    return out


def _lower_request(spec: Json, resource: str, current: Json, proposed: Json, container: str = "") -> None:
    """Lower a request of a container, or of the pod, and the limit that has to be the same."""
    containers = [*spec["containers"], *spec.get("initContainers", ())]
    (holder,) = [each for each in containers if each["name"] == container] if container else [spec]
    requests, limits = holder["resources"]["requests"], holder["resources"].get("limits", {})
    assert resource in requests, f"{container or 'the pod'} does not request {resource} {current['string']}: {requests}"
    requests[resource] = proposed["string"]
    if resource in limits:
        limits[resource] = proposed["string"]


def _drop_constraint(pod: Json, drop: Json) -> None:
    """Remove what is at the path, after a check that it is the constraint that the proposal shows."""
    *holders, last = [name or key for name, key in _STEP.findall(drop["field"])]
    holder: Any = pod
    for step in holders:
        holder = holder[int(step) if isinstance(holder, list) else step]
    place: Any = last
    if isinstance(holder, list):
        place = int(last) if last.isdigit() else [each["name"] for each in holder].index(last)
    found, shown = holder[place], next(value for name, value in drop.items() if name != "field")
    if "nodeSelector" in drop:
        shown = shown["values"][0]
    elif "boundVolume" in drop:
        found, shown = found["persistentVolumeClaim"]["claimName"], shown["claimName"]
    elif drop["field"] == _NODE_AFFINITY and "nodeAffinity" in drop:
        (term,) = found["nodeSelectorTerms"]
        (found,) = [*term.get("matchExpressions", ()), *term.get("matchFields", ())]
    assert shown == found, f"{drop['field']} is {found}, not {shown}"
    del holder[place]


def node_like(node: Json, name: str) -> Json:
    """A node with the allocatable resources, labels, taints and declared features of another one."""
    labels = dict(node["metadata"]["labels"])
    if _HOSTNAME in labels:
        labels[_HOSTNAME] = name
    taints = [taint for taint in node["spec"].get("taints", ()) if not taint["key"].startswith(_CONDITIONS)]
    status = {field: node["status"][field] for field in ("allocatable", "capacity")}
    status |= {"declaredFeatures": node["status"]["declaredFeatures"]} if "declaredFeatures" in node["status"] else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints},
        "status": status,
    }
