"""The spec of GangScheduling."""

from trireme.framework.plugin_spec import ExtensionPoint, LazyImport, PluginSpec, Role

SPEC = PluginSpec(
    "GangScheduling",
    frozenset({ExtensionPoint.PRE_ENQUEUE, ExtensionPoint.PLACEMENT_FEASIBLE}),
    __package__,
    pod_fields=("metadata.namespace", "spec.schedulingGroup"),
    implementations={ExtensionPoint.PLACEMENT_FEASIBLE: LazyImport(".placement_feasible:make")},
    events_to_register=LazyImport(".hints:events_to_register"),
    explain=LazyImport(".explain:REASONS"),
    role=Role.GANGS,
)
