"""Hints of DynamicResources: the pod's claims are there and changed, or some claim gave its devices back.

Source: pkg/scheduler/framework/plugins/dynamicresources, k8s.io/dynamic-resource-allocation/resourceclaim.
"""

from collections.abc import Sequence
from typing import Any

from trireme.plugins.dynamic_resources import group_claims
from trireme.queueing.hints import cluster_view
from trireme.queueing.hints.wanted import Helps, Setting, Wanted, everybody, nobody
from trireme.v1 import core_pb2, resource_pb2


def dynamic_resources(setting: Setting) -> Sequence[Wanted]:
    """DynamicResources."""
    if not setting.features.enabled("DynamicResourceAllocation"):
        return ()
    cluster = setting.cluster
    groups = setting.features.enabled("DRAWorkloadResourceClaims")

    def claims(pod: core_pb2.Pod) -> set[str] | None:
        return claims_of(pod, cluster, of_groups=groups)

    def after_claim(old: resource_pb2.ResourceClaim | None, new: resource_pb2.ResourceClaim | None) -> Helps:
        if new is None:
            # The claim that is gone still had its devices.
            return everybody if old is not None and old.status.HasField("allocation") else nobody
        if old is not None and old.status.HasField("allocation") and not new.status.HasField("allocation"):
            return lambda pod_class: claims(pod_class.pod) is not None
        if old is not None and old.status == new.status:
            return nobody
        uid = new.metadata.uid
        return lambda pod_class: uid in (claims(pod_class.pod) or ())

    def after_own(old: Any, new: Any) -> Helps:
        # The class's message has the pod's name and UID too: it names claims.
        return nobody if claims(new.pod) is None else everybody

    return (
        Wanted("Node", ("Add", "UpdateNodeLabel", "UpdateNodeAllocatable")),
        Wanted("resource.k8s.io/ResourceClaim", ("Add", "Update", "Delete"), after_claim),
        Wanted("TargetPod", ("UpdatePodGeneratedResourceClaim",), after_own),
        Wanted("resource.k8s.io/DeviceClass", ("Add", "Update")),
        Wanted("resource.k8s.io/ResourceSlice", ("Add", "Update")),
    )


def claims_of(pod: core_pb2.Pod, cluster: cluster_view.CacheView, *, of_groups: bool) -> set[str] | None:
    """The UIDs of the pod's claims; None: one of them is missing, on its way out, or somebody else's. `of_groups`:
    those of its PodGroup are its own.
    """
    out = set()
    for wanted in pod.spec.resource_claims:
        if wanted.HasField("resource_claim_name"):
            name: str | None = wanted.resource_claim_name
        elif wanted.HasField("resource_claim_template_name"):
            made = next((each for each in pod.status.resource_claim_statuses if each.name == wanted.name), None)
            if made is None:
                return None
            # That none was needed is possible too.
            name = made.resource_claim_name if made.HasField("resource_claim_name") else None
        else:
            return None
        if name is None:
            continue
        claim = cluster.get("resource_claim", pod.metadata.namespace, name)
        if claim is None or claim.metadata.HasField("deletion_timestamp"):
            return None
        if not wanted.HasField("resource_claim_name") and not _made_for(claim, pod, of_groups):
            return None
        out.add(claim.metadata.uid)
    return out


def _made_for(claim: resource_pb2.ResourceClaim, pod: core_pb2.Pod, of_groups: bool) -> bool:
    controller = next((owner for owner in claim.metadata.owner_references if owner.controller), None)
    if controller is not None and controller.uid == pod.metadata.uid:
        return True
    group = pod.spec.scheduling_group.pod_group_name
    return of_groups and bool(group) and group_claims.made_for(claim, group)
