"""What may help a pod that DefaultPreemption holds back.

Source: pkg/scheduler/framework/plugins/defaultpreemption.
"""

from collections.abc import Sequence

from trireme.plugin_api.hints import ClusterEventWithHint, HintContext, never


def events_to_register(context: HintContext) -> Sequence[ClusterEventWithHint]:
    """A pod that waits for its victims hears when one is gone, but whether that helps is for others to say."""
    if not context.features.enabled("SchedulerAsyncPreemption"):
        return ()
    return (ClusterEventWithHint("AssignedPod", ("Delete",), never),)
