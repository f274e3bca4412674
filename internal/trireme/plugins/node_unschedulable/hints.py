"""What may help a pod that NodeUnschedulable refused.

Source: pkg/scheduler/framework/plugins/nodeunschedulable.
"""

from collections.abc import Sequence
from typing import Any

from trireme.framework import tolerations
from trireme.plugin_api.hints import ClassHint, ClusterEventWithHint, HintContext, helps_all, helps_none
from trireme.v1 import core_pb2


def events_to_register(context: HintContext) -> Sequence[ClusterEventWithHint]:
    """NodeUnschedulable: a node takes pods now, or the pod tolerates that none are taken."""

    def after_node(old: core_pb2.Node | None, new: core_pb2.Node) -> ClassHint:
        opened = (old is None or old.spec.unschedulable) and not new.spec.unschedulable
        return helps_all if opened else helps_none

    comparing = context.features.enabled(tolerations.GATE)

    def after_own_pod(old: Any, new: Any) -> ClassHint:
        own = new.pod.spec.tolerations
        return (
            helps_all if tolerations.is_tolerated(own, tolerations.UNSCHEDULABLE, comparing=comparing) else helps_none
        )

    return (
        ClusterEventWithHint("Node", ("Add", "UpdateNodeTaint"), after_node),
        ClusterEventWithHint("TargetPod", ("UpdatePodToleration",), after_own_pod),
    )
