"""Which writes a resource quota refuses, in the API server's words, and what it charges for those that it admits."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.embedded_harness import FakeTime, create, make_registry, pod
from trireme_kube.embedded.api.api_errors import ApiError
from trireme_kube.embedded.api.resources import BY_KEY, PODS
from trireme_kube.embedded.registry.quotas import pod_usage
from trireme_kube.embedded.registry.registry import Registry

Object = dict[str, Any]
QUOTAS = BY_KEY["resourcequotas"]
CLAIMS = BY_KEY["persistentvolumeclaims"]


@pytest.fixture
def registry() -> Registry:
    return make_registry()


def limit(registry: Registry, hard: Object, name: str = "q", used: Object | None = None, **spec: Any) -> None:
    """A quota whose controller has written its status: nothing is used yet, or as much as `used` says."""
    create(registry, "resourcequotas", {"metadata": {"name": name}, "spec": {"hard": hard, **spec}})
    quota = registry.get(QUOTAS, "default", name).object
    status = {"hard": quota["spec"]["hard"], "used": dict.fromkeys(hard, "0") if used is None else used}
    registry.update(QUOTAS, "default", name, {**quota, "status": status}, subresource="status")


def used(registry: Registry, name: str = "q") -> Object:
    found: Object = registry.get(QUOTAS, "default", name).object["status"]["used"]
    return found


def with_resources(name: str, requests: Object | None = None, limits: Object | None = None, **spec: Any) -> Object:
    resources = {"requests": requests or {}, "limits": limits or {}}
    return pod(name, containers=[{"name": "c", "image": "i", "resources": resources}], **spec)


def refusal(registry: Registry, body: Object, key: str = "pods") -> str:
    """The message of a refused creation, after the name of the object."""
    with pytest.raises(ApiError) as caught:
        create(registry, key, body)
    assert (caught.value.code, caught.value.reason) == (403, "Forbidden")
    return caught.value.message.partition(" is forbidden: ")[2]


def test_a_pod_over_the_limit_is_refused_with_what_it_lacks(registry: Registry) -> None:
    """Clients show the message, and tests search it for names and amounts."""
    limit(registry, {"cpu": "1", "requests.memory": "1Gi", "pods": "2"})
    create(registry, "pods", with_resources("a", {"cpu": "600m", "memory": "512Mi"}))
    assert used(registry) == {"cpu": "600m", "requests.memory": "512Mi", "pods": "1"}
    assert refusal(registry, with_resources("b", {"cpu": "0.5", "memory": "1025Mi"})) == (
        "exceeded quota: q, requested: cpu=500m,requests.memory=1025Mi, used: cpu=600m,requests.memory=512Mi, "
        "limited: cpu=1,requests.memory=1Gi"
    )
    create(registry, "pods", with_resources("c", {"cpu": "400m", "memory": "512Mi"}))
    assert used(registry) == {"cpu": "1", "requests.memory": "1Gi", "pods": "2"}
    assert refusal(registry, with_resources("d", {"cpu": "0", "memory": "0"})) == (
        "exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"
    )


def test_what_a_quota_limits_every_container_has_to_state(registry: Registry) -> None:
    """Kubernetes requires it of CPUs and memory alone."""
    limit(registry, {"requests.cpu": "1", "limits.memory": "1Gi", "requests.ephemeral-storage": "1Gi"})
    body = pod("p", initContainers=[{"name": "i", "image": "i"}])
    assert refusal(registry, body) == "failed quota: q: must specify limits.memory for: c,i; requests.cpu for: c,i"
    body["spec"]["resources"] = {"requests": {"cpu": "500m"}}  # of the pod as a whole
    create(registry, "pods", body)
    assert used(registry)["requests.cpu"] == "500m"


def test_without_a_status_a_quota_limits_nothing_or_is_unknown(registry: Registry) -> None:
    """Kubernetes decides by the status alone, so that a quota needs its controller."""
    create(registry, "resourcequotas", {"metadata": {"name": "new"}, "spec": {"hard": {"pods": "0"}}})
    create(registry, "pods", pod("p"))
    limit(registry, {"pods": "5", "count/pods": "5"}, used={"pods": "0"})
    assert refusal(registry, pod("r")) == "status unknown for quota: q, resources: count/pods,pods"


@pytest.mark.parametrize(
    ("scopes", "inside", "outside"),
    [
        (["Terminating"], pod("i", activeDeadlineSeconds=5), pod("o")),
        (["NotTerminating"], pod("i"), pod("o", activeDeadlineSeconds=5)),
        (["BestEffort"], pod("i"), with_resources("o", {"cpu": "1"})),
        (["NotBestEffort"], with_resources("i", {"cpu": "1"}), pod("o")),
        (["PriorityClass"], pod("i", priorityClassName="high"), pod("o")),
        (["BestEffort", "Terminating"], pod("i", activeDeadlineSeconds=5), pod("o")),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else "",
)
def test_a_scope_limits_its_pods_alone(registry: Registry, scopes: list[str], inside: Object, outside: Object) -> None:
    """A namespace's pods may have several quotas for several purposes."""
    create(registry, "priorityclasses.scheduling.k8s.io", {"metadata": {"name": "high"}, "value": 5})
    limit(registry, {"pods": "0"}, scopes=scopes)
    create(registry, "pods", outside)
    assert refusal(registry, inside) == "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0"


@pytest.mark.parametrize(
    ("operator", "values", "limited"),
    [
        ("In", ["high", "other"], {"high"}),
        ("NotIn", ["high"], {"low", "none"}),
        ("Exists", [], {"high", "low"}),
        ("DoesNotExist", [], {"none"}),
    ],
)
def test_a_quota_of_priority_classes(registry: Registry, operator: str, values: list[str], limited: set[str]) -> None:
    """As a label selector decides about the class, a pod without one included."""
    for number, name in enumerate(("high", "low")):
        create(registry, "priorityclasses.scheduling.k8s.io", {"metadata": {"name": name}, "value": number})
    requirement = {"scopeName": "PriorityClass", "operator": operator, "values": values}
    limit(registry, {"pods": "0"}, scopeSelector={"matchExpressions": [requirement]})
    for name in ("high", "low", "none"):
        body = pod(name, **({} if name == "none" else {"priorityClassName": name}))
        if name in limited:
            assert "exceeded quota" in refusal(registry, body)
        else:
            create(registry, "pods", body)


def test_pods_use_what_schedulers_reserve_for_them(registry: Registry) -> None:
    """The larger of init containers and others, sidecars with both, overhead, extended resources and huge pages."""
    resources = {"requests": {"cpu": "1"}, "limits": {"example.com/gpu": "2", "hugepages-2Mi": "4Mi", "memory": "1Gi"}}
    spec: Object = {
        "containers": [{"name": "c", "image": "i", "resources": resources}],
        "initContainers": [
            {"name": "s", "image": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}},
            {"name": "i", "image": "i", "resources": {"requests": {"cpu": "2"}}},
        ],
        "runtimeClassName": "kata",
    }
    overhead = {"podFixed": {"cpu": "50m", "memory": "1Mi"}}
    create(
        registry,
        "runtimeclasses.node.k8s.io",
        {"metadata": {"name": "kata"}, "handler": "kata", "overhead": overhead},
    )
    stored = create(registry, "pods", {"metadata": {"name": "p"}, "spec": spec})
    found = {name: str(amount) for name, amount in pod_usage.usage(stored, 0.0).items()}
    assert found == {
        "count/pods": "1",
        "pods": "1",
        "cpu": "2150m",
        "requests.cpu": "2150m",
        "memory": "1025Mi",
        "requests.memory": "1025Mi",
        "limits.memory": "1025Mi",
        "hugepages-2Mi": "4Mi",
        "requests.hugepages-2Mi": "4Mi",
        "requests.example.com/gpu": "2",
    }


@pytest.mark.parametrize(
    ("reason", "cpu"), [(None, "3"), ("Deferred", "3"), ("Infeasible", "2")], ids=["resizing", "deferred", "infeasible"]
)
def test_a_pod_that_is_resized_uses_the_larger_amount(reason: str | None, cpu: str) -> None:
    """Until the kubelet has done it, the pod may still have what it had."""
    status: Object = {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "2"}}]}
    if reason:
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
    resized = {**with_resources("p", {"cpu": "3"}), "status": status}
    assert str(pod_usage.usage(resized, 0.0)["cpu"]) == cpu


def test_pods_that_have_ended_use_no_more_than_their_place_in_the_store() -> None:
    """Finished Jobs count only as objects, not by their requests."""
    body = with_resources("p", {"cpu": "3"})
    for phase in ("Succeeded", "Failed"):
        assert list(pod_usage.usage({**body, "status": {"phase": phase}}, 0.0)) == ["count/pods"]


def test_a_pod_that_no_kubelet_ends_stops_counting(registry: Registry) -> None:
    """A workload has to get new pods though a node with old ones is lost."""
    body = with_resources("p", {"cpu": "3"})
    body["metadata"] |= {"deletionTimestamp": "1970-01-01T00:01:00Z", "deletionGracePeriodSeconds": 30}
    assert "pods" in pod_usage.usage(body, 90.0)
    assert "pods" not in pod_usage.usage(body, 90.1)


def test_a_refused_or_dry_write_is_not_charged(registry: Registry) -> None:
    """The second of two quotas may refuse, and a name may be in use."""
    limit(registry, {"pods": "3"}, "a")
    limit(registry, {"pods": "1"}, "b")
    registry.create(PODS, "default", pod("p"), dry_run=True)
    assert used(registry, "a") == {"pods": "0"}
    create(registry, "pods", pod("p"))
    refusal(registry, pod("r"))
    assert (used(registry, "a"), used(registry, "b")) == ({"pods": "1"}, {"pods": "1"})


def test_a_name_that_is_in_use_is_not_charged(registry: Registry) -> None:
    """A client that creates what is there would use up its quota."""
    limit(registry, {"pods": "3"})
    create(registry, "pods", pod("p"))
    with pytest.raises(ApiError, match="already exists"):
        create(registry, "pods", pod("p"))
    assert used(registry) == {"pods": "1"}


def claim(name: str, storage: str, storage_class: str = "gold") -> Object:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": storage}},
    }
    return {"metadata": {"name": name}, "spec": spec}


def test_claims_use_storage_of_their_class_and_more_when_they_grow(registry: Registry) -> None:
    """An expansion is an update."""
    of_gold = "gold.storageclass.storage.k8s.io/requests.storage"
    limit(registry, {"persistentvolumeclaims": "5", "requests.storage": "5Gi", of_gold: "4294967296"})
    create(registry, "persistentvolumeclaims", claim("a", "1Gi"))
    create(registry, "persistentvolumeclaims", claim("b", "2Gi", "silver"))
    assert used(registry) == {"persistentvolumeclaims": "2", "requests.storage": "3Gi", of_gold: "1Gi"}
    stored = registry.get(CLAIMS, "default", "a").object

    def grow(storage: str) -> None:
        spec = {**stored["spec"], "resources": {"requests": {"storage": storage}}}
        registry.edit_object(CLAIMS, "default", "a", lambda obj: {**obj, "spec": spec})

    with pytest.raises(ApiError, match=r"requested: requests.storage=3Gi, used: requests.storage=3Gi, limited: "):
        grow("4Gi")
    grow("3Gi")
    assert used(registry) == {"persistentvolumeclaims": "2", "requests.storage": "5Gi", of_gold: "3Gi"}


def test_services_and_other_objects_are_counted(registry: Registry) -> None:
    """Each kind by `count/` and its name, some by an older name, too."""
    limit(
        registry,
        {
            "services.nodeports": "3",
            "services.loadbalancers": "1",
            "count/deployments.apps": "0",
            "configmaps": "1",
            "count/configmaps": "5",
        },
    )
    ports = [{"name": "a", "port": 1}, {"name": "b", "port": 2}]
    for name in ("s", "t"):
        service = {"metadata": {"name": name}, "spec": {"type": "LoadBalancer", "ports": ports}}
        if name == "s":
            create(registry, "services", service)
    assert refusal(registry, service, "services") == (
        "exceeded quota: q, requested: services.loadbalancers=1,services.nodeports=2, "
        "used: services.loadbalancers=1,services.nodeports=2, limited: services.loadbalancers=1,services.nodeports=3"
    )
    create(registry, "configmaps", {"metadata": {"name": "a"}})
    assert (used(registry)["configmaps"], used(registry)["count/configmaps"]) == ("1", "1")
    assert "requested: configmaps=1, used: configmaps=1" in refusal(registry, {"metadata": {"name": "b"}}, "configmaps")
    labels = {"matchLabels": {"a": "b"}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    deployment = {"metadata": {"name": "d"}, "spec": {"selector": labels, "template": template}}
    assert "requested: count/deployments.apps=1" in refusal(registry, deployment, "deployments.apps")
    # Events are never counted, nor anything in another namespace.
    create(registry, "configmaps", {"metadata": {"name": "b", "namespace": "kube-node-lease"}}, "kube-node-lease")


def test_a_pod_may_not_move_into_a_full_scope(registry: Registry) -> None:
    """A deadline that is set later makes it Terminating."""
    limit(registry, {"pods": "0"}, scopes=["Terminating"])
    create(registry, "pods", pod("p"))

    def set_deadline(obj: Object) -> Object:
        return {**obj, "spec": {**obj["spec"], "activeDeadlineSeconds": 5}}

    with pytest.raises(ApiError, match="exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0"):
        registry.edit_object(PODS, "default", "p", set_deadline)


def test_time_passes_by_the_clusters_clock() -> None:
    """A simulation has a clock of its own."""
    time = FakeTime()
    registry = make_registry(time)
    create(registry, "pods", pod("p"))
    assert "pods" in pod_usage.usage(registry.get(PODS, "default", "p").object, time.clock())


# Validation


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        ({"hard": {"pods": "1", "requests.example.com/gpu": "1", "count/jobs.batch": "1", "hugepages-2Mi": "1Gi"}}, []),
        (
            {"hard": {"foo": "1"}},
            [
                'spec.hard[foo]: Invalid value: "foo": must be a standard resource type or fully qualified',
                'spec.hard[foo]: Invalid value: "foo": must be a standard resource for quota',
            ],
        ),
        (
            {"hard": {"storage": "1"}},
            ['spec.hard[storage]: Invalid value: "storage": must be a standard resource for quota'],
        ),
        ({"hard": {"pods": "-1"}}, ['spec.hard[pods]: Invalid value: "-1": must be greater than or equal to 0']),
        ({"hard": {"pods": "0.5"}}, ['spec.hard[pods]: Invalid value: "500m": must be an integer']),
        ({"hard": {"count/pods": "1.5"}}, ['spec.hard[count/pods]: Invalid value: "1500m": must be an integer']),
        ({"hard": {"pods": "1"}, "scopes": ["Foo"]}, ['spec.scopes: Invalid value: ["Foo"]: unsupported scope']),
        (
            {"hard": {"cpu": "1"}, "scopes": ["BestEffort"]},
            ['spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource'],
        ),
        (
            {"hard": {"pods": "1"}, "scopes": ["Terminating", "NotTerminating"]},
            ['spec.scopes: Invalid value: ["Terminating","NotTerminating"]: conflicting scopes'],
        ),
        (
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}},
            [
                "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when "
                "`operator` is 'In' or 'NotIn' for scope selector"
            ],
        ),
        (
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Is"}]}},
            ['spec.scopeSelector.matchExpressions.operator: Invalid value: "Is": not a valid selector operator'],
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_quota(registry: Registry, spec: Object, causes: list[str]) -> None:
    """A quota that is not what somebody meant limits nothing."""
    body = {"metadata": {"name": "q"}, "spec": spec}
    if not causes:
        create(registry, "resourcequotas", body)
        return
    with pytest.raises(ApiError) as caught:
        create(registry, "resourcequotas", body)
    details: Object = caught.value.details or {}
    assert [f"{one['field']}: {one['message']}" for one in details["causes"]] == causes


def test_the_scopes_of_a_quota_stay(registry: Registry) -> None:
    """What is used would have to be counted anew at once."""
    limit(registry, {"pods": "1"}, scopes=["BestEffort"])

    def without_scopes(obj: Object) -> Object:
        return {**obj, "spec": {"hard": obj["spec"]["hard"]}}

    with pytest.raises(ApiError, match=r"spec\.scopes: Invalid value: null: field is immutable"):
        registry.edit_object(QUOTAS, "default", "q", without_scopes)
