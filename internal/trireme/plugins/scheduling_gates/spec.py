"""What SchedulingGates consists of."""

from trireme.framework.plugin_spec import ExtensionPoint, PluginSpec, Side

SPEC = PluginSpec(
    "SchedulingGates",
    frozenset({ExtensionPoint.PRE_ENQUEUE}),
    __package__,
    pod_fields=("spec.schedulingGates",),
    sides={ExtensionPoint.PRE_ENQUEUE: Side(".pre_enqueue:make")},
    events_to_register=Side(".hints:events_to_register"),
)
