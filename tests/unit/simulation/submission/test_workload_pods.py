"""The pods of workloads: as many, and with the names and labels, as their controllers make."""

import dataclasses
from typing import Any

import pytest

from trireme.simulation.submission import documents, workload_pods
from trireme.v1 import core_pb2

Json = dict[str, Any]

TEMPLATE: Json = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "main", "image": "x"}], "restartPolicy": "Always"},
}
OF_JOB = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
SELECTOR = {"matchLabels": {"app": "a"}}


def node(name: str, taint: str = "", **labels: str) -> core_pb2.Node:
    out = core_pb2.Node()
    out.metadata.name = name
    out.metadata.labels.update(labels)
    if taint:
        out.spec.taints.add(key=taint, effect="NoSchedule")
    return out


def pods_of(kind: str, spec: Json, version: str = "apps/v1", nodes: Any = ()) -> workload_pods.PodsOfWorkload:
    raw = {"apiVersion": version, "kind": kind, "metadata": {"name": "w"}, "spec": spec}
    (document,) = documents.read([raw], "")
    found = workload_pods.pods_of(document, lambda: nodes)
    return dataclasses.replace(found, batches=list(found.batches))


def names(of: workload_pods.PodsOfWorkload) -> list[str]:
    return [name for batch in of.batches for name in batch.names]


@pytest.mark.parametrize(
    ("kind", "version", "spec", "count", "notes"),
    [
        ("Deployment", "apps/v1", {"replicas": 3, "selector": SELECTOR, "template": TEMPLATE}, 3, []),
        ("Deployment", "apps/v1", {"selector": SELECTOR, "template": TEMPLATE}, 1, []),
        (
            "Deployment",
            "apps/v1",
            {"replicas": 0, "selector": SELECTOR, "template": TEMPLATE},
            0,
            ["it has no replicas"],
        ),
        ("ReplicaSet", "apps/v1", {"replicas": 2, "selector": SELECTOR, "template": TEMPLATE}, 2, []),
        ("ReplicationController", "v1", {"replicas": 2, "template": TEMPLATE}, 2, []),
        ("Job", "batch/v1", {"template": OF_JOB}, 1, []),
        ("Job", "batch/v1", {"parallelism": 4, "template": OF_JOB}, 4, []),
        (
            "Job",
            "batch/v1",
            {"parallelism": 2, "completions": 5, "template": OF_JOB},
            2,
            ["2 of its 5 pods at once (parallelism)"],
        ),
        ("Job", "batch/v1", {"parallelism": 5, "completions": 2, "template": OF_JOB}, 2, []),
        ("Job", "batch/v1", {"suspend": True, "template": OF_JOB}, 0, ["it is suspended (spec.suspend)"]),
        (
            "CronJob",
            "batch/v1",
            {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"parallelism": 2, "template": OF_JOB}}},
            2,
            ["one run of it"],
        ),
    ],
)
def test_as_many_pods_as_the_controller_makes(
    kind: str, version: str, spec: Json, count: int, notes: list[str]
) -> None:
    found = pods_of(kind, spec, version)
    assert (len(names(found)), list(found.notes)) == (count, notes)


def test_pods_of_a_deployment_belong_to_a_replica_set_that_selects_them() -> None:
    """Plugins spread them by it."""
    found = pods_of("Deployment", {"replicas": 2, "selector": SELECTOR, "template": TEMPLATE})
    assert found.replica_set is not None
    assert found.replica_set["spec"]["selector"] == SELECTOR
    (owner,) = next(iter(found.batches)).manifest["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("ReplicaSet", found.replica_set["metadata"]["name"])
    assert owner["uid"] == found.replica_set["metadata"]["uid"]
    assert next(iter(found.batches)).manifest["metadata"]["labels"] == {"app": "a"}


def test_pods_of_a_stateful_set_are_numbered_and_have_claims_of_their_own() -> None:
    claim: Json = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    claim["spec"]["resources"] = {"requests": {"storage": "1Gi"}}
    spec = {"replicas": 2, "ordinals": {"start": 5}, "selector": SELECTOR, "template": TEMPLATE, "serviceName": "s"}
    found = pods_of("StatefulSet", {**spec, "volumeClaimTemplates": [claim]})
    assert names(found) == ["w-5", "w-6"]
    first = next(iter(found.batches))
    assert first.manifest["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] == "w-5"
    assert [each["metadata"]["name"] for each in first.volume_claims] == ["data-w-5"]
    assert first.manifest["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-w-5"}}]


def test_pods_of_an_indexed_job_have_their_index() -> None:
    spec = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": OF_JOB}
    found = pods_of("Job", spec, "batch/v1")
    indices = [
        batch.manifest["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] for batch in found.batches
    ]
    assert indices == ["0", "1"]


def test_a_daemon_set_has_a_pod_on_each_node_that_its_template_may_run_on() -> None:
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "nodeSelector": {"disk": "ssd"}}}
    nodes = [
        node("n0", disk="ssd"),
        node("n1"),
        node("n2", taint="reserved", disk="ssd"),
        node("n3", taint="node.kubernetes.io/unschedulable", disk="ssd"),
    ]
    found = pods_of("DaemonSet", {"selector": SELECTOR, "template": template}, nodes=nodes)
    assert names(found) == ["w-n0", "w-n3"]
    assert found.notes == ["2 nodes get no pod, by the selector, affinity or tolerations of the template"]
    affinity = list(found.batches)[1].manifest["spec"]["affinity"]["nodeAffinity"]
    (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchFields"][0]["values"] == ["n3"]
