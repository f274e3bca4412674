"""What may help a pod that DefaultPreemption holds back.

Source: pkg/scheduler/framework/plugins/defaultpreemption.

Tests: tests/unit/plugins/default_preemption/test_hints.py, tests/unit/plugins/test_hints_table.py.
"""

from collections.abc import Sequence

from trireme.plugin_api.hints import ClusterEventWithHint, HintContext, never


def events_to_register(context: HintContext) -> Sequence[ClusterEventWithHint]:
    """Register for deleted pods, with a hint that never requeues; nothing without SchedulerAsyncPreemption.

    A preemptor that waits for its victims is tried again by the hints of the plugins that refused it.
    """
    if not context.features.enabled("SchedulerAsyncPreemption"):
        return ()
    return (ClusterEventWithHint("AssignedPod", ("Delete",), never),)
