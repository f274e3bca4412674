"""The spec of SchedulingGates."""

from trireme.framework.plugin_spec import ExtensionPoint, LazyImport, PluginSpec

SPEC = PluginSpec(
    "SchedulingGates",
    frozenset({ExtensionPoint.PRE_ENQUEUE}),
    __package__,
    pod_fields=("spec.schedulingGates",),
    implementations={ExtensionPoint.PRE_ENQUEUE: LazyImport(".pre_enqueue:make")},
    events_to_register=LazyImport(".hints:events_to_register"),
)
