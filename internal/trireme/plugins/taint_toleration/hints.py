"""What may help a pod that TaintToleration refused.

Source: pkg/scheduler/framework/plugins/tainttoleration.
"""

from collections.abc import Sequence

from trireme.framework import tolerations
from trireme.plugin_api.hints import ClassHint, ClusterEventWithHint, HintContext, always
from trireme.snapshot import classes
from trireme.v1 import core_pb2

_FORBIDS = (tolerations.NO_SCHEDULE, tolerations.NO_EXECUTE)


def events_to_register(context: HintContext) -> Sequence[ClusterEventWithHint]:
    """TaintToleration: a node has no taint any more that the pod does not tolerate."""
    comparing = context.features.enabled(tolerations.GATE)

    def tolerates_all_taints(own: Sequence[core_pb2.Toleration], taints: Sequence[tolerations.Taint]) -> bool:
        return tolerations.first_untolerated_taint(own, taints, _FORBIDS, comparing=comparing) is None

    def after_node(old: core_pb2.Node | None, new: core_pb2.Node) -> ClassHint:
        before, after = None if old is None else _taints_of_node(old), _taints_of_node(new)

        def helps(pod_class: classes.PodClass) -> bool:
            own = pod_class.pod.spec.tolerations
            return not (before is not None and tolerates_all_taints(own, before)) and tolerates_all_taints(own, after)

        return helps

    return (
        ClusterEventWithHint("Node", ("Add", "UpdateNodeTaint"), after_node),
        ClusterEventWithHint("TargetPod", ("UpdatePodToleration",), always),
    )


def _taints_of_node(node: core_pb2.Node) -> list[tolerations.Taint]:
    """Return the node's taints as tuples of key, value and effect."""
    return [(taint.key, taint.value, taint.effect) for taint in node.spec.taints]
