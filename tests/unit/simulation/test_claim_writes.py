"""The versions of claims that a simulation writes."""

import pytest

from trireme.cache import class_registry, cluster_cache
from trireme.simulation import claim_writes
from trireme.v1 import core_pb2, cycle_pb2, resource_pb2, snapshot_pb2


@pytest.mark.parametrize(("before", "after"), [("7", "8"), ("", "1"), ("x", "1"), ("²", "1")])
def test_a_written_claim_has_another_version(before: str, after: str) -> None:
    cache = cluster_cache.ClusterCache(class_registry.ClassRegistry())
    entry = snapshot_pb2.ClusterObject()
    metadata = entry.resource_claim.metadata
    metadata.namespace, metadata.name, metadata.resource_version = "ns", "c", before
    cache.set_object(entry)
    stored: list[resource_pb2.ResourceClaim] = []
    writes = claim_writes.ClaimWrites(cache, stored.append, lambda _: None)
    of_class = core_pb2.Pod()
    of_class.spec.resource_claims.add(name="r", resource_claim_name="c")
    writes.on_pod_bound(cycle_pb2.PodIdentity(namespace="ns", name="p", uid="u"), of_class)
    assert [claim.metadata.resource_version for claim in stored] == [after]
