"""Claims and volumes: binding now or for the first consumer, provisioning, reclaiming, protection."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.embedded_harness import Cluster, pod
from trireme_kube.embedded.api.api_errors import ApiError

CLAIMS, VOLUMES, CLASSES = "persistentvolumeclaims", "persistentvolumes", "storageclasses.storage.k8s.io"
Object = dict[str, Any]


def claim(name: str = "c", storage_class: str | None = "fast", size: str = "1Gi", **spec: Any) -> Object:
    body = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    if storage_class is not None:
        body["storageClassName"] = storage_class
    return {"metadata": {"name": name}, "spec": body}


def volume(name: str = "v", storage_class: str = "fast", size: str = "1Gi", **spec: Any) -> Object:
    body = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "storageClassName": storage_class}
    return {"metadata": {"name": name}, "spec": {**body, "hostPath": {"path": "/x"}, **spec}}


def storage_class(mode: str = "Immediate", provisioner: str = "sim.example.com", **fields: Any) -> Object:
    return {"metadata": {"name": "fast"}, "provisioner": provisioner, "volumeBindingMode": mode, **fields}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(3)


def phase(cluster: Cluster, key: str, name: str) -> str:
    return str(cluster.get(key, name)["status"]["phase"])


def test_a_claim_takes_the_smallest_volume_that_suits(cluster: Cluster) -> None:
    """Large volumes are kept for those who need them."""
    for name, size in (("small", "1Gi"), ("large", "9Gi"), ("middle", "3Gi")):
        cluster.create(VOLUMES, volume(name, size=size))
    cluster.settle()
    assert phase(cluster, VOLUMES, "large") == "Available"
    cluster.create(CLAIMS, claim(size="2Gi"))
    cluster.settle()
    bound = cluster.get(CLAIMS, "c")
    assert (bound["spec"]["volumeName"], bound["status"]["phase"]) == ("middle", "Bound")
    assert bound["status"]["capacity"] == {"storage": "3Gi"}
    assert cluster.get(VOLUMES, "middle")["spec"]["claimRef"]["uid"] == bound["metadata"]["uid"]
    assert phase(cluster, VOLUMES, "middle") == "Bound"


@pytest.mark.parametrize(
    "offer",
    [
        pytest.param(volume(storage_class="other"), id="other class"),
        pytest.param(volume(size="500Mi"), id="too small"),
        pytest.param(volume(accessModes=["ReadOnlyMany"]), id="other access mode"),
        pytest.param(volume(volumeMode="Block"), id="other mode"),
    ],
)
def test_a_claim_waits_for_a_volume_that_suits(cluster: Cluster, offer: Object) -> None:
    """The scheduler must see it unbound until then."""
    cluster.create(VOLUMES, offer)
    cluster.create(CLAIMS, claim())
    cluster.settle()
    assert phase(cluster, CLAIMS, "c") == "Pending"
    cluster.create(VOLUMES, volume("right"))
    cluster.settle()
    assert cluster.get(CLAIMS, "c")["spec"]["volumeName"] == "right"


def test_an_immediate_class_provisions_at_once(cluster: Cluster) -> None:
    """Nobody has to create volumes by hand."""
    cluster.create(CLASSES, storage_class())
    cluster.create(CLAIMS, claim(size="5Gi"))
    cluster.settle()
    made = cluster.get(VOLUMES, cluster.get(CLAIMS, "c")["spec"]["volumeName"])
    assert made["spec"]["capacity"] == {"storage": "5Gi"}
    assert made["spec"]["persistentVolumeReclaimPolicy"] == "Delete"


def test_the_first_consumer_decides(cluster: Cluster) -> None:
    """The scheduler notes the node on the claim; the volume is then made in that node's zone."""
    cluster.create(CLASSES, storage_class("WaitForFirstConsumer"))
    cluster.create(VOLUMES, volume("tempting"))
    cluster.create(CLAIMS, claim())
    cluster.settle()
    assert phase(cluster, CLAIMS, "c") == "Pending"
    cluster.edit(CLAIMS, "c", {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "node-1"}}})
    cluster.settle()
    made = cluster.get(VOLUMES, cluster.get(CLAIMS, "c")["spec"]["volumeName"])
    (term,) = made["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"][0]["values"] == ["zone-2"]


def test_the_scheduler_may_choose_the_volume(cluster: Cluster) -> None:
    """For existing volumes it writes the claim into the volume and waits for the controller to finish."""
    cluster.create(CLASSES, storage_class("WaitForFirstConsumer", "kubernetes.io/no-provisioner"))
    cluster.create(VOLUMES, volume("a"))
    cluster.create(VOLUMES, volume("b"))
    waiting = cluster.create(CLAIMS, claim())
    cluster.settle()
    reference = {
        "kind": "PersistentVolumeClaim",
        "namespace": "default",
        "name": "c",
        "uid": waiting["metadata"]["uid"],
    }
    cluster.edit(VOLUMES, "b", {"spec": {"claimRef": reference}})
    cluster.settle()
    assert cluster.get(CLAIMS, "c")["spec"]["volumeName"] == "b"
    assert phase(cluster, VOLUMES, "a") == "Available"


@pytest.mark.parametrize(("policy", "left"), [("Retain", ["Released"]), ("Delete", [])])
def test_reclaim_policies_of_a_released_volume(cluster: Cluster, policy: str, left: list[str]) -> None:
    """Retained data stays, provisioned volumes go."""
    cluster.create(VOLUMES, volume(persistentVolumeReclaimPolicy=policy))
    cluster.create(CLAIMS, claim())
    cluster.settle()
    cluster.delete(CLAIMS, "c")
    cluster.settle()
    assert cluster.objects(CLAIMS) == []
    assert [one["status"]["phase"] for one in cluster.objects(VOLUMES)] == left


def test_claims_and_volumes_in_use_are_protected(cluster: Cluster) -> None:
    """A claim outlives the pods that use it, a volume its claim."""
    cluster.create(VOLUMES, volume(persistentVolumeReclaimPolicy="Retain"))
    cluster.create(CLAIMS, claim())
    user = pod("user", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}])
    cluster.create("pods", user)
    cluster.run(2)
    cluster.delete(CLAIMS, "c")
    cluster.delete(VOLUMES, "v")
    cluster.settle()
    assert "deletionTimestamp" in cluster.get(CLAIMS, "c")["metadata"]
    assert "deletionTimestamp" in cluster.get(VOLUMES, "v")["metadata"]
    cluster.delete("pods", "user")
    cluster.run(2)
    assert cluster.objects(CLAIMS) == []
    with pytest.raises(ApiError):
        cluster.get(VOLUMES, "v")


def test_the_default_class_is_filled_in(cluster: Cluster) -> None:
    """A claim that names no class gets the one marked as default."""
    marked = storage_class()
    marked["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
    cluster.create(CLASSES, marked)
    assert cluster.create(CLAIMS, claim(storage_class=None))["spec"]["storageClassName"] == "fast"
    assert cluster.create(CLAIMS, claim("none", storage_class=""))["spec"]["storageClassName"] == ""
