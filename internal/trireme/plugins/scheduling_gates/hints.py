"""What may help a pod that SchedulingGates holds back.

Source: pkg/scheduler/framework/plugins/schedulinggates.
"""

from collections.abc import Sequence

from trireme.plugin_api.hints import ClusterEventWithHint, HintContext, always


def events_to_register(context: HintContext) -> Sequence[ClusterEventWithHint]:
    """SchedulingGates: the pod's gates are gone."""
    return (ClusterEventWithHint("TargetPod", ("UpdatePodSchedulingGatesEliminated",), always),)
