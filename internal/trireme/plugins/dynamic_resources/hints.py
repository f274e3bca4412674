"""What may help a pod that DynamicResources refused.

Its claims are there and changed, or some claim gave its devices back.

Source: pkg/scheduler/framework/plugins/dynamicresources, k8s.io/dynamic-resource-allocation/resourceclaim.
"""

from collections.abc import Sequence
from typing import Any

from trireme.plugin_api.hints import ClassHint, ClusterEventWithHint, HintContext, helps_all, helps_none
from trireme.plugins.dynamic_resources import pre_enqueue
from trireme.v1 import core_pb2, resource_pb2


def events_to_register(context: HintContext) -> Sequence[ClusterEventWithHint]:
    """Register for all that may help: devices, classes, nodes and taint rules, claims, and the pod's own claims.

    A claim that loses its allocation helps every pod whose claims all exist; any other change of a claim only its
    users.
    """
    cluster = context.cluster
    groups = context.features.enabled("DRAWorkloadResourceClaims")

    def claim_names_of_pod(pod: core_pb2.Pod) -> set[str] | None:
        return pre_enqueue.claim_uids_of_pod(pod, cluster, of_groups=groups)

    def after_claim(old: resource_pb2.ResourceClaim | None, new: resource_pb2.ResourceClaim | None) -> ClassHint:
        if new is None:
            # The claim that is gone still had its devices.
            return helps_all if old is not None and old.status.HasField("allocation") else helps_none
        if old is not None and old.status.HasField("allocation") and not new.status.HasField("allocation"):
            return lambda pod_class: claim_names_of_pod(pod_class.pod) is not None
        if old is not None and old.status == new.status:
            return helps_none
        uid = new.metadata.uid
        return lambda pod_class: uid in (claim_names_of_pod(pod_class.pod) or ())

    def after_own_pod(old: Any, new: Any) -> ClassHint:
        # The class's message has the pod's name and UID too: it names claims.
        return helps_none if claim_names_of_pod(new.pod) is None else helps_all

    return (
        ClusterEventWithHint("Node", ("Add", "UpdateNodeLabel", "UpdateNodeAllocatable")),
        ClusterEventWithHint("resource.k8s.io/ResourceClaim", ("Add", "Update", "Delete"), after_claim),
        ClusterEventWithHint("TargetPod", ("UpdatePodGeneratedResourceClaim",), after_own_pod),
        ClusterEventWithHint("resource.k8s.io/DeviceClass", ("Add", "Update")),
        ClusterEventWithHint("resource.k8s.io/ResourceSlice", ("Add", "Update")),
    )
