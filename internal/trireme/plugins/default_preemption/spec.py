"""What DefaultPreemption consists of."""

from trireme.framework.plugin_spec import ExtensionPoint, PluginSpec, Role, Side

SPEC = PluginSpec(
    "DefaultPreemption",
    frozenset({ExtensionPoint.PRE_ENQUEUE, ExtensionPoint.POST_FILTER, ExtensionPoint.POD_GROUP_POST_FILTER}),
    __package__,
    pod_fields=("spec.priority", "spec.preemptionPolicy", "spec.schedulingGroup"),
    sides={
        ExtensionPoint.PRE_ENQUEUE: Side(".pre_enqueue:make"),
        ExtensionPoint.POST_FILTER: Side(".post_filter:make"),
        ExtensionPoint.POD_GROUP_POST_FILTER: Side(".pod_group_post_filter:make"),
    },
    events_to_register=Side(".hints:events_to_register"),
    args=Side(".args:ARGS"),
    role=Role.PREEMPTION,
)
