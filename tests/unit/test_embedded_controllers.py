"""Workloads, garbage collection, namespaces, budgets and node taints, on fake time with a dealing scheduler."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from embedded_harness import Cluster, pod

from trireme.embedded.controllers.jobs import index_text
from trireme.embedded.controllers.tolerations import patience
from trireme.embedded.kubelets import EXIT_CODE_ANNOTATION, KUBELET_ANNOTATION, RUN_SECONDS_ANNOTATION, Pace
from trireme.embedded.problems import ApiError
from trireme.embedded.resources import BY_KEY, PODS
from trireme.embedded.subresources import bind, evict

Object = dict[str, Any]
DEPLOYMENTS, REPLICA_SETS, JOBS = "deployments.apps", "replicasets.apps", "jobs.batch"
STATEFUL_SETS, DAEMON_SETS = "statefulsets.apps", "daemonsets.apps"


def workload(name: str, replicas: int | None = None, *, image: str = "v1", **spec: Any) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}}
    body: Object = {"selector": {"matchLabels": labels}, "template": template, **spec}
    if replicas is not None:
        body["replicas"] = replicas
    return {"metadata": {"name": name}, "spec": body}


def job(name: str, *, annotations: Object | None = None, **spec: Any) -> Object:
    template = {
        "metadata": {"annotations": annotations or {}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    }
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


def true_conditions(obj: Object) -> set[str]:
    return {one["type"] for one in obj["status"].get("conditions") or () if one["status"] == "True"}


def images(cluster: Cluster) -> Counter[str]:
    return Counter(one["spec"]["containers"][0]["image"] for one in cluster.objects("pods"))


# Kubelets and nodes


def test_a_bound_pod_runs_after_a_moment() -> None:
    """Without a kubelet's report no rollout would ever finish."""
    cluster = Cluster(1)
    cluster.create("pods", pod("p"))
    cluster.settle()
    assert cluster.phases() == ["Pending"]
    cluster.run(2)
    running = cluster.get("pods", "p")
    assert running["status"]["phase"] == "Running"
    assert running["status"]["podIP"]
    assert {"Ready", "PodScheduled", "ContainersReady", "Initialized"} <= true_conditions(running)
    assert running["status"]["containerStatuses"][0]["ready"] is True


def test_a_deleted_pod_goes_when_the_kubelet_confirms() -> None:
    """Its resources are freed only then."""
    cluster = Cluster(1)
    cluster.create("pods", pod("p"))
    cluster.run(2)
    cluster.delete("pods", "p")
    cluster.settle()
    assert "deletionTimestamp" in cluster.get("pods", "p")["metadata"]
    cluster.run(2)
    assert cluster.objects("pods") == []


def test_pods_of_jobs_end_and_others_run_on() -> None:
    """A batch workload must free its node; a bare pod must stay, whatever its restart policy."""
    cluster = Cluster(1)
    cluster.create("pods", pod("bare", restartPolicy="Never"))
    timed = pod("timed")
    timed["metadata"]["annotations"] = {RUN_SECONDS_ANNOTATION: "3"}
    cluster.create("pods", timed)
    cluster.run(30)
    assert cluster.get("pods", "bare")["status"]["phase"] == "Running"
    assert cluster.get("pods", "timed")["status"]["phase"] == "Succeeded"


def test_nodes_made_by_clients_get_a_kubelet_unless_they_say_no() -> None:
    """Tests create Node objects by kubectl and expect pods to run there."""
    cluster = Cluster(0)
    cluster.create("nodes", {"metadata": {"name": "mine"}, "status": {"capacity": {"cpu": 1, "pods": 5}}})
    cluster.create("nodes", {"metadata": {"name": "dead", "annotations": {KUBELET_ANNOTATION: "none"}}})
    cluster.settle()
    assert "Ready" in true_conditions(cluster.get("nodes", "mine"))
    assert not cluster.get("nodes", "mine")["spec"].get("taints")
    assert [one["key"] for one in cluster.get("nodes", "dead")["spec"]["taints"]] == ["node.kubernetes.io/not-ready"]
    assert [one["metadata"]["name"] for one in cluster.objects("leases.coordination.k8s.io")] == ["mine"]


def test_a_kubelet_can_be_made_to_die_and_come_back() -> None:
    """Chaos tests need a node whose pods nobody acknowledges."""
    cluster = Cluster(1)
    cluster.edit("nodes", "node-0", {"metadata": {"annotations": {KUBELET_ANNOTATION: "none"}}})
    cluster.create("pods", pod("p"))
    cluster.run(5)
    assert cluster.phases() == ["Pending"]
    cluster.edit("nodes", "node-0", {"metadata": {"annotations": {KUBELET_ANNOTATION: None}}})
    cluster.run(5)
    assert cluster.phases() == ["Running"]


def test_pods_already_on_a_node_run_once_it_registers() -> None:
    """A pod may be bound before the kubelet is up."""
    cluster = Cluster(0)
    cluster.create("pods", pod("p"))
    bind(cluster.registry, "default", "p", {"target": {"name": "late"}})
    cluster.create("nodes", {"metadata": {"name": "late"}})
    cluster.run(2)
    assert cluster.phases() == ["Running"]


@pytest.mark.parametrize(
    ("change", "taints"),
    [
        ({"spec": {"unschedulable": True}}, {("node.kubernetes.io/unschedulable", "NoSchedule")}),
        ({"spec": {"taints": [{"key": "mine", "effect": "NoExecute"}]}}, {("mine", "NoExecute")}),
        ({"spec": {"unschedulable": None}}, set()),
    ],
)
def test_taints_follow_the_node(change: Object, taints: set[tuple[str, str]]) -> None:
    """kubectl cordon sets a flag; the taint is what the scheduler's events speak of."""
    cluster = Cluster(1)
    cluster.edit("nodes", "node-0", change)
    cluster.settle()
    node = cluster.get("nodes", "node-0")
    assert {(one["key"], one["effect"]) for one in node["spec"].get("taints") or ()} == taints
    if "unschedulable" in change["spec"]:
        cluster.edit("nodes", "node-0", {"spec": {"unschedulable": None}})
        cluster.settle()
        assert not cluster.get("nodes", "node-0")["spec"].get("taints")


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
    [("25%", "25%", 10, 6), (1, 0, 9, 8), (0, 1, 8, 7), (0, 0, 8, 7)],
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
    """A deployment that is updated daily must not collect ReplicaSets for ever."""
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
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    claim["spec"]["resources"] = {"requests": {"storage": "1Gi"}}  # type: ignore[index]
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


def test_a_job_runs_to_completion() -> None:
    """Six completions, two at a time, then Complete; the finished pods stay to be read."""
    cluster = Cluster(2, pace=Pace(start=1, stop=1, run=3))
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
    cluster = Cluster(2, pace=Pace(start=1, stop=1, run=2))
    cluster.create(JOBS, job("pi", completions=4, parallelism=3, completionMode="Indexed"))
    cluster.run(20)
    key = "batch.kubernetes.io/job-completion-index"
    assert sorted(one["metadata"]["annotations"][key] for one in cluster.objects("pods")) == ["0", "1", "2", "3"]
    assert cluster.get(JOBS, "pi")["status"]["completedIndexes"] == "0-3"


def test_a_failing_job_gives_up() -> None:
    """After backoffLimit failures it must not go on for ever."""
    cluster = Cluster(1, pace=Pace(start=1, stop=1, run=1))
    cluster.create(JOBS, job("bad", backoffLimit=2, annotations={EXIT_CODE_ANNOTATION: "1"}))
    cluster.run(60)
    failed = cluster.get(JOBS, "bad")
    assert failed["status"]["failed"] == 3
    assert true_conditions(failed) == {"Failed", "FailureTarget"}


def test_finished_pods_that_are_removed_are_not_run_again() -> None:
    """What succeeded stays counted."""
    cluster = Cluster(1, pace=Pace(start=1, stop=1, run=2))
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
    cluster = Cluster(1, pace=Pace(start=1, stop=1, run=1))
    cluster.create(JOBS, job("pi", ttlSecondsAfterFinished=5))
    cluster.run(4)
    assert len(cluster.objects(JOBS)) == 1
    cluster.run(10)
    assert cluster.objects(JOBS) == []
    assert cluster.objects("pods") == []


@pytest.mark.parametrize(("indexes", "text"), [(set(), ""), ({0}, "0"), ({0, 1, 2}, "0-2"), ({5, 0, 1, 3}, "0-1,3,5")])
def test_indexes_as_ranges(indexes: set[int], text: str) -> None:
    """completedIndexes of a Job with thousands of indexes has to stay short."""
    assert index_text(indexes) == text


# Garbage collection and namespaces


def test_deleting_a_deployment_deletes_what_it_made() -> None:
    """In the background: the deployment goes at once, its ReplicaSets and pods follow."""
    cluster = Cluster(1)
    cluster.create(DEPLOYMENTS, workload("web", 3))
    cluster.run(4)
    cluster.delete(DEPLOYMENTS, "web")
    with pytest.raises(ApiError):
        cluster.get(DEPLOYMENTS, "web")
    cluster.run(4)
    assert cluster.objects(REPLICA_SETS) == []
    assert cluster.objects("pods") == []


def test_foreground_deletion_keeps_the_owner_to_the_last() -> None:
    """`kubectl delete --cascade=foreground --wait` relies on the order."""
    cluster = Cluster(1)
    cluster.create(DEPLOYMENTS, workload("web", 3))
    cluster.run(4)
    cluster.delete(DEPLOYMENTS, "web", propagationPolicy="Foreground")
    cluster.settle()
    assert "deletionTimestamp" in cluster.get(DEPLOYMENTS, "web")["metadata"]
    assert len(cluster.objects("pods")) == 3
    cluster.run(4)
    assert cluster.objects("pods") == []
    assert cluster.objects(DEPLOYMENTS) == []


def test_orphans_stay() -> None:
    """`--cascade=orphan` keeps the pods running."""
    cluster = Cluster(1)
    cluster.create(REPLICA_SETS, workload("web", 2))
    cluster.run(4)
    cluster.delete(REPLICA_SETS, "web", propagationPolicy="Orphan")
    cluster.run(4)
    assert cluster.objects(REPLICA_SETS) == []
    assert cluster.phases() == ["Running", "Running"]
    assert all("ownerReferences" not in one["metadata"] for one in cluster.objects("pods"))


def test_a_dependent_of_nobody_is_collected() -> None:
    """An owner deleted while its controller was creating must not leave pods behind."""
    cluster = Cluster(1)
    body = pod("p")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "gone", "uid": "gone", "controller": True}
    body["metadata"]["ownerReferences"] = [owner]
    cluster.create("pods", body)
    cluster.run(3)
    assert cluster.objects("pods") == []


def test_an_object_lives_as_long_as_one_of_its_owners() -> None:
    """Only the dangling reference goes."""
    cluster = Cluster(1)
    owners = [cluster.create("configmaps", {"metadata": {"name": name}}) for name in ("a", "b")]
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": one["metadata"]["name"], "uid": one["metadata"]["uid"]}
        for one in owners
    ]
    cluster.create("secrets", {"metadata": {"name": "s", "ownerReferences": references}})
    cluster.delete("configmaps", "a")
    cluster.settle()
    assert [one["name"] for one in cluster.get("secrets", "s")["metadata"]["ownerReferences"]] == ["b"]
    cluster.delete("configmaps", "b")
    cluster.settle()
    assert cluster.objects("secrets") == []


def test_a_namespace_goes_after_its_content() -> None:
    """`kubectl delete namespace` waits for exactly that."""
    cluster = Cluster(1)
    cluster.create("namespaces", {"metadata": {"name": "team"}})
    cluster.create(DEPLOYMENTS, workload("web", 2), "team")
    cluster.run(4)
    cluster.delete("namespaces", "team")
    cluster.settle()
    assert cluster.get("namespaces", "team")["status"]["phase"] == "Terminating"
    cluster.run(5)
    assert all(one["metadata"]["name"] != "team" for one in cluster.objects("namespaces"))
    assert cluster.objects("pods", "team") == []


# Disruption budgets


def budget(**spec: Any) -> Object:
    return {"metadata": {"name": "b"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec}}


@pytest.mark.parametrize(
    ("spec", "allowed", "desired"),
    [
        ({"minAvailable": 3}, 1, 3),
        ({"minAvailable": "50%"}, 2, 2),
        ({"maxUnavailable": 1}, 1, 3),
        ({"maxUnavailable": "30%"}, 2, 2),
        ({"minAvailable": 9}, 0, 9),
    ],
)
def test_a_budget_allows_what_is_to_spare(spec: Object, allowed: int, desired: int) -> None:
    """Preemption looks at disruptionsAllowed when it chooses victims."""
    cluster = Cluster(1)
    cluster.create(DEPLOYMENTS, workload("web", 4))
    cluster.create("poddisruptionbudgets.policy", budget(**spec))
    cluster.run(4)
    status = cluster.get("poddisruptionbudgets.policy", "b")["status"]
    assert (status["disruptionsAllowed"], status["desiredHealthy"]) == (allowed, desired)
    assert (status["currentHealthy"], status["expectedPods"]) == (4, 4)


def test_eviction_respects_the_budget() -> None:
    """kubectl drain evicts one pod after the other; the second has to wait."""
    cluster = Cluster(1)
    cluster.create(DEPLOYMENTS, workload("web", 4))
    cluster.create("poddisruptionbudgets.policy", budget(minAvailable=3))
    cluster.run(4)
    first, second = [one["metadata"]["name"] for one in cluster.objects("pods")][:2]
    evict(cluster.registry, "default", first, {})
    with pytest.raises(ApiError) as refusal:
        evict(cluster.registry, "default", second, {})
    assert (refusal.value.code, refusal.value.reason) == (429, "TooManyRequests")
    evicted = cluster.store.get(PODS, "default", first)
    assert evicted is not None
    assert "DisruptionTarget" in true_conditions(evicted.object)
    cluster.run(6)
    evict(cluster.registry, "default", second, {})


# Taints that evict, and nodes that vanish


@pytest.mark.parametrize(
    ("tolerations", "seconds"),
    [
        ([], 0.0),
        ([{"key": "k", "operator": "Exists"}], None),
        ([{"key": "k", "operator": "Exists", "effect": "NoSchedule"}], 0.0),
        ([{"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 7}], 7.0),
        ([{"key": "k", "operator": "Equal", "value": "other"}], 0.0),
        ([{"operator": "Exists"}, {"key": "k", "operator": "Exists", "tolerationSeconds": 3}], 3.0),
    ],
)
def test_how_long_a_taint_is_put_up_with(tolerations: list[Object], seconds: float | None) -> None:
    """The shortest time that any covering toleration gives, as the real controller counts."""
    assert patience(tolerations, [{"key": "k", "value": "v", "effect": "NoExecute"}]) == seconds


def test_a_no_execute_taint_evicts() -> None:
    """`kubectl taint nodes n gone=yes:NoExecute` empties the node, of those who tolerate it later."""
    cluster = Cluster(1)
    patient = pod("patient", tolerations=[{"key": "gone", "operator": "Exists", "tolerationSeconds": 10}])
    cluster.create("pods", pod("touchy"))
    cluster.create("pods", patient)
    cluster.create("pods", pod("stoic", tolerations=[{"operator": "Exists"}]))
    cluster.run(2)
    cluster.edit("nodes", "node-0", {"spec": {"taints": [{"key": "gone", "effect": "NoExecute"}]}})
    cluster.run(3)
    assert [one["metadata"]["name"] for one in cluster.objects("pods")] == ["patient", "stoic"]
    cluster.run(12)
    assert [one["metadata"]["name"] for one in cluster.objects("pods")] == ["stoic"]


def test_a_taint_that_is_taken_back_evicts_nobody() -> None:
    """Within the time that a pod tolerates it."""
    cluster = Cluster(1)
    cluster.create("pods", pod("p", tolerations=[{"key": "gone", "operator": "Exists", "tolerationSeconds": 10}]))
    cluster.run(2)
    cluster.edit("nodes", "node-0", {"spec": {"taints": [{"key": "gone", "effect": "NoExecute"}]}})
    cluster.run(5)
    cluster.edit("nodes", "node-0", {"spec": {"taints": None}})
    cluster.run(20)
    assert cluster.phases() == ["Running"]


def test_pods_of_a_vanished_node_are_removed() -> None:
    """Nobody is left to confirm their end; their owners replace them elsewhere."""
    cluster = Cluster(2, pace=Pace(start=1, stop=1, orphan=5))
    cluster.create(DEPLOYMENTS, workload("web", 4))
    cluster.run(3)
    cluster.delete("nodes", "node-0")
    cluster.run(10)
    assert [one["spec"]["nodeName"] for one in cluster.objects("pods")] == ["node-1"] * 4


# Resource claims


def claiming_pod(name: str = "p") -> Object:
    return pod(name, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}])


def claim_template() -> Object:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    return {"metadata": {"name": "one-gpu"}, "spec": {"spec": {"devices": {"requests": [request]}}}}


CLAIMS, TEMPLATES = "resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io"


def test_a_claim_is_made_from_its_template() -> None:
    """The scheduler waits until the pod's status names the claim; the template may come later than the pod."""
    cluster = Cluster(1, schedule=False)
    cluster.create("pods", claiming_pod())
    cluster.settle()
    assert cluster.objects(CLAIMS) == []
    cluster.create(TEMPLATES, claim_template())
    cluster.settle()
    (claim,) = cluster.objects(CLAIMS)
    assert claim["metadata"]["ownerReferences"][0]["name"] == "p"
    assert claim["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
    (status,) = cluster.get("pods", "p")["status"]["resourceClaimStatuses"]
    assert status == {"name": "gpu", "resourceClaimName": claim["metadata"]["name"]}


def test_a_claim_is_released_when_its_pod_is_done() -> None:
    """Its device is free for others before the pod object goes."""
    cluster = Cluster(1)
    done = claiming_pod()
    done["metadata"]["annotations"] = {RUN_SECONDS_ANNOTATION: "5"}
    cluster.create(TEMPLATES, claim_template())
    cluster.create("pods", done)
    cluster.run(2)
    (claim,) = cluster.objects(CLAIMS)
    consumer = {"resource": "pods", "name": "p", "uid": cluster.get("pods", "p")["metadata"]["uid"]}
    allocated = {"allocation": {"devices": {}}, "reservedFor": [consumer]}
    resource = BY_KEY[CLAIMS]
    name = claim["metadata"]["name"]
    cluster.edit(CLAIMS, name, {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}})
    cluster.registry.change(resource, "default", name, lambda obj: {**obj, "status": allocated}, subresource="status")
    cluster.settle()
    assert cluster.get(CLAIMS, name)["status"] == allocated
    cluster.run(6)
    assert cluster.get("pods", "p")["status"]["phase"] == "Succeeded"
    assert cluster.objects(CLAIMS) == []


def test_a_shared_claim_is_deallocated_and_kept() -> None:
    """A claim that somebody made by hand outlives its consumers, free to be allocated elsewhere."""
    cluster = Cluster(1)
    shared = {"metadata": {"name": "shared", "finalizers": ["resource.kubernetes.io/delete-protection"]}}
    shared["spec"] = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}  # type: ignore[assignment]
    cluster.create(CLAIMS, shared)
    consumer = {"resource": "pods", "name": "gone", "uid": "gone"}
    allocated = {"allocation": {"devices": {}}, "reservedFor": [consumer]}
    cluster.registry.change(
        BY_KEY[CLAIMS], "default", "shared", lambda obj: {**obj, "status": allocated}, subresource="status"
    )
    cluster.settle()
    kept = cluster.get(CLAIMS, "shared")
    assert kept["status"] == {}
    assert "finalizers" not in kept["metadata"]
