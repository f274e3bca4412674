"""Adoption and release: who owns a pod when labels, selectors and owners change."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.helpers.embedded_harness import Cluster, Object, pod, workload

WORKLOADS = {
    "replicasets.apps": {"replicas": 2},
    "replicationcontrollers": {"replicas": 2},
    "statefulsets.apps": {"replicas": 2, "serviceName": "w"},
    "daemonsets.apps": {},
}


def body_of(key: str, name: str = "w", **spec: Any) -> Object:
    """A workload of that kind which wants two pods on the two nodes."""
    body = workload(name, **{**WORKLOADS[key], **spec})
    if key == "replicationcontrollers":
        body["spec"]["selector"] = {"app": name}
    return body


def owners(cluster: Cluster, key: str = "pods") -> dict[str, list[str]]:
    """Uids of the managing controllers by object."""
    return {
        one["metadata"]["name"]: [
            reference["uid"]
            for reference in one["metadata"].get("ownerReferences") or ()
            if reference.get("controller")
        ]
        for one in cluster.objects(key)
    }


def labelled(name: str, labels: dict[str, str]) -> Object:
    body = pod(name)
    body["metadata"]["labels"] = labels
    return body


def events(cluster: Cluster, reason: str) -> list[str]:
    """The messages of the events of that reason."""
    return [one["message"] for one in cluster.objects("events") if one["reason"] == reason]


@pytest.mark.parametrize("key", WORKLOADS)
def test_pods_left_behind_are_adopted(key: str) -> None:
    """A workload deleted with --cascade=orphan and applied again has as many pods as before."""
    cluster = Cluster(2)
    cluster.create(key, body_of(key))
    cluster.run(5)
    before = set(owners(cluster))
    assert len(before) == 2
    cluster.delete(key, "w", propagationPolicy="Orphan")
    cluster.run(5)
    assert owners(cluster) == {name: [] for name in before}
    uid = cluster.create(key, body_of(key))["metadata"]["uid"]
    cluster.run(5)
    assert owners(cluster) == {name: [uid] for name in before}


@pytest.mark.parametrize("key", ["replicasets.apps", "replicationcontrollers", "daemonsets.apps"])
def test_a_relabelled_pod_is_released_and_replaced(key: str) -> None:
    """How people take a pod out of service to look at it."""
    cluster = Cluster(2)
    uid = cluster.create(key, body_of(key))["metadata"]["uid"]
    cluster.run(5)
    name = next(iter(owners(cluster)))
    cluster.edit("pods", name, {"metadata": {"labels": {"app": "debug"}}})
    cluster.run(5)
    after = owners(cluster)
    assert after.pop(name) == []
    assert list(after.values()) == [[uid]] * 2
    cluster.edit("pods", name, {"metadata": {"labels": {"app": "w"}}})
    cluster.run(5)
    active = [one for one in cluster.objects("pods") if "deletionTimestamp" not in one["metadata"]]
    assert len(active) == 2


def test_a_deployment_adopts_its_replica_sets() -> None:
    """Orphaned and applied again: tracebacks forever, and twice the pods, were what came of it."""
    cluster = Cluster(2)
    cluster.create("deployments.apps", workload("web", 5))
    cluster.run(5)
    sets, pods = set(owners(cluster, "replicasets.apps")), set(owners(cluster))
    cluster.delete("deployments.apps", "web", propagationPolicy="Orphan")
    cluster.run(5)
    uid = cluster.create("deployments.apps", workload("web", 5))["metadata"]["uid"]
    cluster.run(10)
    assert owners(cluster, "replicasets.apps") == {name: [uid] for name in sets}
    assert set(owners(cluster)) == pods
    assert cluster.get("deployments.apps", "web")["status"]["availableReplicas"] == 5


def test_a_name_in_use_is_a_collision() -> None:
    """The ReplicaSet of that name selects other pods: another name is found instead of failing forever."""
    cluster = Cluster(2)
    cluster.create("deployments.apps", workload("web", 1))
    cluster.run(5)
    (name,) = owners(cluster, "replicasets.apps")
    cluster.delete("deployments.apps", "web")
    cluster.run(5)
    foreign = workload("other", 0)
    foreign["metadata"]["name"] = name
    cluster.create("replicasets.apps", foreign)
    cluster.create("deployments.apps", workload("web", 1))
    cluster.run(5)
    deployment = cluster.get("deployments.apps", "web")
    assert deployment["status"]["collisionCount"] == 1
    assert deployment["status"]["availableReplicas"] == 1
    assert owners(cluster, "replicasets.apps")[name] == []


def test_only_what_fits_is_adopted() -> None:
    """A pod of another controller, one on its way out, one that has ended, and one of another namespace stay alone."""
    cluster = Cluster(2)
    cluster.create("namespaces", {"metadata": {"name": "other"}})
    owned = labelled("owned", {"app": "w"})
    owned["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Node", "name": "node-0", "controller": True}
        | {"uid": cluster.get("nodes", "node-0")["metadata"]["uid"]}
    ]
    cluster.create("pods", owned)
    ended = labelled("ended", {"app": "w"})
    ended["metadata"]["annotations"] = {"trireme.dev/run-seconds": "1"}
    cluster.create("pods", ended)
    cluster.create(
        "pods", {**labelled("far", {"app": "w"}), "metadata": {"name": "far", "labels": {"app": "w"}}}, "other"
    )
    cluster.run(5)
    going = labelled("going", {"app": "w"})
    going["metadata"]["finalizers"] = ["example.com/wait"]
    cluster.create("pods", going)
    cluster.run(1)
    cluster.delete("pods", "going")
    before = owners(cluster)
    cluster.create("replicasets.apps", body_of("replicasets.apps"))
    cluster.run(5)
    after = owners(cluster)
    assert {name: after[name] for name in before} == before
    assert len(after) == len(before) + 2


def test_a_stateful_set_adopts_its_own_names_alone() -> None:
    """It could not tell what a pod of another name stands for."""
    cluster = Cluster(2)
    for name in ("w-0", "w-x", "other-1"):
        cluster.create("pods", labelled(name, {"app": "w"}))
    cluster.run(3)
    uid = cluster.create("statefulsets.apps", body_of("statefulsets.apps"))["metadata"]["uid"]
    cluster.run(5)
    assert owners(cluster)["w-0"] == [uid]
    assert owners(cluster)["w-x"] == owners(cluster)["other-1"] == []


def test_controllers_write_events() -> None:
    """`kubectl describe` shows these events, and people wait for them."""
    cluster = Cluster(2)
    cluster.create("deployments.apps", workload("web", 2))
    cluster.create("statefulsets.apps", workload("db", 1, serviceName="db"))
    cluster.create("daemonsets.apps", workload("agent"))
    body = workload("once")
    del body["spec"]["selector"]
    body["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    cluster.create("jobs.batch", body)
    cluster.run(20)
    (name,) = owners(cluster, "replicasets.apps")
    assert events(cluster, "ScalingReplicaSet") == [f"Scaled up replica set {name} from 0 to 2"]
    assert "create Pod db-0 in StatefulSet db successful" in events(cluster, "SuccessfulCreate")
    created = [message for message in events(cluster, "SuccessfulCreate") if message.startswith("Created pod: ")]
    assert len(created) == 2 + 2 + 1
    assert events(cluster, "Completed") == ["Job completed"]
    components = {one["source"]["component"] for one in cluster.objects("events")}
    assert components >= {
        f"{one}-controller" for one in ("deployment", "replicaset", "statefulset", "daemonset", "job")
    }


def test_what_cannot_be_created_is_one_line_at_growing_intervals(caplog: pytest.LogCaptureFixture) -> None:
    """A quarter of an hour of tracebacks buried everything else."""
    cluster = Cluster(1)
    body = body_of("replicasets.apps")
    body["spec"]["template"]["spec"]["priorityClassName"] = "missing"
    with caplog.at_level(logging.WARNING):
        cluster.create("replicasets.apps", body)
        cluster.run(120)
    assert "Traceback" not in caplog.text
    assert all("\n" not in record.getMessage() for record in caplog.records)
    assert 6 <= len(caplog.records) <= 9
    assert caplog.records[0].getMessage().endswith("no PriorityClass with name missing was found; again in 1 s")
    failures = [one for one in cluster.objects("events") if one["reason"] == "FailedCreate"]
    assert {one["type"] for one in failures} == {"Warning"}
    assert len(caplog.records) <= sum(one["count"] for one in failures) <= len(caplog.records) + 2
    assert cluster.get("replicasets.apps", "w")["status"]["observedGeneration"] == 1
    cluster.create("priorityclasses.scheduling.k8s.io", {"metadata": {"name": "missing"}, "value": 5})
    cluster.run(61)
    assert len(owners(cluster)) == 2
