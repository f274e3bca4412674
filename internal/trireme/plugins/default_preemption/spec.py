"""The spec of DefaultPreemption."""

from trireme.framework.plugin_spec import ExtensionPoint, LazyImport, PluginSpec, Role

SPEC = PluginSpec(
    "DefaultPreemption",
    frozenset(
        {
            ExtensionPoint.PRE_ENQUEUE,
            ExtensionPoint.POST_FILTER,
            # In name alone: what a group's members evict is kept with the group's attempt.
            ExtensionPoint.RESERVE,
            ExtensionPoint.POD_GROUP_POST_FILTER,
        }
    ),
    __package__,
    pod_fields=("spec.priority", "spec.preemptionPolicy", "spec.schedulingGroup"),
    implementations={
        ExtensionPoint.PRE_ENQUEUE: LazyImport(".pre_enqueue:make"),
        ExtensionPoint.POST_FILTER: LazyImport(".post_filter:make"),
        ExtensionPoint.POD_GROUP_POST_FILTER: LazyImport(".pod_group_post_filter:make"),
    },
    events_to_register=LazyImport(".hints:events_to_register"),
    args=LazyImport(".args:ARGS"),
    explain=LazyImport(".explain:REASONS"),
    role=Role.PREEMPTION,
)
