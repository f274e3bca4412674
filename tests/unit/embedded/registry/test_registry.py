"""Create, update, patch and delete as the API server does them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.embedded_harness import create, make_registry, pod
from trireme_kube.embedded.api.api_errors import ApiError
from trireme_kube.embedded.api.resources import BY_KEY, NAMESPACES, NODES, PODS
from trireme_kube.embedded.endpoints import patches
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.registry.subresources import bind
from trireme_kube.embedded.storage.store import DELETED, MODIFIED, Event

CONFIG_MAPS = BY_KEY["configmaps"]
LEASES = BY_KEY["leases.coordination.k8s.io"]
BUDGETS = BY_KEY["poddisruptionbudgets.policy"]


@pytest.fixture
def registry() -> Registry:
    return make_registry()


def refusal_of(action: Any, *arguments: Any, **options: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        action(*arguments, **options)
    return caught.value


def patch(registry: Registry, key: str, name: str, change: dict[str, Any], subresource: str = "") -> dict[str, Any]:
    resource = BY_KEY[key]
    namespace = "default" if resource.namespaced else ""

    def edit(obj: dict[str, Any]) -> dict[str, Any]:
        return patches.apply_strategic_patch(obj, change)

    return registry.edit_object(resource, namespace, name, edit, subresource=subresource).object


# Pods as created


def test_a_pod_gets_the_defaults_that_schedulers_rely_on(registry: Registry) -> None:
    """Each of these decides whether and how a pod is scheduled."""
    obj = create(registry, "pods", pod("p"))
    spec = obj["spec"]
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["restartPolicy"] == "Always"
    assert spec["terminationGracePeriodSeconds"] == 30
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert [(one["key"], one["tolerationSeconds"]) for one in spec["tolerations"]] == [
        ("node.kubernetes.io/not-ready", 300),
        ("node.kubernetes.io/unreachable", 300),
    ]
    assert obj["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert obj["metadata"]["generation"] == 1
    assert obj["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("resources", "qos"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1000m", "memory": "1024Mi"}}, "Guaranteed"),
        ({"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "1Gi"}}, "Burstable"),
        ({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}, "BestEffort"),
    ],
)
def test_quality_of_service(registry: Registry, resources: dict[str, Any], qos: str) -> None:
    """The class is shown and used by preemption of kubelets; limits alone count as requests."""
    body = pod("p", containers=[{"name": "c", "image": "i", "resources": resources}])
    assert create(registry, "pods", body)["status"]["qosClass"] == qos


def test_limits_become_requests(registry: Registry) -> None:
    """NodeResourcesFit looks at requests alone."""
    body = pod("p", containers=[{"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}}])
    assert create(registry, "pods", body)["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2"}


def test_a_gated_pod_has_the_condition_scheduling_gated(registry: Registry) -> None:
    """The condition comes from the API server, not from the scheduler."""
    obj = create(registry, "pods", pod("p", schedulingGates=[{"name": "g"}]))
    (condition,) = obj["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")


def test_priority_comes_from_the_class(registry: Registry) -> None:
    """Without it preemption has nothing to go by."""
    create(registry, "priorityclasses.scheduling.k8s.io", {"metadata": {"name": "high"}, "value": 100})
    create(
        registry,
        "priorityclasses.scheduling.k8s.io",
        {"metadata": {"name": "usual"}, "value": 5, "globalDefault": True, "preemptionPolicy": "Never"},
    )
    named = create(registry, "pods", pod("a", priorityClassName="high"))["spec"]
    unnamed = create(registry, "pods", pod("b"))["spec"]
    assert (named["priority"], named["preemptionPolicy"]) == (100, "PreemptLowerPriority")
    assert (unnamed["priorityClassName"], unnamed["priority"], unnamed["preemptionPolicy"]) == ("usual", 5, "Never")


def test_match_label_keys_join_the_selector(registry: Registry) -> None:
    """PodTopologySpread and InterPodAffinity see only the merged selector."""
    body = pod(
        "p",
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "x"}},
                "matchLabelKeys": ["version", "absent"],
            }
        ],
    )
    body["metadata"]["labels"] = {"app": "x", "version": "3"}
    (constraint,) = create(registry, "pods", body)["spec"]["topologySpreadConstraints"]
    assert constraint["labelSelector"]["matchExpressions"] == [{"key": "version", "operator": "In", "values": ["3"]}]


def test_every_pod_has_a_token_volume_of_its_own(registry: Registry) -> None:
    """Real pods of one template differ in that volume's name: classes of pods must not be told apart by it."""
    names = [create(registry, "pods", pod())["spec"]["volumes"][0]["name"] for _ in range(2)]
    assert all(name.startswith("kube-api-access-") for name in names)
    assert names[0] != names[1]


def test_a_runtime_class_adds_overhead_and_scheduling(registry: Registry) -> None:
    """The pod gets what its class says, and may not contradict it."""
    toleration = {"key": "kata", "operator": "Exists", "effect": "NoSchedule"}
    body: dict[str, Any] = {"metadata": {"name": "kata"}, "handler": "kata", "overhead": {"podFixed": {"cpu": "250m"}}}
    body["scheduling"] = {"nodeSelector": {"kata": "yes"}, "tolerations": [toleration]}
    create(registry, "runtimeclasses.node.k8s.io", body)
    spec = create(registry, "pods", pod("a", runtimeClassName="kata"))["spec"]
    assert (spec["overhead"], spec["nodeSelector"]) == ({"cpu": "250m"}, {"kata": "yes"})
    assert toleration in spec["tolerations"]
    contrary = pod("b", runtimeClassName="kata", nodeSelector={"kata": "no"})
    assert refusal_of(create, registry, "pods", contrary).message == (
        'pods "b" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[kata] = yes; '
        "pod.spec.nodeSelector[kata] = no"
    )


def test_overhead_is_that_of_the_runtime_class(registry: Registry) -> None:
    body: dict[str, Any] = {"metadata": {"name": "kata"}, "handler": "kata", "overhead": {"podFixed": {"cpu": "250m"}}}
    create(registry, "runtimeclasses.node.k8s.io", body)
    same = pod("a", runtimeClassName="kata", overhead={"cpu": "0.25"})
    assert create(registry, "pods", same)["spec"]["overhead"] == {"cpu": "250m"}
    other = pod("b", runtimeClassName="kata", overhead={"cpu": "1"})
    why = "Pod's Overhead doesn't match RuntimeClass's defined Overhead"
    assert refusal_of(create, registry, "pods", other).message.endswith(f"pod rejected: {why}")
    none = pod("c", overhead={"cpu": "1"})
    why = "Pod Overhead set without corresponding RuntimeClass defined Overhead"
    assert refusal_of(create, registry, "pods", none).message.endswith(f"pod rejected: {why}")


@pytest.mark.parametrize(
    ("limits", "requests", "expected", "qos"),
    [
        pytest.param({"cpu": "2", "memory": "1Gi"}, {"cpu": "500m"}, {"cpu": "500m", "memory": "1Gi"}, "Burstable"),
        pytest.param({"cpu": "2", "memory": "1Gi"}, {}, {"cpu": "2", "memory": "1Gi"}, "Guaranteed"),
    ],
    ids=["containers-request", "limits-alone"],
)
def test_requests_at_pod_level_are_those_of_the_containers_or_the_limits(
    registry: Registry, limits: dict[str, str], requests: dict[str, str], expected: dict[str, str], qos: str
) -> None:
    containers = [{"name": "c", "image": "i", "resources": {"requests": requests}}]
    made = create(registry, "pods", pod("a", resources={"limits": limits}, containers=containers))
    assert made["spec"]["resources"] == {"limits": limits, "requests": expected}
    assert made["status"]["qosClass"] == qos


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (
            {"key": "a", "operator": "In"},
            "values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        ),
        (
            {"key": "a", "operator": "Exists", "values": ["b"]},
            "values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ),
        (
            {"key": "a", "operator": "Gt", "values": ["1", "2"]},
            "values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'",
        ),
        ({"key": "a", "operator": "Near"}, 'operator: Invalid value: "Near": not a valid selector operator'),
    ],
    ids=["no-values", "values", "two-values", "unknown"],
)
def test_expressions_of_node_affinity_are_checked(registry: Registry, expression: dict[str, Any], text: str) -> None:
    terms = [{"matchExpressions": [expression]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    refused = refusal_of(create, registry, "pods", pod("a", affinity={"nodeAffinity": required}))
    assert refused.code == 422
    assert f"nodeSelectorTerms[0].matchExpressions[0].{text}" in refused.message


def test_admin_access_needs_the_label_of_the_namespace(registry: Registry) -> None:
    """Claims with admin access are for namespaces that are labelled for it."""
    key, exactly = "resourceclaims.resource.k8s.io", {"deviceClassName": "gpu", "adminAccess": True}
    body = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}
    assert refusal_of(create, registry, key, body).message.endswith(
        "spec.devices.requests[0].adminAccess: Forbidden: admin access to devices requires the "
        "`resource.kubernetes.io/admin-access: true` label on the containing namespace"
    )
    patch(registry, "namespaces", "default", {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}})
    assert create(registry, key, body)["metadata"]["name"] == "c"


# Refusals


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        pytest.param(
            {"metadata": {"name": "p"}, "spec": {}}, 422, "spec.containers: Required value", id="no containers"
        ),
        pytest.param(pod("Bad_Name"), 422, "lowercase RFC 1123 subdomain", id="bad name"),
        pytest.param({"spec": {}}, 422, "metadata.name: Required value: name or generateName", id="no name"),
        pytest.param(
            pod("p", runtimeClassName="no"),
            403,
            'pods "p" is forbidden: pod rejected: RuntimeClass "no" not found',
            id="runtime class",
        ),
        pytest.param(pod("p", priorityClassName="nope"), 403, "no PriorityClass with name nope was found", id="class"),
        pytest.param(pod("p", priority=7), 403, "the integer value of priority", id="priority given"),
        pytest.param(pod("p", serviceAccountName="x"), 403, "error looking up service account default/x", id="account"),
        pytest.param(pod("p", namespace="other"), 400, "does not match the namespace", id="other namespace"),
        pytest.param(
            pod("p", containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": "x"}}}]),
            400,
            "quantities must match",
            id="bad quantity",
        ),
        pytest.param(
            pod("p", containers=[{"name": "c", "image": "i", "resources": {"requests": {"cpu": "-1"}}}]),
            422,
            "must be greater than or equal to 0",
            id="negative quantity",
        ),
        pytest.param(
            pod("p", nodeName="n", schedulingGates=[{"name": "g"}]), 422, "schedulingGates", id="gated but assigned"
        ),
    ],
)
def test_pods_that_are_refused(registry: Registry, body: dict[str, Any], code: int, text: str) -> None:
    """What the real server refuses must not reach the scheduler here either."""
    refusal = refusal_of(create, registry, "pods", body)
    assert refusal.code == code
    assert text in refusal.message
    assert registry.store.scan(PODS) == []


def test_creating_twice(registry: Registry) -> None:
    """Clients tell "exists already" from other conflicts by the reason."""
    create(registry, "pods", pod("p"))
    refusal = refusal_of(create, registry, "pods", pod("p"))
    assert (refusal.code, refusal.reason, refusal.message) == (409, "AlreadyExists", 'pods "p" already exists')


def test_content_for_a_namespace_that_is_missing_or_ending(registry: Registry) -> None:
    """Pods of an ending namespace would keep it from ending."""
    assert refusal_of(create, registry, "pods", pod("p", namespace="no"), "no").code == 404
    registry.create(NAMESPACES, "", {"metadata": {"name": "ending"}})
    registry.delete(NAMESPACES, "", "ending")
    refusal = refusal_of(create, registry, "pods", pod("p", namespace="ending"), "ending")
    assert refusal.code == 403
    assert refusal.details is not None
    assert refusal.details["causes"][0]["reason"] == "NamespaceTerminating"


def test_dry_run_stores_nothing(registry: Registry) -> None:
    """`kubectl --dry-run=server` must show the object and leave no trace."""
    record = registry.create(PODS, "default", pod("p"), dry_run=True)
    assert record.object["spec"]["schedulerName"] == "default-scheduler"
    assert registry.store.scan(PODS) == []


# Updates


def test_optimistic_concurrency(registry: Registry) -> None:
    """A Lease taken over by two holders at once would make two leaders."""
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}
    first, made = registry.update(LEASES, "default", "l", dict(lease))
    assert made
    version = first.object["metadata"]["resourceVersion"]
    again = {"metadata": {"name": "l", "resourceVersion": version}, "spec": {"holderIdentity": "b"}}
    registry.update(LEASES, "default", "l", again)
    refusal = refusal_of(registry.update, LEASES, "default", "l", again)
    assert (refusal.code, refusal.reason) == (409, "Conflict")
    assert refusal.message.endswith("please apply your changes to the latest version and try again")


def test_resources_that_need_a_version(registry: Registry) -> None:
    """An unconditional write to a Lease would win every election."""
    registry.update(LEASES, "default", "l", {"metadata": {"name": "l"}, "spec": {}})
    refusal = refusal_of(registry.update, LEASES, "default", "l", {"metadata": {"name": "l"}, "spec": {}})
    assert (refusal.code, refusal.reason) == (422, "Invalid")


def test_a_write_that_changes_nothing_is_none(registry: Registry) -> None:
    """Controllers write what they see; were that events, they would wake themselves forever."""
    before = create(registry, "pods", pod("p"))
    after = patch(registry, "pods", "p", {"metadata": {"labels": None}})
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


def test_another_uid_is_another_object(registry: Registry) -> None:
    """A client that still means a pod deleted and made anew must not change the new one."""
    create(registry, "configmaps", {"metadata": {"name": "c"}})
    stale = {"metadata": {"name": "c", "uid": "stale"}}
    assert refusal_of(registry.update, CONFIG_MAPS, "default", "c", stale).code == 409
    assert refusal_of(patch, registry, "configmaps", "c", {"metadata": {"uid": "stale"}}).code == 422


def test_generation_counts_changes_of_the_spec_alone(registry: Registry) -> None:
    """Rollout status waits for observedGeneration to reach it."""
    create(registry, "pods", pod("p"))
    labelled = patch(registry, "pods", "p", {"metadata": {"labels": {"a": "b"}}})
    reported = patch(registry, "pods", "p", {"status": {"phase": "Running"}}, "status")
    changed = patch(registry, "pods", "p", {"spec": {"containers": [{"name": "c", "image": "new"}]}})
    assert [one["metadata"]["generation"] for one in (labelled, reported, changed)] == [1, 1, 2]


def test_spec_and_status_are_updated_separately(registry: Registry) -> None:
    """A user's edit must not undo what the kubelet reported, nor the other way round."""
    create(registry, "pods", pod("p"))
    patch(registry, "pods", "p", {"status": {"phase": "Running"}, "spec": {"schedulerName": "x"}}, "status")
    obj = patch(registry, "pods", "p", {"status": {"phase": "Failed"}, "metadata": {"labels": {"a": "b"}}})
    assert obj["status"]["phase"] == "Running"
    assert obj["spec"]["schedulerName"] == "default-scheduler"
    assert obj["status"]["qosClass"] == "BestEffort"


@pytest.mark.parametrize(
    ("change", "allowed"),
    [
        ({"spec": {"nodeName": "n"}}, False),
        ({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}, False),
        ({"spec": {"nodeSelector": {"a": "b"}}}, False),
        ({"spec": {"containers": [{"name": "c", "image": "other"}]}}, True),
        ({"spec": {"schedulingGates": [{"name": "g"}]}}, False),
        ({"metadata": {"annotations": {"a": "b"}}}, True),
    ],
)
def test_mutable_fields_of_a_pod(registry: Registry, change: dict[str, Any], allowed: bool) -> None:
    """The scheduler's cache relies on requests, selectors and the assigned node staying as they are."""
    create(registry, "pods", pod("p"))
    if allowed:
        patch(registry, "pods", "p", change)
    else:
        assert refusal_of(patch, registry, "pods", "p", change).code == 422


def test_a_gated_pod_may_be_steered(registry: Registry) -> None:
    """Controllers set node selectors while the gate is closed, then open it."""
    create(registry, "pods", pod("p", schedulingGates=[{"name": "g"}]))
    patch(registry, "pods", "p", {"spec": {"nodeSelector": {"a": "b"}}})
    obj = patch(registry, "pods", "p", {"spec": {"schedulingGates": None}})
    assert "schedulingGates" not in obj["spec"]
    assert obj["spec"]["nodeSelector"] == {"a": "b"}


# Deletion


def heard_from(registry: Registry) -> list[Event]:
    heard: list[Event] = []
    registry.store.listen(PODS, heard.append)
    return heard


def test_a_pod_without_a_node_goes_at_once_but_is_marked_first(registry: Registry) -> None:
    """The scheduler gets both events, and must drop the pod at the first."""
    create(registry, "pods", pod("p"))
    heard = heard_from(registry)
    _, gone = registry.delete(PODS, "default", "p")
    assert gone
    assert [event.type for event in heard] == [MODIFIED, DELETED]
    assert all("deletionTimestamp" in event.record.object["metadata"] for event in heard)


def test_a_pod_on_a_node_gets_its_grace_period(registry: Registry) -> None:
    """Until the kubelet confirms, its resources are still taken."""
    create(registry, "nodes", {"metadata": {"name": "n"}})
    create(registry, "pods", pod("p", terminationGracePeriodSeconds=60))
    bind(registry, "default", "p", {"target": {"name": "n"}})
    record, gone = registry.delete(PODS, "default", "p")
    assert not gone
    assert record.object["metadata"]["deletionTimestamp"] == "2026-01-01T00:01:00Z"
    shorter, _ = registry.delete(PODS, "default", "p", {"gracePeriodSeconds": 5})
    assert shorter.object["metadata"]["deletionGracePeriodSeconds"] == 5
    longer, _ = registry.delete(PODS, "default", "p", {"gracePeriodSeconds": 50})
    assert longer.object["metadata"]["deletionGracePeriodSeconds"] == 5
    assert registry.delete(PODS, "default", "p", {"gracePeriodSeconds": 0})[1]
    assert registry.store.get(PODS, "default", "p") is None


def test_finalizers_hold_an_object(registry: Registry) -> None:
    """A claim in use must not vanish under the pod that uses it."""
    create(registry, "configmaps", {"metadata": {"name": "c", "finalizers": ["x.y/z"]}})
    _, gone = registry.delete(CONFIG_MAPS, "default", "c")
    assert not gone
    assert (
        refusal_of(patch, registry, "configmaps", "c", {"metadata": {"finalizers": ["x.y/z", "late/one"]}}).code == 422
    )
    patch(registry, "configmaps", "c", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.y/z"]}})
    assert registry.store.get(CONFIG_MAPS, "default", "c") is None


@pytest.mark.parametrize("precondition", [{"uid": "other"}, {"resourceVersion": "1"}])
def test_deletion_preconditions(registry: Registry, precondition: dict[str, str]) -> None:
    """Preemption deletes the victim that it saw, not one of the same name created since."""
    create(registry, "pods", pod("p"))
    refusal = refusal_of(registry.delete, PODS, "default", "p", {"preconditions": precondition})
    assert (refusal.code, refusal.reason) == (409, "Conflict")
    assert registry.store.get(PODS, "default", "p") is not None


# Binding


def test_binding_assigns_the_pod(registry: Registry) -> None:
    """What the scheduler, kubelets and users see of a successful binding."""
    zone = {"topology.kubernetes.io/zone": "z1"}
    create(registry, "nodes", {"metadata": {"name": "n", "labels": zone}})
    create(registry, "pods", pod("p"))
    patch(registry, "pods", "p", {"status": {"nominatedNodeName": "n"}}, "status")
    bind(registry, "default", "p", {"metadata": {"name": "p", "annotations": {"a": "b"}}, "target": {"name": "n"}})
    obj = registry.get(PODS, "default", "p").object
    assert obj["spec"]["nodeName"] == "n"
    assert "nominatedNodeName" not in obj["status"]
    assert [(one["type"], one["status"]) for one in obj["status"]["conditions"]] == [("PodScheduled", "True")]
    assert obj["metadata"]["annotations"] == {"a": "b"}
    assert obj["metadata"]["labels"] == zone
    assert obj["metadata"]["generation"] == 1


def test_binding_twice_is_refused(registry: Registry) -> None:
    """The bind service resolves a lost reply by this answer's text."""
    create(registry, "pods", pod("p"))
    bind(registry, "default", "p", {"target": {"name": "n"}})
    refusal = refusal_of(bind, registry, "default", "p", {"target": {"name": "m"}})
    assert refusal.code == 409
    assert refusal.message == (
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n"'
    )


def test_binding_what_is_gated_going_or_another_pod(registry: Registry) -> None:
    """None of these may end up on a node."""
    create(registry, "pods", pod("gated", schedulingGates=[{"name": "g"}]))
    create(registry, "pods", pod("p"))
    target = {"target": {"kind": "Node", "name": "n"}}
    assert "non-empty .spec.schedulingGates" in refusal_of(bind, registry, "default", "gated", target).message
    other = {"metadata": {"name": "p", "uid": "other"}, **target}
    assert refusal_of(bind, registry, "default", "p", other).code == 409
    assert refusal_of(bind, registry, "default", "nope", target).code == 404
    patch(registry, "pods", "p", {"metadata": {"finalizers": ["x.y/z"]}})
    registry.delete(PODS, "default", "p")
    assert "is being deleted" in refusal_of(bind, registry, "default", "p", target).message


def test_a_new_node_is_tainted_until_it_reports(registry: Registry) -> None:
    """Pods must not land on a node that is not up yet."""
    obj = create(registry, "nodes", {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": 4}}})
    assert obj["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
    assert obj["status"]["allocatable"] == {"cpu": "4"}
    assert registry.get(NODES, "", "n").object is obj
