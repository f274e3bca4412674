"""EndpointSlices and Endpoints: the addresses of the pods that a Service selects."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.embedded_harness import Cluster, Object, pod, workload
from trireme_kube.embedded.controllers import endpoint_subsets

SLICES = "endpointslices.discovery.k8s.io"


def service(name: str = "web", **spec: Any) -> Object:
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    return {"metadata": {"name": name}, "spec": {"selector": {"app": "web"}, "ports": ports, **spec}}


def slices(cluster: Cluster, name: str = "web") -> list[Object]:
    labels = [(one, one["metadata"]["labels"]) for one in cluster.objects(SLICES)]
    return [one for one, own in labels if own["kubernetes.io/service-name"] == name]


def addresses(found: list[Object]) -> set[str]:
    return {endpoint["addresses"][0] for one in found for endpoint in one["endpoints"]}


def test_a_service_has_the_addresses_of_its_pods() -> None:
    """Ingress controllers and service meshes look nowhere else."""
    cluster = Cluster(2)
    uid = cluster.create("services", service())["metadata"]["uid"]
    cluster.create("deployments.apps", workload("web", 3))
    cluster.run(5)
    (found,) = slices(cluster)
    pods = {one["status"]["podIP"]: one for one in cluster.objects("pods")}
    assert addresses([found]) == set(pods)
    endpoint = found["endpoints"][0]
    named = pods[endpoint["addresses"][0]]
    assert endpoint["conditions"] == {"ready": True, "serving": True, "terminating": False}
    assert endpoint["targetRef"]["uid"] == named["metadata"]["uid"]
    assert endpoint["nodeName"] == named["spec"]["nodeName"]
    assert endpoint["zone"].startswith("zone-")
    assert found["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    metadata = found["metadata"]
    assert metadata["labels"]["endpointslice.kubernetes.io/managed-by"] == "endpointslice-controller.k8s.io"
    assert metadata["ownerReferences"][0]["uid"] == uid
    (subset,) = cluster.get("endpoints", "web")["subsets"]
    assert {one["ip"] for one in subset["addresses"]} == set(pods)


def test_pods_come_and_go() -> None:
    """Scaled down, relabelled, finished: a pod that is no backend is no address."""
    cluster = Cluster(2)
    cluster.create("services", service())
    cluster.create("deployments.apps", workload("web", 3))
    cluster.run(5)
    cluster.edit("deployments.apps", "web", {"spec": {"replicas": 1}})
    cluster.run(5)
    (left,) = cluster.objects("pods")
    assert addresses(slices(cluster)) == {left["status"]["podIP"]}
    cluster.edit("pods", left["metadata"]["name"], {"metadata": {"labels": {"app": "debug"}}})
    cluster.run(5)
    assert left["status"]["podIP"] not in addresses(slices(cluster))
    cluster.delete("deployments.apps", "web")
    cluster.run(5)
    assert addresses(slices(cluster)) == set()
    assert "subsets" not in cluster.get("endpoints", "web")


def test_a_terminating_pod_is_a_terminating_endpoint() -> None:
    """Proxies drain it."""
    cluster = Cluster(1)
    cluster.create("services", service())
    body = pod("a")
    body["metadata"] |= {"labels": {"app": "web"}, "finalizers": ["example.com/wait"]}
    cluster.create("pods", body)
    cluster.run(3)
    cluster.delete("pods", "a")
    cluster.run(0.5)
    (endpoint,) = slices(cluster)[0]["endpoints"]
    assert endpoint["conditions"] == {"ready": False, "serving": True, "terminating": True}
    assert "subsets" not in cluster.get("endpoints", "web")


def test_many_pods_are_many_slices() -> None:
    """A hundred endpoints each, as with the real controller."""
    cluster = Cluster(3)
    cluster.create("services", service())
    cluster.create("deployments.apps", workload("web", 230))
    cluster.run(10)
    sizes = sorted(len(one["endpoints"]) for one in slices(cluster))
    assert sizes == [30, 100, 100]
    assert len(addresses(slices(cluster))) == 230
    cluster.edit("deployments.apps", "web", {"spec": {"replicas": 10}})
    cluster.run(10)
    assert [len(one["endpoints"]) for one in slices(cluster)] == [10]


def test_named_ports_are_looked_up_in_the_pod() -> None:
    """Two versions of a pod may have another number for the same name."""
    cluster = Cluster(1)
    cluster.create("services", service(ports=[{"port": 80, "targetPort": "web"}]))
    for name, number in (("a", 8080), ("b", 9090)):
        body = pod(name)
        body["metadata"]["labels"] = {"app": "web"}
        body["spec"]["containers"][0]["ports"] = [{"name": "web", "containerPort": number}]
        cluster.create("pods", body)
    cluster.run(5)
    assert sorted(one["ports"][0]["port"] for one in slices(cluster)) == [8080, 9090]
    assert all(len(one["endpoints"]) == 1 for one in slices(cluster))


def test_endpoints_of_a_service_without_a_selector_are_left_alone() -> None:
    """A slice made by hand stays as it is."""
    cluster = Cluster(1)
    cluster.create("services", service(selector=None))
    own = {"addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.7"]}], "ports": []}
    cluster.create(SLICES, {"metadata": {"name": "own", "labels": {"kubernetes.io/service-name": "web"}}, **own})
    cluster.run(5)
    assert addresses(slices(cluster)) == {"192.0.2.7"}


def test_a_slice_that_is_deleted_comes_back_and_all_go_with_the_service() -> None:
    """Nothing points at a Service that is gone."""
    cluster = Cluster(1)
    cluster.create("services", service())
    cluster.create("deployments.apps", workload("web", 1))
    cluster.run(5)
    cluster.delete(SLICES, slices(cluster)[0]["metadata"]["name"])
    cluster.run(1)
    assert len(addresses(slices(cluster))) == 1
    cluster.delete("services", "web")
    cluster.run(2)
    assert slices(cluster) == []
    assert cluster.objects("endpoints") == []


def test_a_service_may_publish_pods_that_are_not_ready_until_they_are_gone() -> None:
    """Peers of a StatefulSet find each other by it while they start and stop."""
    cluster = Cluster(1)
    cluster.create("services", service(publishNotReadyAddresses=True))
    body = pod("a")
    body["metadata"] |= {"labels": {"app": "web"}, "finalizers": ["example.com/wait"]}
    cluster.create("pods", body)
    cluster.run(3)
    cluster.delete("pods", "a")
    cluster.run(0.5)
    (subset,) = cluster.get("endpoints", "web")["subsets"]
    assert [one["targetRef"]["name"] for one in subset["addresses"]] == ["a"]


def test_pods_that_serve_none_of_the_ports_are_in_no_subset() -> None:
    cluster = Cluster(1)
    cluster.create("services", service(ports=[{"port": 80, "targetPort": "web"}]))
    cluster.create("deployments.apps", workload("web", 1))
    cluster.run(5)
    assert "subsets" not in cluster.get("endpoints", "web")


def test_a_headless_service_without_ports_has_a_subset_without_ports() -> None:
    """DNS needs the addresses alone."""
    cluster = Cluster(1)
    cluster.create("services", service(ports=None, clusterIP="None"))
    cluster.create("deployments.apps", workload("web", 2))
    cluster.run(5)
    (subset,) = cluster.get("endpoints", "web")["subsets"]
    assert len(subset["addresses"]) == 2
    assert "ports" not in subset


def test_ports_that_different_pods_serve_are_in_different_subsets() -> None:
    """As kube-controller-manager packs them: each port with all pods that serve it."""
    named = [{"name": "web", "port": 80, "targetPort": "web"}, {"name": "admin", "port": 81, "targetPort": "admin"}]
    cluster = Cluster(1)
    cluster.create("services", service(ports=named))
    for name, ports in (("a", {"web": 8080, "admin": 9090}), ("b", {"web": 8080})):
        body = pod(name)
        body["metadata"]["labels"] = {"app": "web"}
        body["spec"]["containers"][0]["ports"] = [{"name": key, "containerPort": ports[key]} for key in ports]
        cluster.create("pods", body)
    cluster.run(5)
    found = {
        tuple(port["name"] for port in subset["ports"]): {one["targetRef"]["name"] for one in subset["addresses"]}
        for subset in cluster.get("endpoints", "web")["subsets"]
    }
    assert found == {("web",): {"a", "b"}, ("admin",): {"a"}}


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([(600, 0), (300, 100)], [(600, 0), (300, 100)]),
        ([(1000, 0), (500, 30)], [(667, 0), (333, 0)]),
        ([(400, 300), (400, 100)], [(400, 150), (400, 50)]),
        ([(0, 900), (0, 300)], [(0, 750), (0, 250)]),
    ],
    ids=["a thousand", "more that are ready", "more of both", "none is ready"],
)
def test_endpoints_have_a_thousand_addresses_at_most(
    sizes: list[tuple[int, int]], expected: list[tuple[int, int]]
) -> None:
    """The size of the whole object: larger ones are beyond what etcd and the watches of many nodes carry."""
    names = ("addresses", "notReadyAddresses")
    subsets = [{name: [{}] * count for name, count in zip(names, size, strict=True) if count} for size in sizes]
    assert endpoint_subsets.truncate(subsets) is (sizes != expected)
    assert [tuple(len(subset.get(name, ())) for name in names) for subset in subsets] == expected


def test_truncated_endpoints_say_so_until_they_fit_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that read the annotation turn to the slices."""
    monkeypatch.setattr(endpoint_subsets, "MAX_ADDRESSES", 3)
    cluster = Cluster(1)
    cluster.create("services", service())
    cluster.create("deployments.apps", workload("web", 5))
    cluster.run(5)
    found = cluster.get("endpoints", "web")
    assert found["metadata"]["annotations"] == {"endpoints.kubernetes.io/over-capacity": "truncated"}
    assert len(found["subsets"][0]["addresses"]) == 3
    cluster.edit("deployments.apps", "web", {"spec": {"replicas": 2}})
    cluster.run(5)
    found = cluster.get("endpoints", "web")
    assert "annotations" not in found["metadata"]
    assert len(found["subsets"][0]["addresses"]) == 2
