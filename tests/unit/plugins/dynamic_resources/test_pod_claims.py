"""The claims that are a PodGroup's own."""

import itertools

import pytest

from trireme.plugins.dynamic_resources import pod_claims
from trireme.snapshot import snapshot
from trireme.v1 import resource_pb2, scheduling_pb2, snapshot_pb2


def _snapshot(*names: str) -> snapshot.Snapshot:
    snap = snapshot.Snapshot()
    for name in names:
        claim = resource_pb2.ResourceClaim(metadata={"namespace": "ns", "name": name})
        snap.objects.upsert(snapshot_pb2.ClusterObject(resource_claim=claim), 1)
    return snap


def _group(*names: str) -> scheduling_pb2.PodGroup:
    group = scheduling_pb2.PodGroup(metadata={"namespace": "ns", "name": "g", "uid": "group"})
    for name in names:
        group.spec.resource_claims.add(name=name, resource_claim_name=name)
    return group


def test_a_claim_that_is_not_there_hinders_only_what_comes_after_it() -> None:
    """A group that could leave its first claim would keep it as long as its second is not made."""
    found = pod_claims.claims_of_group(_group("first", "second"), _snapshot("first"))
    assert [claim.metadata.name for claim in itertools.islice(found, 1)] == ["first"]
    with pytest.raises(pod_claims.ClaimError, match="ns/second"):
        next(found)


def test_a_claim_of_an_unknown_kind_is_reported() -> None:
    """An API that is newer than this program may have other kinds of claims."""
    group = _group()
    group.spec.resource_claims.add(name="odd")
    with pytest.raises(pod_claims.ClaimError, match=r"PodGroup ns/g, spec\.resourceClaim odd: none of the supported"):
        next(pod_claims.claims_of_group(group, _snapshot()))
