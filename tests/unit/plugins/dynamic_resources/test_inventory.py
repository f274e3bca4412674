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


def _claim(name: str, pool: str, made_for: str = "") -> snapshot_pb2.ClusterObject:
    result = {"request": "r", "driver": DRIVER, "pool": pool, "device": "a"}
    status: Json = {"allocation": {"devices": {"results": [result]}}} if pool else {}
    metadata: Json = {"namespace": "default", "name": name, "uid": name}
    if made_for:
        metadata["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
        metadata["ownerReferences"] = [{"uid": made_for, "controller": True}]
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
        assert known.views.version(known.views.at(0)) == builder.snap.generation
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
    view, before = known.views.at(0), known.views.version(known.views.at(0))
    builder.apply(objects=[_claim("c", "")])
    known = inventory.inventory_of(builder.snap, ON)
    assert known.views.at(0) is view
    assert known.views.version(view) > before


@pytest.mark.parametrize(("gone", "left"), [("a", "b"), ("b", "a")])
def test_of_two_claims_for_a_pods_extended_resources_one_stays_known(gone: str, left: str) -> None:
    """The pod would be placed and get another claim, where one is there that an earlier attempt made."""
    builder = SnapshotBuilder()
    builder.set_node("n0")
    for name in ("a", "b"):
        builder.apply(objects=[_claim(name, "", made_for="uid")])
        found = inventory.inventory_of(builder.snap, ON).claim_made_for("uid")
        assert found is not None
        assert found.metadata.name == "a"
    builder.apply(removed_objects=[_key("resource_claim", gone, namespace="default")])
    found = inventory.inventory_of(builder.snap, ON).claim_made_for("uid")
    assert found is not None
    assert found.metadata.name == left
    builder.apply(removed_objects=[_key("resource_claim", left, namespace="default")])
    assert inventory.inventory_of(builder.snap, ON).claim_made_for("uid") is None
