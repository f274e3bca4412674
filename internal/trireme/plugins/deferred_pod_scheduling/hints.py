"""What may help a pod that DeferredPodScheduling refused.

Source: pkg/scheduler/framework/plugins/deferredpodscheduling.
"""

from collections.abc import Sequence

from trireme.framework import resizes
from trireme.plugin_api.hints import ClassHint, ClusterEventWithHint, HintContext, helps_none
from trireme.v1 import core_pb2


def events_to_register(context: HintContext) -> Sequence[ClusterEventWithHint]:
    """Register for the pod's own node: it came, or it allows resizes to preempt now and did not before."""
    enabled = context.features.enabled(resizes.GATE)

    def after_node_change(old: core_pb2.Node, new: core_pb2.Node) -> ClassHint:
        return after_node_add(None, new) if _forbids_resizes(old) else helps_none

    def after_node_add(old: core_pb2.Node | None, new: core_pb2.Node) -> ClassHint:
        if not enabled or _forbids_resizes(new):
            return helps_none
        name = new.metadata.name
        return lambda pod_class: pod_class.resize_deferred and pod_class.pod.spec.node_name == name

    return (
        ClusterEventWithHint("Node", ("UpdateNodePreemptionPolicy",), after_node_change),
        ClusterEventWithHint("Node", ("Add",), after_node_add),
    )


def _forbids_resizes(node: core_pb2.Node) -> bool:
    return bool(node.spec.pod_preemption_policy.disable_resize_preemption)
