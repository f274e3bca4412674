"""The controller of quotas: what is used follows what is there, and room that objects leave is used again."""

from __future__ import annotations

from typing import Any

from tests.helpers.embedded_harness import Cluster, pod, workload
from trireme_kube.embedded.api.resources import BY_KEY
from trireme_kube.embedded.printers.columns import columns_of

Object = dict[str, Any]


def quota(hard: Object, name: str = "q", **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"hard": hard, **spec}}


def used(cluster: Cluster, name: str = "q") -> Object:
    found: Object = cluster.get("resourcequotas", name)["status"]["used"]
    return found


def test_a_new_quota_counts_what_is_there() -> None:
    """Objects may be older than the quota, and more than it allows."""
    cluster = Cluster(1)
    for name in ("a", "b"):
        cluster.create("pods", pod(name))
    cluster.create("pods", pod("c"))
    cluster.create("resourcequotas", quota({"pods": "2", "count/pods": "9", "count/widgets.example.com": "1"}))
    cluster.settle()
    status = cluster.get("resourcequotas", "q")["status"]
    assert status == {
        "hard": {"pods": "2", "count/pods": "9", "count/widgets.example.com": "1"},
        "used": {"pods": "3", "count/pods": "3"},
    }


def test_room_that_pods_leave_is_used_again() -> None:
    """Replicas that were refused are created when there is room, and what is used is right throughout."""
    cluster = Cluster(1)
    cluster.create("resourcequotas", quota({"pods": "2"}))
    cluster.settle()
    cluster.create("replicasets.apps", workload("web", 3))
    cluster.run(3)
    assert len(cluster.objects("pods")) == 2
    assert used(cluster) == {"pods": "2"}
    messages = [event["message"] for event in cluster.objects("events") if event["reason"] == "FailedCreate"]
    assert "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2" in messages[0]
    cluster.edit("resourcequotas", "q", {"spec": {"hard": {"pods": "3"}}})
    cluster.run(70)
    assert len(cluster.objects("pods")) == 3
    cluster.delete("pods", cluster.objects("pods")[0]["metadata"]["name"])
    cluster.run(70)
    assert len(cluster.objects("pods")) == 3
    assert used(cluster) == {"pods": "3"}


def test_a_pod_that_ends_leaves_its_room() -> None:
    """Finished pods of Jobs stay for a while; they count as objects alone."""
    cluster = Cluster(1)
    cluster.create("resourcequotas", quota({"pods": "2", "count/pods": "2"}))
    cluster.create("pods", pod("p", restartPolicy="Never"))
    cluster.run(1)
    assert used(cluster) == {"pods": "1", "count/pods": "1"}
    cluster.run(15)
    assert cluster.phases() == ["Succeeded"]
    assert used(cluster) == {"pods": "0", "count/pods": "1"}


def test_a_pod_that_no_kubelet_ends_leaves_its_room() -> None:
    """It is counted no more when its grace period has passed twice, as in Kubernetes, without any other write."""
    cluster = Cluster(1)
    node = cluster.objects("nodes")[0]["metadata"]["name"]
    cluster.create("resourcequotas", quota({"pods": "2"}))
    cluster.create("pods", pod("p"))
    cluster.run(2)
    cluster.edit("nodes", node, {"metadata": {"annotations": {"trireme.dev/kubelet": "none"}}})
    cluster.delete("pods", "p")
    cluster.run(59)
    assert used(cluster) == {"pods": "1"}
    cluster.run(3)
    assert used(cluster) == {"pods": "0"}
    assert len(cluster.objects("pods")) == 1


def test_scopes_are_counted_apart() -> None:
    """A pod leaves a scope when its deadline is set."""
    cluster = Cluster(1)
    cluster.create("resourcequotas", quota({"pods": "5"}, "timed", scopes=["Terminating"]))
    cluster.create("resourcequotas", quota({"pods": "5"}, "untimed", scopes=["NotTerminating"]))
    cluster.create("pods", pod("a", activeDeadlineSeconds=9))
    cluster.create("pods", pod("b"))
    cluster.run(1)
    assert (used(cluster, "timed"), used(cluster, "untimed")) == ({"pods": "1"}, {"pods": "1"})
    cluster.edit("pods", "b", {"spec": {"activeDeadlineSeconds": 9}})
    cluster.run(1)
    assert (used(cluster, "timed"), used(cluster, "untimed")) == ({"pods": "2"}, {"pods": "0"})


def test_a_quota_is_shown_with_what_is_used() -> None:
    """`kubectl get quota` is where people look why a pod is refused."""
    cluster = Cluster(1)
    cluster.create("resourcequotas", quota({"requests.cpu": "2", "limits.cpu": "4", "pods": "5"}))
    cluster.settle()
    shown = cluster.get("resourcequotas", "q")
    cells = [column.cell(shown, cluster.time.clock()) for column in columns_of(BY_KEY["resourcequotas"])]
    assert cells[1:3] == ["pods: 0/5, requests.cpu: 0/2", "limits.cpu: 0/4"]
