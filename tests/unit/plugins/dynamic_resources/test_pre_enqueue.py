"""DynamicResources' PreEnqueue: a pod waits until its claims are there."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers.snapshot_views import Json, pod_of
from trireme.plugin_api.pre_enqueue import PodToEnqueue, PreEnqueueContext
from trireme.plugins.dynamic_resources import pre_enqueue
from trireme.v1 import resource_pb2
from trireme_kube.apimachinery import decode

NAMED = {"name": "gpu", "resourceClaimName": "claim"}
MADE = {"name": "gpu", "resourceClaimTemplateName": "template"}
STATUS = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "claim"}]}
GROUP_OWNER = {
    "apiVersion": "scheduling.k8s.io/v1beta1",
    "kind": "PodGroup",
    "name": "group",
    "uid": "group-uid",
    "controller": True,
}


def _plugin(claim: Json | None, gates: tuple[str, ...] = ()) -> pre_enqueue.MissingClaims:
    """The plugin in a cluster with one claim, or none."""
    there = None
    if claim is not None:
        metadata = {"name": "claim", "namespace": "default", "uid": "u", **claim}
        there = decode.decode({"metadata": metadata}, resource_pb2.ResourceClaim)
    cluster: Any = SimpleNamespace(get=lambda *key: there if key == ("resource_claim", "default", "claim") else None)
    features: Any = SimpleNamespace(enabled=lambda gate: gate in gates)
    return pre_enqueue.make(PreEnqueueContext(features, cluster, lambda uid: False))


def _pod(*claims: Json, status: Json | None = None, **spec: Any) -> PodToEnqueue:
    return PodToEnqueue("pod-uid", (), pod_of({"resourceClaims": list(claims), **spec}, status=status))


@pytest.mark.parametrize(
    ("pod", "claim", "refused"),
    [
        (_pod(), None, False),
        (_pod(NAMED), None, True),
        (_pod(NAMED), {}, False),
        (_pod(NAMED), {"deletionTimestamp": "2027-01-01T00:00:00Z"}, True),
        (_pod(MADE), {}, True),
        (_pod(MADE, status=STATUS), {}, True),
        (_pod(MADE, status={"resourceClaimStatuses": [{"name": "gpu"}]}), None, False),
        (PodToEnqueue("pod-uid", (), None), None, False),
    ],
    ids=[
        "no-claims",
        "missing",
        "there",
        "being-deleted",
        "not-made-yet",
        "made-for-another",
        "none-needed",
        "fields-unread",
    ],
)
def test_a_pod_waits_for_its_claims(pod: PodToEnqueue, claim: Json | None, refused: bool) -> None:
    assert _plugin(claim).refuses(pod) is refused


@pytest.mark.parametrize("gate", [True, False], ids=["on", "off"])
def test_claims_of_its_group_are_the_pods_where_the_gate_is_on(gate: bool) -> None:
    """DRAWorkloadResourceClaims: off, the claim is somebody else's."""
    plugin = _plugin({"ownerReferences": [GROUP_OWNER]}, ("DRAWorkloadResourceClaims",) if gate else ())
    pod = _pod(MADE, status=STATUS, schedulingGroup={"podGroupName": "group"})
    assert plugin.refuses(pod) is not gate
    assert plugin.waits_for(pod) == {}
