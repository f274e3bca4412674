"""What deployments, sets and jobs make of themselves, on fake time with a dealing scheduler."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.helpers.embedded_harness import Cluster, true_conditions, workload
from trireme_kube.embedded.controllers.jobs import index_text
from trireme_kube.embedded.kubelet.kubelets import EXIT_CODE_ANNOTATION, KubeletPace
from trireme_kube.embedded.registry.subresources import bind

Object = dict[str, Any]
DEPLOYMENTS, REPLICA_SETS, JOBS = "deployments.apps", "replicasets.apps", "jobs.batch"
STATEFUL_SETS, DAEMON_SETS = "statefulsets.apps", "daemonsets.apps"


def job(name: str, *, annotations: Object | None = None, **spec: Any) -> Object:
    template = {
        "metadata": {"annotations": annotations or {}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    }
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


def images(cluster: Cluster) -> Counter[str]:
    return Counter(one["spec"]["containers"][0]["image"] for one in cluster.objects("pods"))


# Deployments and ReplicaSets


def test_a_deployment_yields_its_pods() -> None:
    """`kubectl create deployment web --image=x --replicas=50` yields 50 pods."""
    cluster = Cluster(3)
    cluster.create(DEPLOYMENTS, workload("web", 120))
    cluster.run(5)
    assert cluster.phases() == ["Running"] * 120
    deployment = cluster.get(DEPLOYMENTS, "web")
    assert deployment["status"]["readyReplicas"] == deployment["status"]["availableReplicas"] == 120
    assert deployment["status"]["observedGeneration"] == deployment["metadata"]["generation"]
    assert true_conditions(deployment) == {"Available", "Progressing"}


def test_a_lost_pod_is_replaced() -> None:
    """That is what a ReplicaSet is for; preemption's victims come back this way."""
    cluster = Cluster(1)
    cluster.create(DEPLOYMENTS, workload("web", 3))
    cluster.run(3)
    first = cluster.objects("pods")[0]["metadata"]
    cluster.delete("pods", first["name"])
    cluster.run(5)
    left = cluster.objects("pods")
    assert len(left) == 3
    assert first["uid"] not in {one["metadata"]["uid"] for one in left}


def test_scaling_down_gives_up_the_least_useful_pods() -> None:
    """A pending pod goes before a running one."""
    cluster = Cluster(1, schedule=False)
    cluster.create(DEPLOYMENTS, workload("web", 3))
    cluster.settle()
    bound = cluster.objects("pods")[1]["metadata"]["name"]
    bind(cluster.registry, "default", bound, {"target": {"name": "node-0"}})
    cluster.run(3)
    cluster.edit(DEPLOYMENTS, "web", {"spec": {"replicas": 1}})
    cluster.run(3)
    assert [one["metadata"]["name"] for one in cluster.objects("pods")] == [bound]


@pytest.mark.parametrize(
    ("surge", "unavailable", "most", "least"),
    [("25%", "25%", 10, 6), (1, 0, 9, 8), (0, 1, 8, 7), (0, "1%", 8, 7)],
)
def test_a_rolling_update_keeps_its_bounds(surge: Any, unavailable: Any, most: int, least: int) -> None:
    """Never more pods than replicas + maxSurge, never fewer available than replicas - maxUnavailable."""
    cluster = Cluster(3)
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    cluster.create(DEPLOYMENTS, workload("web", 8, strategy={"type": "RollingUpdate", "rollingUpdate": rolling}))
    cluster.run(5)
    cluster.edit(DEPLOYMENTS, "web", {"spec": {"template": workload("web", image="v2")["spec"]["template"]}})
    for _ in range(200):
        cluster.run(0.5)
        sets = cluster.objects(REPLICA_SETS)
        assert sum(one["spec"]["replicas"] for one in sets) <= most
        assert sum(one["status"].get("availableReplicas", 0) for one in sets) >= least
        if images(cluster) == {"v2": 8}:
            break
    assert images(cluster) == {"v2": 8}
    cluster.run(3)
    assert cluster.get(DEPLOYMENTS, "web")["status"]["updatedReplicas"] == 8


def test_recreate_ends_the_old_pods_first() -> None:
    """Two versions at once is what the strategy forbids."""
    cluster = Cluster(2)
    cluster.create(DEPLOYMENTS, workload("web", 4, strategy={"type": "Recreate"}))
    cluster.run(4)
    cluster.edit(DEPLOYMENTS, "web", {"spec": {"template": workload("web", image="v2")["spec"]["template"]}})
    for _ in range(40):
        cluster.run(0.5)
        active = {image for image, count in images(cluster).items() if count}
        assert len(active) < 2
    assert images(cluster) == {"v2": 4}


def test_undo_takes_the_old_replica_set_up_again() -> None:
    """`kubectl rollout undo` writes an old template and expects its ReplicaSet, under a new revision."""
    cluster = Cluster(2)
    cluster.create(DEPLOYMENTS, workload("web", 2))
    cluster.run(4)
    for image in ("v2", "v1"):
        cluster.edit(DEPLOYMENTS, "web", {"spec": {"template": workload("web", image=image)["spec"]["template"]}})
        cluster.run(10)
    sets = {
        one["spec"]["template"]["spec"]["containers"][0]["image"]: one["metadata"]["annotations"]
        for one in cluster.objects(REPLICA_SETS)
    }
    revision = "deployment.kubernetes.io/revision"
    assert {image: annotations[revision] for image, annotations in sets.items()} == {"v1": "3", "v2": "2"}
    assert cluster.get(DEPLOYMENTS, "web")["metadata"]["annotations"][revision] == "3"


def test_replica_sets_beyond_the_history_limit_go() -> None:
    """A deployment that is updated daily must not collect ReplicaSets forever."""
    cluster = Cluster(1)
    cluster.create(DEPLOYMENTS, workload("web", 1, revisionHistoryLimit=1))
    for image in ("v2", "v3", "v4"):
        cluster.run(6)
        cluster.edit(DEPLOYMENTS, "web", {"spec": {"template": workload("web", image=image)["spec"]["template"]}})
    cluster.run(10)
    assert len(cluster.objects(REPLICA_SETS)) == 2


# StatefulSets, DaemonSets, Jobs


def test_a_stateful_set_starts_in_order_and_keeps_names() -> None:
    """Each pod waits for the one before, and comes back under its name."""
    cluster = Cluster(1)
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    cluster.create(STATEFUL_SETS, workload("db", 3, serviceName="db", volumeClaimTemplates=[claim]))
    cluster.settle()
    assert [one["metadata"]["name"] for one in cluster.objects("pods")] == ["db-0"]
    cluster.run(5)
    assert [one["metadata"]["name"] for one in cluster.objects("pods")] == ["db-0", "db-1", "db-2"]
    names = [one["metadata"]["name"] for one in cluster.objects("persistentvolumeclaims")]
    assert names == ["data-db-0", "data-db-1", "data-db-2"]
    cluster.delete("pods", "db-1")
    cluster.run(5)
    assert cluster.get("pods", "db-1")["status"]["phase"] == "Running"
    assert cluster.get(STATEFUL_SETS, "db")["status"]["readyReplicas"] == 3


def test_a_stateful_set_is_updated_from_the_end() -> None:
    """One pod at a time, the highest first."""
    cluster = Cluster(1)
    cluster.create(STATEFUL_SETS, workload("db", 3))
    cluster.run(8)
    cluster.edit(STATEFUL_SETS, "db", {"spec": {"template": workload("db", image="v2")["spec"]["template"]}})
    order: list[str] = []
    for _ in range(60):
        cluster.run(0.5)
        for one in cluster.objects("pods"):
            name = one["metadata"]["name"]
            if one["spec"]["containers"][0]["image"] == "v2" and name not in order:
                order.append(name)
    assert order == ["db-2", "db-1", "db-0"]


def test_pods_that_never_become_ready_are_updated() -> None:
    cluster = Cluster(1)
    stateful_set = workload("db", 2, podManagementPolicy="Parallel")
    stateful_set["spec"]["template"]["spec"]["schedulingGates"] = [{"name": "example.com/never"}]
    cluster.create(STATEFUL_SETS, stateful_set)
    cluster.run(4)
    assert images(cluster) == {"v1": 2}
    stateful_set["spec"]["template"] = workload("db", image="v2")["spec"]["template"]
    cluster.edit(STATEFUL_SETS, "db", {"spec": {"template": {"spec": {"schedulingGates": None}}}})
    cluster.edit(STATEFUL_SETS, "db", {"spec": {"template": stateful_set["spec"]["template"]}})
    cluster.run(20)
    assert images(cluster) == {"v2": 2}
    assert cluster.get(STATEFUL_SETS, "db")["status"]["readyReplicas"] == 2


def test_a_daemon_set_runs_on_every_node_that_it_tolerates() -> None:
    """New nodes get the pod too, tainted ones do not."""
    cluster = Cluster(2)
    cluster.edit("nodes", "node-1", {"spec": {"taints": [{"key": "special", "effect": "NoSchedule"}]}})
    cluster.create(DAEMON_SETS, workload("agent"))
    cluster.run(3)
    assert {one["spec"]["nodeName"] for one in cluster.objects("pods")} == {"node-0"}
    cluster.create("nodes", {"metadata": {"name": "new"}})
    cluster.edit("nodes", "node-1", {"spec": {"taints": None}})
    cluster.run(4)
    assert sorted(one["spec"]["nodeName"] for one in cluster.objects("pods")) == ["new", "node-0", "node-1"]
    assert cluster.get(DAEMON_SETS, "agent")["status"]["numberReady"] == 3


@pytest.mark.parametrize(
    ("terms", "nodes"),
    [
        ([{}], set()),
        ([{"matchExpressions": []}], set()),
        ([{}, {"matchExpressions": [{"key": "gen", "operator": "Exists"}]}], {"node-1"}),
        ([{"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["4"]}]}], {"node-1"}),
        ([{"matchExpressions": [{"key": "gen", "operator": "Lt", "values": ["5"]}]}], set()),
        ([{"matchExpressions": [{"key": "gen", "operator": "Lt", "values": ["many"]}]}], set()),
        ([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-0"]}]}], {"node-0"}),
    ],
    ids=["empty", "no-expressions", "empty-and-another", "greater", "not-less", "no-number", "field"],
)
def test_a_daemon_set_runs_where_its_node_affinity_says(terms: list[Object], nodes: set[str]) -> None:
    """Its controller decides about nodes by itself."""
    cluster = Cluster(2)
    cluster.edit("nodes", "node-1", {"metadata": {"labels": {"gen": "5"}}})
    agent = workload("agent")
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    agent["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": required}
    cluster.create(DAEMON_SETS, agent)
    cluster.run(3)
    assert {one["spec"]["nodeName"] for one in cluster.objects("pods")} == nodes


def test_a_job_runs_to_completion() -> None:
    """Six completions, two at a time, then Complete; the finished pods stay to be read."""
    cluster = Cluster(2, pace=KubeletPace(start=1, stop=1, run=3))
    cluster.create(JOBS, job("pi", completions=6, parallelism=2))
    for _ in range(60):
        cluster.run(0.5)
        assert sum(phase in ("Pending", "Running") for phase in cluster.phases()) <= 2
    done = cluster.get(JOBS, "pi")
    assert done["status"]["succeeded"] == 6
    assert true_conditions(done) == {"Complete", "SuccessCriteriaMet"}
    assert cluster.phases() == ["Succeeded"] * 6


def test_an_indexed_job_covers_every_index_once() -> None:
    """Each index is a share of the work."""
    cluster = Cluster(2, pace=KubeletPace(start=1, stop=1, run=2))
    cluster.create(JOBS, job("pi", completions=4, parallelism=3, completionMode="Indexed"))
    cluster.run(20)
    key = "batch.kubernetes.io/job-completion-index"
    assert sorted(one["metadata"]["annotations"][key] for one in cluster.objects("pods")) == ["0", "1", "2", "3"]
    assert cluster.get(JOBS, "pi")["status"]["completedIndexes"] == "0-3"


def test_a_failing_job_gives_up() -> None:
    """After backoffLimit failures it must not go on forever."""
    cluster = Cluster(1, pace=KubeletPace(start=1, stop=1, run=1))
    cluster.create(JOBS, job("bad", backoffLimit=2, annotations={EXIT_CODE_ANNOTATION: "1"}))
    cluster.run(60)
    failed = cluster.get(JOBS, "bad")
    assert failed["status"]["failed"] == 3
    assert true_conditions(failed) == {"Failed", "FailureTarget"}


def test_finished_pods_that_are_removed_are_not_run_again() -> None:
    """What succeeded stays counted."""
    cluster = Cluster(1, pace=KubeletPace(start=1, stop=1, run=2))
    cluster.create(JOBS, job("pi", completions=2, parallelism=1))
    cluster.run(4)
    (finished,) = [one for one in cluster.objects("pods") if one["status"]["phase"] == "Succeeded"]
    cluster.delete("pods", finished["metadata"]["name"])
    cluster.run(10)
    assert cluster.get(JOBS, "pi")["status"]["succeeded"] == 2
    assert len(cluster.objects("pods")) == 1


def test_a_suspended_job_has_no_pods() -> None:
    """Queueing systems suspend Jobs until there is room."""
    cluster = Cluster(1)
    cluster.create(JOBS, job("pi", suspend=True))
    cluster.run(2)
    assert cluster.objects("pods") == []
    assert true_conditions(cluster.get(JOBS, "pi")) == {"Suspended"}
    cluster.edit(JOBS, "pi", {"spec": {"suspend": False}})
    cluster.run(2)
    assert len(cluster.objects("pods")) == 1


def test_a_finished_job_goes_after_its_time_to_live() -> None:
    """With its pods."""
    cluster = Cluster(1, pace=KubeletPace(start=1, stop=1, run=1))
    cluster.create(JOBS, job("pi", ttlSecondsAfterFinished=5))
    cluster.run(4)
    assert len(cluster.objects(JOBS)) == 1
    cluster.run(10)
    assert cluster.objects(JOBS) == []
    assert cluster.objects("pods") == []


@pytest.mark.parametrize(("indexes", "text"), [(set(), ""), ({0}, "0"), ({0, 1, 2}, "0-2"), ({5, 0, 1, 3}, "0-1,3,5")])
def test_indexes_as_ranges(indexes: set[int], text: str) -> None:
    """`completedIndexes` of a Job with thousands of indexes has to stay short."""
    assert index_text(indexes) == text
