"""The resize of a pod: which amounts of its containers may change, and that nothing else does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.embedded_harness import create, make_registry, pod
from trireme_kube.embedded.api.api_errors import ApiError
from trireme_kube.embedded.api.resources import BY_KEY, PODS
from trireme_kube.embedded.registry.registry import Registry

Object = dict[str, Any]
QUOTAS = BY_KEY["resourcequotas"]


@pytest.fixture
def registry() -> Registry:
    registry = make_registry()
    sidecar = {"name": "s", "image": "i", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}
    create(registry, "pods", pod("p", containers=[container("c", cpu="1")], initContainers=[sidecar]))
    return registry


def container(name: str, limits: Object | None = None, **requests: str) -> Object:
    resources = {"requests": requests, **({"limits": limits} if limits else {})}
    return {"name": name, "image": "i", "resources": resources}


def resize(registry: Registry, *containers: Object, **spec: Any) -> Object:
    def edit(obj: Object) -> Object:
        return {**obj, "spec": {**obj["spec"], "containers": list(containers), **spec}}

    return registry.edit_object(PODS, "default", "p", edit, subresource="resize").object


def causes(registry: Registry, *containers: Object) -> list[str]:
    """What is wrong with a resize."""
    with pytest.raises(ApiError) as caught:
        resize(registry, *containers)
    assert caught.value.code == 422
    details: Object = caught.value.details or {}
    return [f"{one['field']}: {one['message']}" for one in details["causes"]]


def test_a_resize_changes_amounts_alone(registry: Registry) -> None:
    """The permission to resize a pod must not allow to exchange its image."""
    before = registry.get(PODS, "default", "p").object
    other = {**container("c", {"memory": "1Gi"}, cpu="2"), "image": "other"}
    after = resize(registry, other, terminationGracePeriodSeconds=1)
    assert after["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "2", "memory": "1Gi"},
        "limits": {"memory": "1Gi"},
    }
    assert after["spec"]["containers"][0]["image"] == "i"
    assert after["spec"]["terminationGracePeriodSeconds"] == before["spec"]["terminationGracePeriodSeconds"]
    assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([container("c")], ["spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"]),
        (
            [container("c", {"example.com/gpu": "1"}, cpu="1")],
            ["spec: Forbidden: only cpu and memory resources are mutable"],
        ),
        (
            [container("d", cpu="1")],
            ["spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize"],
        ),
        (
            [container("c", cpu="1"), container("d", cpu="1")],
            ["spec.containers: Forbidden: containers may not be added or removed on resize"],
        ),
    ],
    ids=["removed", "other resource", "renamed", "added"],
)
def test_what_a_resize_does_not_allow(registry: Registry, containers: list[Object], expected: list[str]) -> None:
    """All in the API server's words."""
    assert causes(registry, *containers) == expected


def test_a_resize_does_not_change_the_quality_of_service(registry: Registry) -> None:
    """Kubelets decide by it whom to evict, from the beginning."""
    create(registry, "pods", pod("q"))

    def edit(obj: Object) -> Object:
        return {**obj, "spec": {**obj["spec"], "containers": [container("c", cpu="1")]}}

    with pytest.raises(ApiError, match='Invalid value: "BestEffort": Pod QOS Class may not change'):
        registry.edit_object(PODS, "default", "q", edit, subresource="resize")


def test_a_kubelet_that_reports_no_amounts_cannot_resize(registry: Registry) -> None:
    """The simulated ones report none."""
    running: Object = {"name": "c", "state": {"running": {}}}
    write_statuses(registry, running)
    expected = ["spec: Forbidden: Pod running on node without support for resize"]
    assert causes(registry, container("c", cpu="2")) == expected
    write_statuses(registry, {**running, "resources": {}})
    resize(registry, container("c", cpu="2"))


def write_statuses(registry: Registry, *statuses: Object) -> None:
    """As a kubelet."""
    pod = registry.get(PODS, "default", "p").object
    status = {**pod["status"], "containerStatuses": list(statuses)}
    registry.update(PODS, "default", "p", {**pod, "status": status}, subresource="status")


def test_a_resize_uses_more_of_a_quota_or_is_refused(registry: Registry) -> None:
    create(registry, "resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"cpu": "2"}}})
    quota = registry.get(QUOTAS, "default", "q").object
    status = {"hard": {"cpu": "2"}, "used": {"cpu": "1100m"}}
    registry.update(QUOTAS, "default", "q", {**quota, "status": status}, subresource="status")
    with pytest.raises(ApiError, match="exceeded quota: q, requested: cpu=1, used: cpu=1100m, limited: cpu=2"):
        resize(registry, container("c", cpu="2"))
    resize(registry, container("c", cpu="1500m"))
    assert registry.get(QUOTAS, "default", "q").object["status"]["used"] == {"cpu": "1600m"}
