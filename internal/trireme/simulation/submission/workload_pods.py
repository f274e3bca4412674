"""The pods that a workload's controller makes of its template.

Tests: tests/unit/simulation/submission/test_workload_pods.py.
"""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trireme.simulation.submission import documents
from trireme.v1 import core_pb2
from trireme_kube.embedded.controllers import daemon_pods

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PodBatch:
    """Pods that differ in their names alone, and the claims for volumes that their controller makes with them."""

    manifest: Json
    names: Sequence[str]
    volume_claims: Sequence[Json] = ()


@dataclass(frozen=True, slots=True)
class PodsOfWorkload:
    """The pods of a document, the ReplicaSet of a Deployment, and what to know about them."""

    batches: Sequence[PodBatch]
    replica_set: Json | None = None
    notes: Sequence[str] = ()


def pods_of(document: documents.Document, nodes: Callable[[], Iterable[core_pb2.Node]]) -> PodsOfWorkload:
    """The pods of the document, of a kind that makes pods; `nodes` are those of the cluster, for a DaemonSet."""
    if document.kind == "Pod":
        return PodsOfWorkload([PodBatch(document.raw, [document.name])])
    spec = document.raw["spec"]
    if document.kind in ("Job", "CronJob"):
        return _pods_of_job(document)
    if document.kind == "DaemonSet":
        return _pods_of_daemon_set(document, nodes())
    count = int(spec.get("replicas", 1))
    notes = [] if count else ["it has no replicas"]
    if document.kind == "StatefulSet":
        return PodsOfWorkload(
            [_pod_of_stateful_set(document, number) for number in _ordinals(spec, count)], None, notes
        )
    owner, replica_set = document.raw, None
    if document.kind == "Deployment":
        owner = replica_set = _replica_set(document)
    names = [f"{owner['metadata']['name']}-{number}" for number in range(1, count + 1)]
    return PodsOfWorkload([PodBatch(_pod(document, owner), names)], replica_set, notes)


def _ordinals(spec: Json, count: int) -> range:
    start = int((spec.get("ordinals") or {}).get("start", 0))
    return range(start, start + count)


def _replica_set(document: documents.Document) -> Json:
    """The ReplicaSet of a Deployment, by whose selector plugins spread its pods."""
    metadata, spec = document.raw["metadata"], document.raw["spec"]
    labels = dict(spec["template"].get("metadata", {}).get("labels") or {})
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{metadata['name']}-simulated",
            "namespace": metadata["namespace"],
            "uid": f"simulated-{metadata['namespace']}-{metadata['name']}",
            "labels": labels,
            "ownerReferences": [_owner_reference(document.raw)],
        },
        "spec": {"replicas": spec.get("replicas", 1), "selector": spec["selector"]},
    }


def _owner_reference(owner: Json) -> Json:
    metadata = owner["metadata"]
    uid = metadata.get("uid") or f"simulated-{owner['kind']}-{metadata['name']}"
    names = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"]}
    return {**names, "uid": uid, "controller": True}


def _pod(document: documents.Document, owner: Json) -> Json:
    """A pod by the document's template, without a name."""
    template = document.raw
    for part in documents.template_path(document.kind):
        template = template[part]
    kept = {name: template.get("metadata", {}).get(name) for name in ("labels", "annotations")}
    metadata = {name: copy.deepcopy(value) for name, value in kept.items() if value}
    metadata["namespace"] = document.namespace
    metadata["ownerReferences"] = [_owner_reference(owner)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": copy.deepcopy(template["spec"])}


def _pod_of_stateful_set(document: documents.Document, number: int) -> PodBatch:
    """The pod of this number, with its labels, and the claims of its own.

    Source: k8s.io/kubernetes, pkg/controller/statefulset/stateful_set_utils.go (newStatefulSetPod).
    """
    name, pod = f"{document.name}-{number}", _pod(document, document.raw)
    pod["metadata"].setdefault("labels", {}).update(
        {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(number)}
    )
    claims = []
    for template in document.raw["spec"].get("volumeClaimTemplates") or ():
        volume = template["metadata"]["name"]
        claim = f"{volume}-{name}"
        others = [each for each in pod["spec"].get("volumes") or () if each["name"] != volume]
        pod["spec"]["volumes"] = [*others, {"name": volume, "persistentVolumeClaim": {"claimName": claim}}]
        claims.append(volume_claim(claim, document.namespace, template["spec"]))
    return PodBatch(pod, [name], claims)


def volume_claim(name: str, namespace: str, spec: Mapping[str, Any]) -> Json:
    """A PersistentVolumeClaim."""
    metadata = {"name": name, "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": copy.deepcopy(dict(spec)),
    }


def _pods_of_job(document: documents.Document) -> PodsOfWorkload:
    """The pods that a Job, or one run of a CronJob, has at once."""
    spec, notes = document.raw["spec"], []
    if document.kind == "CronJob":
        notes.append("one run of it")
        spec = spec["jobTemplate"]["spec"]
    if (document.kind == "Job" and spec.get("suspend")) or (
        document.kind == "CronJob" and document.raw["spec"].get("suspend")
    ):
        return PodsOfWorkload([], None, ["it is suspended (spec.suspend)"])
    parallelism, completions = int(spec.get("parallelism", 1)), spec.get("completions")
    count = parallelism if completions is None else min(parallelism, int(completions))
    if completions is not None and count < int(completions):
        notes.append(f"{count} of its {completions} pods at once (parallelism)")
    pod = _pod(document, document.raw)
    if spec.get("completionMode") == "Indexed":
        batches = []
        for number in range(count):
            one = copy.deepcopy(pod)
            one["metadata"].setdefault("labels", {})["batch.kubernetes.io/job-completion-index"] = str(number)
            batches.append(PodBatch(one, [f"{document.name}-{number}"]))
        return PodsOfWorkload(batches, None, notes)
    return PodsOfWorkload([PodBatch(pod, [f"{document.name}-{number}" for number in range(1, count + 1)])], None, notes)


def _pods_of_daemon_set(document: documents.Document, nodes: Iterable[core_pb2.Node]) -> PodsOfWorkload:
    """A pod for each node that the DaemonSet's template may run on."""
    spec = document.raw["spec"]["template"]["spec"]
    batches, passed_over = [], 0
    for node in nodes:
        if not daemon_pods.should_run(spec, _as_json(node)):
            passed_over += 1
            continue
        pod = _pod(document, document.raw)
        daemon_pods.pin_to_node(pod["spec"], node.metadata.name)
        batches.append(PodBatch(pod, [f"{document.name}-{node.metadata.name}"]))
    nodes_text = f"{passed_over} nodes get" if passed_over > 1 else "1 node gets"
    text = f"{nodes_text} no pod, by the selector, affinity or tolerations of the template"
    return PodsOfWorkload(batches, None, [text] if passed_over else [])


def _as_json(node: core_pb2.Node) -> Json:
    """The fields of a node by which daemon pods are made."""
    taints = [{"key": each.key, "value": each.value, "effect": each.effect} for each in node.spec.taints]
    return {"metadata": {"name": node.metadata.name, "labels": dict(node.metadata.labels)}, "spec": {"taints": taints}}
