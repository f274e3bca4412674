"""Each leftover is found, and what is in use is none."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulation import leftover_checks
from tests.simulation.leftover_checks import LeftoverChecks, between_cycles
from tests.simulation.placed_pods import PlacedPods
from tests.simulation.simulated_workloads import DEVICE_CLAIMS, VOLUME_CLAIMS
from trireme.cache import class_registry, cluster_cache
from trireme.v1 import core_pb2, cycle_pb2, snapshot_pb2
from trireme_kube.embedded.api.resources import LEASES, NODES, PODS, Object, Resource
from trireme_kube.embedded.storage.store import Store

_DEVICE = {"request": "some", "driver": "d", "pool": "node-1", "device": "device-0"}
_ALLOCATION = {"devices": {"results": [_DEVICE]}}


@pytest.fixture(autouse=True)
def _product_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftover_checks, "observe", lambda *_: None)


class _Server:
    """A store with a node, a pod that is bound there, and a pod that has no node."""

    def __init__(self) -> None:
        self.store, placed = Store(), PlacedPods()
        self.now = 0.0
        self.store.listen(PODS, placed.on_pod)
        self.checks = LeftoverChecks(self.store, placed, lambda: self.now)
        self.put(NODES, "node-1")
        self.pod("bound", {"nodeName": "node-1"}, {})
        self.pod("pending", {}, {})

    def put(self, resource: Resource, name: str, annotations: Object | None = None, **fields: Any) -> None:
        metadata: Object = {"name": name, "uid": f"uid-{name}", "annotations": annotations or {}}
        if resource is not NODES:
            metadata["namespace"] = "default"
        self.store.put(resource, {"metadata": metadata, **fields})

    def pod(self, name: str, spec: Object, status: Object) -> None:
        self.put(PODS, name, spec={"containers": [{"name": "c"}], **spec}, status=status)

    def claim(self, *users: str, **status: Any) -> None:
        reserved = [{"name": user, "uid": f"uid-{user}"} for user in users]
        self.put(DEVICE_CLAIMS, "claim", spec={}, status={**status, "reservedFor": reserved})


@pytest.mark.parametrize(
    ("users", "allocation", "found"),
    [
        (("bound",), _ALLOCATION, []),
        ((), None, []),
        (("bound", "pending"), _ALLOCATION, ["claim claim is reserved for pod pending, which has no node"]),
        (("gone",), _ALLOCATION, ["claim claim is reserved for pod gone, which has no node"]),
        ((), _ALLOCATION, ["claim claim has devices, and nobody uses it"]),
    ],
)
def test_a_claim_is_reserved_for_bound_pods_alone(users: tuple[str, ...], allocation: Any, found: list[str]) -> None:
    """If this fails, a device may be lost for all other pods."""
    server = _Server()
    server.claim(*users, **({"allocation": allocation} if allocation else {}))
    assert server.checks.differences() == found


def test_what_a_former_leader_has_reserved_may_stay() -> None:
    """If this fails, it is taken for a defect that a leader ends in the middle of a binding."""
    server = _Server()
    server.claim("pending", allocation=_ALLOCATION)
    server.put(LEASES, "kube-scheduler", spec={"holderIdentity": "another"})
    server.claim("pending", "late", allocation=_ALLOCATION)
    server.now += leftover_checks.SUCCESSION_SECONDS
    server.claim("pending", "late", "gone", allocation=_ALLOCATION)
    assert server.checks.differences() == ["claim claim is reserved for pod gone, which has no node"]


@pytest.mark.parametrize("node", ["node-1", "node-2"])
def test_a_nomination_to_a_node_that_is_gone_is_found(node: str) -> None:
    """If this fails, a pod may wait for a node that never comes."""
    server = _Server()
    server.pod("pending", {}, {"nominatedNodeName": node})
    expected = [] if node == "node-1" else ["pod pending is nominated to node-2, which is gone"]
    assert server.checks.differences() == expected


@pytest.mark.parametrize(("name", "is_wrong"), [("bound", True), ("pending", False)])
def test_a_bound_pod_whose_condition_is_that_of_a_refusal_is_found(name: str, is_wrong: bool) -> None:
    """If this fails, a condition that is written after the binding is missed."""
    server = _Server()
    spec = {"nodeName": "node-1"} if name == "bound" else {}
    server.pod(name, spec, {"conditions": [{"type": "PodScheduled", "status": "False"}]})
    expected = ["pod bound has a node, and its condition says that it has none"] if is_wrong else []
    assert server.checks.differences() == expected


@pytest.mark.parametrize("volume", ["", "volume"])
def test_a_node_that_stays_selected_without_a_volume_is_found(volume: str) -> None:
    """If this fails, a claim may keep its pod on a node that has no room for it."""
    server = _Server()
    annotations = {"volume.kubernetes.io/selected-node": "node-1"}
    server.put(VOLUME_CLAIMS, "disk", annotations=annotations, spec={"volumeName": volume})
    expected = [] if volume else ["claim disk has no volume, and node-1 was selected for it"]
    assert server.checks.differences() == expected


def _cache_with_node() -> cluster_cache.ClusterCache:
    cache = cluster_cache.ClusterCache(class_registry.ClassRegistry())
    node = core_pb2.Node()
    node.metadata.name = "node-1"
    cache.set_node(node)
    return cache


def test_an_object_that_is_assumed_for_no_placed_pod_is_found() -> None:
    """If this fails, a volume or a device looks taken until the leader is replaced."""
    cache, entry = _cache_with_node(), snapshot_pb2.ClusterObject()
    entry.persistent_volume.metadata.name = "pv"
    cache.set_object(entry)
    cache.assume_objects("uid", [entry])
    assert list(between_cycles(cache)) == ["persistent_volume/pv is assumed for a pod that is on no node"]
    cache.forget_objects("uid")
    assert list(between_cycles(cache)) == []


def test_a_nomination_that_outlives_its_node_is_found() -> None:
    """If this fails, room may be kept on another node that has the number of the one that is gone."""
    cache = _cache_with_node()
    pod = cycle_pb2.PodIdentity(namespace="default", name="p", uid="uid")
    cache.nominate_node(snapshot_pb2.Nomination(pod=pod), "node-1")
    assert list(between_cycles(cache)) == []
    cache._pod_nominations["uid"] = ("node-2", snapshot_pb2.Nomination(pod=pod))
    assert list(between_cycles(cache)) == ["pod p is nominated to the slot of another node than 'node-2'"]
