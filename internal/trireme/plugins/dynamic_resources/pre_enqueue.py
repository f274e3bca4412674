"""DynamicResources' PreEnqueue: a pod waits until its claims are there.

Source: pkg/scheduler/framework/plugins/dynamicresources, k8s.io/dynamic-resource-allocation/resourceclaim.
"""

from collections.abc import Mapping, Sequence

from trireme.plugin_api.hints import ClusterReader
from trireme.plugin_api.pre_enqueue import PodToEnqueue, PreEnqueueContext
from trireme.plugins.dynamic_resources import group_claims
from trireme.v1 import core_pb2, resource_pb2


class MissingClaims:
    """DynamicResources at PreEnqueue: holds a pod back until its claims exist."""

    def __init__(self, cluster: ClusterReader, *, of_groups: bool) -> None:
        """`of_groups`: claims of a pod's PodGroup are its own."""
        self._cluster = cluster
        self._of_groups = of_groups

    def refuses(self, pod: PodToEnqueue) -> bool:
        """Whether the pod has to wait for a claim."""
        if pod.pod is None or not pod.pod.spec.resource_claims:
            return False
        return claim_uids_of_pod(pod.pod, self._cluster, of_groups=self._of_groups) is None

    def waits_for(self, pod: PodToEnqueue) -> Mapping[str, Sequence[str]]:
        """Return nothing to add to the report of waiting pods."""
        return {}


def make(context: PreEnqueueContext) -> MissingClaims:
    """Make the plugin, by the feature gates."""
    return MissingClaims(context.cluster, of_groups=context.features.enabled("DRAWorkloadResourceClaims"))


def claim_uids_of_pod(pod: core_pb2.Pod, cluster: ClusterReader, *, of_groups: bool) -> set[str] | None:
    """Return the UIDs of the pod's claims; None if one is missing, being deleted, or made for another owner.

    `of_groups`: claims of its PodGroup count as its own.
    """
    out = set()
    for pod_claim in pod.spec.resource_claims:
        if pod_claim.HasField("resource_claim_name"):
            name: str | None = pod_claim.resource_claim_name
        elif pod_claim.HasField("resource_claim_template_name"):
            made = next((each for each in pod.status.resource_claim_statuses if each.name == pod_claim.name), None)
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
        if not pod_claim.HasField("resource_claim_name") and not _is_made_for(claim, pod, of_groups):
            return None
        out.add(claim.metadata.uid)
    return out


def _is_made_for(claim: resource_pb2.ResourceClaim, pod: core_pb2.Pod, of_groups: bool) -> bool:
    """Whether the claim was made for the pod or, with `of_groups`, for its PodGroup."""
    controller = next((owner for owner in claim.metadata.owner_references if owner.controller), None)
    if controller is not None and controller.uid == pod.metadata.uid:
        return True
    group = pod.spec.scheduling_group.pod_group_name
    return of_groups and bool(group) and group_claims.made_for_group(claim, group)
