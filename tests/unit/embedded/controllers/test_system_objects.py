"""What a cluster cannot do without: protected, or there again."""

from __future__ import annotations

import pytest

from tests.helpers.embedded_harness import Cluster
from trireme_kube.embedded.api.api_errors import ApiError


@pytest.fixture
def cluster() -> Cluster:
    """A cluster with its system objects."""
    cluster = Cluster(0)
    cluster.controllers.system_objects.create("127.0.0.1", 8001)
    return cluster


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_system_namespaces_cannot_be_deleted(cluster: Cluster, name: str) -> None:
    """The Lease of the scheduler is in one of them: deleting it ended everything."""
    with pytest.raises(ApiError) as caught:
        cluster.delete("namespaces", name)
    assert caught.value.status()["reason"] == "Forbidden"
    assert str(caught.value) == f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    assert "deletionTimestamp" not in cluster.get("namespaces", name)["metadata"]


def test_the_namespace_of_the_leases_comes_back(cluster: Cluster) -> None:
    """The API server lets it go and creates it again."""
    before = cluster.get("namespaces", "kube-node-lease")["metadata"]["uid"]
    cluster.delete("namespaces", "kube-node-lease")
    cluster.run(1)
    after = cluster.get("namespaces", "kube-node-lease")
    assert after["metadata"]["uid"] != before
    assert after["status"]["phase"] == "Active"


@pytest.mark.parametrize("key", ["services", "endpoints", "endpointslices.discovery.k8s.io"])
def test_the_api_servers_own_service_comes_back(cluster: Cluster, key: str) -> None:
    """Clients within a cluster look it up."""
    before = cluster.get(key, "kubernetes")
    cluster.delete(key, "kubernetes")
    cluster.run(1)
    after = cluster.get(key, "kubernetes")
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after.get("spec") == before.get("spec")


def test_its_address_is_the_one_that_is_served(cluster: Cluster) -> None:
    """Nothing else could be reached."""
    assert cluster.get("services", "kubernetes")["spec"]["clusterIP"] == "10.96.0.1"
    slice_ = cluster.get("endpointslices.discovery.k8s.io", "kubernetes")
    assert slice_["endpoints"][0]["addresses"] == ["127.0.0.1"]
    assert slice_["ports"][0]["port"] == 8001
