"""The pods that a workload's controller makes of its template.

Also change: internal/trireme_kube/embedded/controllers/stateful_sets.py,
internal/trireme_kube/embedded/controllers/jobs.py (pods that controllers make).

Tests: tests/unit/simulation/submission/test_workload_pods.py.
"""

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    """The pods of a document: at most how many, and these, made as they are iterated.

    Beside them the ReplicaSet of a Deployment, and what to know about them, which is complete when all are made.
    """

    count: int
    batches: Iterable[PodBatch]
    replica_set: Json | None = None
    notes: list[str] = field(default_factory=list)


def pods_of(document: documents.Document, nodes: Callable[[], Collection[core_pb2.Node]]) -> PodsOfWorkload:
    """The pods of the document, of a kind that makes pods; `nodes` are those of the cluster, for a DaemonSet."""
    if document.kind == "Pod":
        return PodsOfWorkload(1, [PodBatch(document.raw, [document.name])])
    spec = document.raw["spec"]
    if document.kind in ("Job", "CronJob"):
        return _pods_of_job(document)
    if document.kind == "DaemonSet":
        return _pods_of_daemon_set(document, nodes())
    count = int(spec.get("replicas", 1))
    notes = [] if count else ["it has no replicas"]
    if document.kind == "StatefulSet":
        numbered = (_pod_of_stateful_set(document, number) for number in _ordinals(spec, count))
        return PodsOfWorkload(count, numbered, None, notes)
    owner, replica_set = document.raw, None
    if document.kind == "Deployment":
        owner = replica_set = _replica_set(document)
    return PodsOfWorkload(
        count, _equal_pods(_pod(document, owner), owner["metadata"]["name"], count), replica_set, notes
    )


def _equal_pods(pod: Json, prefix: str, count: int) -> Iterator[PodBatch]:
    """Pods of one template; none if there are none."""
    if count:
        yield PodBatch(pod, [f"{prefix}-{number}" for number in range(1, count + 1)])


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
    if spec.get("suspend"):
        return PodsOfWorkload(0, (), None, ["it is suspended (spec.suspend)"])
    if document.kind == "CronJob":
        notes.append("one run of it")
        spec = spec["jobTemplate"]["spec"]
    parallelism, completions = int(spec.get("parallelism", 1)), spec.get("completions")
    count = parallelism if completions is None else min(parallelism, int(completions))
    if completions is not None and count < int(completions):
        notes.append(f"{count} of its {completions} pods at once (parallelism)")
    pod = _pod(document, document.raw)
    indexed = spec.get("completionMode") == "Indexed"
    batches = _indexed_pods(document.name, pod, count) if indexed else _equal_pods(pod, document.name, count)
    return PodsOfWorkload(count, batches, None, notes)


def _indexed_pods(name: str, pod: Json, count: int) -> Iterator[PodBatch]:
    """Pods with the index of their completion as a label."""
    for number in range(count):
        one = copy.deepcopy(pod)
        one["metadata"].setdefault("labels", {})["batch.kubernetes.io/job-completion-index"] = str(number)
        yield PodBatch(one, [f"{name}-{number}"])


def _pods_of_daemon_set(document: documents.Document, nodes: Collection[core_pb2.Node]) -> PodsOfWorkload:
    """A pod for each node that the DaemonSet's template may run on."""
    notes: list[str] = []
    return PodsOfWorkload(len(nodes), _daemon_pods(document, nodes, notes), None, notes)


def _daemon_pods(document: documents.Document, nodes: Iterable[core_pb2.Node], notes: list[str]) -> Iterator[PodBatch]:
    """The pods, each pinned to its node; in the end `notes` has how many nodes get none."""
    spec, passed_over = document.raw["spec"]["template"]["spec"], 0
    for node in nodes:
        if not daemon_pods.should_run(spec, _as_json(node)):
            passed_over += 1
            continue
        pod = _pod(document, document.raw)
        daemon_pods.pin_to_node(pod["spec"], node.metadata.name)
        yield PodBatch(pod, [f"{document.name}-{node.metadata.name}"])
    if passed_over:
        nodes_text = f"{passed_over} nodes get" if passed_over > 1 else "1 node gets"
        notes.append(f"{nodes_text} no pod, by the selector, affinity or tolerations of the template")


def _as_json(node: core_pb2.Node) -> Json:
    """The fields of a node by which daemon pods are made."""
    taints = [{"key": each.key, "value": each.value, "effect": each.effect} for each in node.spec.taints]
    return {"metadata": {"name": node.metadata.name, "labels": dict(node.metadata.labels)}, "spec": {"taints": taints}}
