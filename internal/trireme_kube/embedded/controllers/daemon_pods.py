"""Which nodes get a pod of a DaemonSet, and what makes the pod one of that node.

Source: k8s.io/kubernetes, pkg/controller/daemon.

Tests: tests/unit/embedded/controllers/test_workloads.py.
"""

from typing import Any

from trireme_kube.embedded.api import selectors
from trireme_kube.embedded.api.resources import Object
from trireme_kube.embedded.controllers.tolerations import tolerates

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFIX = "node.kubernetes.io/"
# Taints that every daemon pod tolerates.
_TOLERATIONS: tuple[Object, ...] = (
    {"key": _PREFIX + "not-ready", "operator": "Exists", "effect": "NoExecute"},
    {"key": _PREFIX + "unreachable", "operator": "Exists", "effect": "NoExecute"},
    {"key": _PREFIX + "disk-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": _PREFIX + "memory-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": _PREFIX + "pid-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": _PREFIX + "unschedulable", "operator": "Exists", "effect": "NoSchedule"},
)


def _matches_any_node_term(terms: Any, node: Object) -> bool:
    """Whether the node satisfies one of the terms of a required node affinity; an empty one matches no node."""
    labels = node["metadata"].get("labels") or {}
    for term in terms:
        expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
        if not expressions and not fields:
            continue
        by_name = selectors.compile_label_selector({"matchExpressions": fields})(
            {"metadata.name": node["metadata"]["name"]}
        )
        if by_name and selectors.compile_label_selector({"matchExpressions": expressions})(labels):
            return True
    return False


def should_run(spec: Object, node: Object) -> bool:
    """Whether the DaemonSet's pod should run on the node."""
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    if required and not _matches_any_node_term(required.get("nodeSelectorTerms") or (), node):
        return False
    tolerations = [*(spec.get("tolerations") or ()), *_TOLERATIONS]
    hard = [one for one in node["spec"].get("taints") or () if one["effect"] in ("NoSchedule", "NoExecute")]
    return all(any(tolerates(toleration, taint) for toleration in tolerations) for taint in hard)


def pin_to_node(spec: Object, node: str) -> None:
    """Pin a pod's spec to the node by affinity, and add the tolerations of daemons."""
    own = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}
    affinity = spec.setdefault("affinity", {})
    affinity["nodeAffinity"] = {**(affinity.get("nodeAffinity") or {}), REQUIRED: own}
    spec["tolerations"] = [*(spec.get("tolerations") or ()), *_TOLERATIONS]
