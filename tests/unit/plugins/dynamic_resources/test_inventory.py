"""The inventory of devices follows pools and claims that come and go."""

from typing import Any

import pytest

from tests.helpers.snapshot_views import Json, SnapshotBuilder
from trireme.plugins.dynamic_resources import features, inventory
from trireme.v1 import resource_pb2, snapshot_pb2
from trireme_kube.apimachinery import decode

DRIVER = "d.example.com"
ON = features.Features()


def _slice(pool: str) -> snapshot_pb2.ClusterObject:
    spec = {
        "driver": DRIVER,
        "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "a"}],
        "allNodes": True,
    }
    made = decode.decode({"metadata": {"name": f"slice-{pool}"}, "spec": spec}, resource_pb2.ResourceSlice)
    return snapshot_pb2.ClusterObject(resource_slice=made)


def _claim(name: str, pool: str) -> snapshot_pb2.ClusterObject:
    result = {"request": "r", "driver": DRIVER, "pool": pool, "device": "a"}
    status: Json = {"allocation": {"devices": {"results": [result]}}} if pool else {}
    metadata = {"namespace": "default", "name": name, "uid": name}
    made = decode.decode({"metadata": metadata, "status": status}, resource_pb2.ResourceClaim)
    return snapshot_pb2.ClusterObject(resource_claim=made)


def _key(kind: str, name: str, **fields: Any) -> snapshot_pb2.ObjectKey:
    return snapshot_pb2.ObjectKey(kind=kind, name=name, **fields)


@pytest.mark.parametrize("claim_first", [True, False], ids=["the-claim-goes-first", "the-pool-goes-first"])
def test_nothing_is_known_of_pools_that_are_gone(claim_first: bool) -> None:
    builder = SnapshotBuilder()
    builder.set_node("n0")
    for number in range(20):
        pool, claim = f"pool-{number}", f"claim-{number}"
        builder.apply(objects=[_slice(pool)])
        inventory.inventory_of(builder.snap, ON)
        builder.apply(objects=[_claim(claim, pool)])
        known = inventory.inventory_of(builder.snap, ON)
        assert known.version(known.view(0)) == builder.snap.generation
        gone = [_key("resource_claim", claim, namespace="default"), _key("resource_slice", f"slice-{pool}")]
        for key in gone if claim_first else reversed(gone):
            builder.apply(removed_objects=[key])
            inventory.inventory_of(builder.snap, ON)
    assert known._touched == {}
    assert known.by_pool == {}


def test_a_pool_that_comes_with_a_claim_of_its_device_is_seen_with_it() -> None:
    builder = SnapshotBuilder()
    builder.set_node("n0")
    builder.apply(objects=[_claim("c", "pool")])
    inventory.inventory_of(builder.snap, ON)
    builder.apply(objects=[_slice("pool")])
    known = inventory.inventory_of(builder.snap, ON)
    view, before = known.view(0), known.version(known.view(0))
    builder.apply(objects=[_claim("c", "")])
    known = inventory.inventory_of(builder.snap, ON)
    assert known.view(0) is view
    assert known.version(view) > before
