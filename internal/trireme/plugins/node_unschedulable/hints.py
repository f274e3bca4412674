"""What may help a pod that NodeUnschedulable refused.

Source: pkg/scheduler/framework/plugins/nodeunschedulable.
"""

from collections.abc import Sequence
from typing import Any

from trireme.framework import tolerations
from trireme.plugin_api.hints import ClassHint, ClusterEventWithHint, HintContext, everybody, nobody
from trireme.v1 import core_pb2


def events(context: HintContext) -> Sequence[ClusterEventWithHint]:
    """NodeUnschedulable: a node takes pods now, or the pod tolerates that none are taken."""

    def after_node(old: core_pb2.Node | None, new: core_pb2.Node) -> ClassHint:
        opened = (old is None or old.spec.unschedulable) and not new.spec.unschedulable
        return everybody if opened else nobody

    comparing = context.features.enabled(tolerations.GATE)

    def after_own(old: Any, new: Any) -> ClassHint:
        own = new.pod.spec.tolerations
        return everybody if tolerations.tolerated(own, tolerations.UNSCHEDULABLE, comparing=comparing) else nobody

    return (
        ClusterEventWithHint("Node", ("Add", "UpdateNodeTaint"), after_node),
        ClusterEventWithHint("TargetPod", ("UpdatePodToleration",), after_own),
    )
