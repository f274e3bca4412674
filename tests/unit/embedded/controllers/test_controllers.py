"""Kubelets, garbage collection, namespaces, budgets, node taints and claims, on fake time with a dealing scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.embedded_harness import Cluster, pod, true_conditions, workload
from trireme_kube.embedded.api.api_errors import ApiError
from trireme_kube.embedded.api.resources import BY_KEY, PODS
from trireme_kube.embedded.controllers.tolerations import tolerated_seconds
from trireme_kube.embedded.kubelet.kubelets import (
    KUBELET_ANNOTATION,
    RUN_SECONDS_ANNOTATION,
    SLOWDOWN_ANNOTATION,
    KubeletPace,
)
from trireme_kube.embedded.registry.subresources import bind, evict

Object = dict[str, Any]
DEPLOYMENTS, REPLICA_SETS = "deployments.apps", "replicasets.apps"


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


def test_pods_that_are_not_restarted_end_and_others_run_on() -> None:
    """A batch workload must free its node, and `helm test` and `kubectl run --restart=Never` wait for an end."""
    cluster = Cluster(1)
    cluster.create("pods", pod("bare"))
    cluster.create("pods", pod("never", restartPolicy="Never"))
    cluster.create("pods", pod("on-failure", restartPolicy="OnFailure"))
    timed = pod("timed")
    timed["metadata"]["annotations"] = {RUN_SECONDS_ANNOTATION: "3"}
    cluster.create("pods", timed)
    cluster.run(30)
    assert cluster.get("pods", "bare")["status"]["phase"] == "Running"
    assert cluster.get("pods", "never")["status"]["phase"] == "Succeeded"
    assert cluster.get("pods", "on-failure")["status"]["phase"] == "Succeeded"
    assert cluster.get("pods", "timed")["status"]["phase"] == "Succeeded"


@pytest.mark.parametrize(("slowdown", "running"), [("0.5", "Running"), ("", "Succeeded"), ("much", "Succeeded")])
def test_a_pod_takes_longer_on_a_busy_node_if_it_says_so(slowdown: str, running: str) -> None:
    cluster = Cluster(1)
    for number in range(4):
        cluster.create("pods", pod(f"other-{number}"))
    cluster.run(2)
    timed = pod("timed")
    timed["metadata"]["annotations"] = {RUN_SECONDS_ANNOTATION: "4", SLOWDOWN_ANNOTATION: slowdown}
    cluster.create("pods", timed)
    cluster.run(8)
    assert cluster.get("pods", "timed")["status"]["phase"] == running
    cluster.run(6)
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
    """`kubectl cordon` sets a flag; the taint is what the scheduler's events speak of."""
    cluster = Cluster(1)
    cluster.edit("nodes", "node-0", change)
    cluster.settle()
    node = cluster.get("nodes", "node-0")
    assert {(one["key"], one["effect"]) for one in node["spec"].get("taints") or ()} == taints
    if "unschedulable" in change["spec"]:
        cluster.edit("nodes", "node-0", {"spec": {"unschedulable": None}})
        cluster.settle()
        assert not cluster.get("nodes", "node-0")["spec"].get("taints")


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


def test_a_dependent_without_an_owner_is_collected() -> None:
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


def with_budget(**spec: Any) -> Cluster:
    """A cluster of one node with a Deployment of four ready pods and a budget for them."""
    cluster = Cluster(1)
    cluster.create(DEPLOYMENTS, workload("web", 4))
    cluster.create("poddisruptionbudgets.policy", budget(**spec))
    cluster.run(4)
    return cluster


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
    cluster = with_budget(**spec)
    status = cluster.get("poddisruptionbudgets.policy", "b")["status"]
    assert (status["disruptionsAllowed"], status["desiredHealthy"]) == (allowed, desired)
    assert (status["currentHealthy"], status["expectedPods"]) == (4, 4)


def test_a_pod_without_a_workload_counts_as_one() -> None:
    """A share of the workloads' replicas alone would be too small."""
    cluster = with_budget(maxUnavailable=1)
    alone = pod("alone")
    alone["metadata"]["labels"] = {"app": "web"}
    cluster.create("pods", alone)
    cluster.run(4)
    status = cluster.get("poddisruptionbudgets.policy", "b")["status"]
    assert (status["expectedPods"], status["desiredHealthy"], status["currentHealthy"]) == (5, 4, 5)


def test_a_pod_whose_eviction_never_began_is_healthy_again_after_two_minutes() -> None:
    """The client that evicts it may die in between, and the budget would allow less until the pod is gone."""
    cluster = with_budget(minAvailable=3)
    kept, name = cluster.get("poddisruptionbudgets.policy", "b"), cluster.objects("pods")[0]["metadata"]["name"]
    status = {**kept["status"], "disruptedPods": {name: cluster.registry.clock_and_ids.now()}}
    cluster.store.put(BY_KEY["poddisruptionbudgets.policy"], {**kept, "status": status})
    cluster.run(110, step=10)
    assert cluster.get("poddisruptionbudgets.policy", "b")["status"]["currentHealthy"] == 3
    cluster.run(20, step=10)
    status = cluster.get("poddisruptionbudgets.policy", "b")["status"]
    assert (status["currentHealthy"], "disruptedPods" in status) == (4, False)


def test_eviction_respects_the_budget() -> None:
    """`kubectl drain` evicts one pod after the other; the second has to wait."""
    cluster = with_budget(minAvailable=3)
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


def test_evictions_that_nobody_confirms_are_limited() -> None:
    """A client that evicts thousands of pods meets this limit in a real cluster for the first time."""
    cluster = with_budget(minAvailable=1)
    name = cluster.objects("pods")[0]["metadata"]["name"]
    kept = cluster.get("poddisruptionbudgets.policy", "b")
    for count, refused in ((2001, True), (2000, False)):
        gone = {f"gone-{number}": "2026-01-01T00:00:00Z" for number in range(count)}
        status = {**kept["status"], "disruptedPods": gone}
        cluster.store.put(BY_KEY["poddisruptionbudgets.policy"], {**kept, "status": status})
        if refused:
            with pytest.raises(ApiError) as refusal:
                evict(cluster.registry, "default", name, {})
            assert (refusal.value.code, refusal.value.reason) == (403, "Forbidden")
            assert "DisruptedPods map too big" in str(refusal.value)
            assert "DisruptionTarget" not in true_conditions(cluster.get("pods", name))
        else:
            evict(cluster.registry, "default", name, {})


def test_an_eviction_of_another_pod_of_the_name_marks_nothing() -> None:
    cluster = with_budget(minAvailable=3)
    name = cluster.objects("pods")[0]["metadata"]["name"]
    for precondition in ({"uid": "another"}, {"resourceVersion": "1"}):
        with pytest.raises(ApiError) as refusal:
            evict(cluster.registry, "default", name, {"deleteOptions": {"preconditions": precondition}})
        assert refusal.value.code == 409
    assert "DisruptionTarget" not in true_conditions(cluster.get("pods", name))
    assert cluster.get("poddisruptionbudgets.policy", "b")["status"]["disruptionsAllowed"] == 1
    version = cluster.get("pods", name)["metadata"]["resourceVersion"]
    evict(cluster.registry, "default", name, {"deleteOptions": {"preconditions": {"resourceVersion": version}}})
    assert "DisruptionTarget" in true_conditions(cluster.get("pods", name))


# Taints that evict, and nodes that vanish


@pytest.mark.parametrize(
    ("tolerations", "seconds"),
    [
        ([], 0.0),
        ([{"key": "k", "operator": "Exists"}], None),
        ([{"key": "k", "operator": "Exists", "effect": "NoSchedule"}], 0.0),
        ([{"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": 7}], 7.0),
        ([{"key": "k", "operator": "Equal", "value": "other"}], 0.0),
        ([{"operator": "Exists"}, {"key": "k", "operator": "Exists", "tolerationSeconds": 3}], None),
        ([{"key": "k", "operator": "Exists", "tolerationSeconds": 3}, {"operator": "Exists"}], 3.0),
        ([{"operator": "Exists", "tolerationSeconds": -1}], 0.0),
    ],
)
def test_how_long_a_taint_is_tolerated(tolerations: list[Object], seconds: float | None) -> None:
    """The first toleration that covers the taint counts, as in the real controller, and no other."""
    assert tolerated_seconds(tolerations, [{"key": "k", "value": "v", "effect": "NoExecute"}]) == seconds


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


def test_a_removed_taint_evicts_nobody() -> None:
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
    cluster = Cluster(2, pace=KubeletPace(start=1, stop=1, orphan=5))
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


GROUPS = "podgroups.scheduling.k8s.io"


def claiming_group(*claims: Object) -> Object:
    policy = {"gang": {"minCount": 2}}
    return {"metadata": {"name": "g"}, "spec": {"schedulingPolicy": policy, "resourceClaims": list(claims)}}


def member(name: str) -> Object:
    out = claiming_pod(name)
    out["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    return out


def claims_of(cluster: Cluster, name: str) -> list[str]:
    statuses = cluster.get("pods", name).get("status", {}).get("resourceClaimStatuses", ())
    return [one["resourceClaimName"] for one in statuses]


def test_a_claim_of_a_group_is_made_once_for_all_of_its_pods() -> None:
    """A device for each pod is not what the group asks for; pods may come before their group."""
    cluster = Cluster(1, schedule=False)
    cluster.create(TEMPLATES, claim_template())
    cluster.create("pods", member("early"))
    cluster.settle()
    assert cluster.objects(CLAIMS) == []
    cluster.create(GROUPS, claiming_group({"name": "gpu", "resourceClaimTemplateName": "one-gpu"}))
    cluster.create("pods", member("late"))
    cluster.settle()
    (claim,) = cluster.objects(CLAIMS)
    (owner,) = claim["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"], owner["name"]) == ("scheduling.k8s.io/v1beta1", "PodGroup", "g")
    name = claim["metadata"]["name"]
    assert claims_of(cluster, "early") == claims_of(cluster, "late") == [name]
    assert cluster.get(GROUPS, "g")["status"]["resourceClaimStatuses"] == [{"name": "gpu", "resourceClaimName": name}]
    user = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": owner["uid"]}
    allocated = {"allocation": {"devices": {}}, "reservedFor": [user]}
    cluster.edit(CLAIMS, name, {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}})
    cluster.registry.edit_object(
        BY_KEY[CLAIMS], "default", name, lambda obj: {**obj, "status": allocated}, subresource="status"
    )
    cluster.settle()
    assert cluster.get(CLAIMS, name)["status"] == allocated, "it is used as long as the group is there"
    cluster.delete(GROUPS, "g")
    cluster.settle()
    assert cluster.objects(CLAIMS) == []


def test_a_deleted_claim_is_made_anew() -> None:
    cluster = Cluster(1, schedule=False)
    cluster.create(TEMPLATES, claim_template())
    cluster.create("pods", claiming_pod("alone"))
    cluster.create(GROUPS, claiming_group({"name": "gpu", "resourceClaimTemplateName": "one-gpu"}))
    cluster.create("pods", member("p"))
    cluster.settle()
    deleted = {claim["metadata"]["name"] for claim in cluster.objects(CLAIMS)}
    assert len(deleted) == 2
    for name in deleted:
        cluster.delete(CLAIMS, name)
    cluster.settle()
    made = {claim["metadata"]["name"] for claim in cluster.objects(CLAIMS)}
    assert len(made) == 2
    assert made.isdisjoint(deleted)
    assert {*claims_of(cluster, "alone"), *claims_of(cluster, "p")} == made


def test_what_the_group_does_not_state_is_made_for_each_pod() -> None:
    """A pod in a group may have devices of its own, also where the group came after it."""
    cluster = Cluster(1, schedule=False)
    cluster.create(TEMPLATES, claim_template())
    cluster.create("pods", member("p"))
    cluster.settle()
    cluster.create(GROUPS, claiming_group())
    cluster.create("pods", member("q"))
    cluster.settle()
    assert len({*claims_of(cluster, "p"), *claims_of(cluster, "q")}) == len(cluster.objects(CLAIMS)) == 2


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
    cluster.registry.edit_object(
        resource, "default", name, lambda obj: {**obj, "status": allocated}, subresource="status"
    )
    cluster.settle()
    assert cluster.get(CLAIMS, name)["status"] == allocated
    cluster.run(6)
    assert cluster.get("pods", "p")["status"]["phase"] == "Succeeded"
    assert cluster.objects(CLAIMS) == []


def test_the_claim_for_extended_resources_goes_when_its_pod_is_done() -> None:
    """Only the pod's status names it: else its devices stay taken until the pod object goes."""
    cluster = Cluster(1)
    timed = pod("p")
    timed["metadata"]["annotations"] = {RUN_SECONDS_ANNOTATION: "5"}
    cluster.create("pods", timed)
    cluster.run(2)
    uid = cluster.get("pods", "p")["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": True}
    metadata = {"name": "made", "finalizers": ["resource.kubernetes.io/delete-protection"], "ownerReferences": [owner]}
    cluster.create(CLAIMS, {"metadata": metadata, "spec": claim_template()["spec"]["spec"]})
    consumer = {"resource": "pods", "name": "p", "uid": uid}
    allocated = {"allocation": {"devices": {}}, "reservedFor": [consumer]}
    cluster.registry.edit_object(
        BY_KEY[CLAIMS], "default", "made", lambda obj: {**obj, "status": allocated}, subresource="status"
    )
    recorded = {"extendedResourceClaimStatus": {"resourceClaimName": "made", "requestMappings": []}}
    cluster.registry.edit_object(
        PODS, "default", "p", lambda obj: {**obj, "status": {**obj["status"], **recorded}}, subresource="status"
    )
    cluster.settle()
    assert cluster.get(CLAIMS, "made")["status"] == allocated
    cluster.run(6)
    assert cluster.get("pods", "p")["status"]["phase"] == "Succeeded"
    assert cluster.objects(CLAIMS) == []


def test_a_shared_claim_is_deallocated_and_not_deleted() -> None:
    """A claim that somebody made by hand outlives its consumers, free to be allocated elsewhere."""
    cluster = Cluster(1)
    shared = {
        "metadata": {"name": "shared", "finalizers": ["resource.kubernetes.io/delete-protection"]},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
    }
    cluster.create(CLAIMS, shared)
    consumer = {"resource": "pods", "name": "gone", "uid": "gone"}
    allocated = {"allocation": {"devices": {}}, "reservedFor": [consumer]}
    cluster.registry.edit_object(
        BY_KEY[CLAIMS], "default", "shared", lambda obj: {**obj, "status": allocated}, subresource="status"
    )
    cluster.settle()
    kept = cluster.get(CLAIMS, "shared")
    assert kept["status"] == {}
    assert "finalizers" not in kept["metadata"]
