"""The spec of NodeUnschedulable."""

from trireme.framework.plugin_spec import FILTERING, ExtensionPoint, LazyImport, PluginSpec

SPEC = PluginSpec(
    "NodeUnschedulable",
    frozenset(FILTERING),
    __package__,
    pod_fields=("spec.tolerations",),
    implementations={ExtensionPoint.FILTER: LazyImport(".filter:make")},
    events_to_register=LazyImport(".hints:events_to_register"),
    explain=LazyImport(".explain:REASONS"),
    ignores_deferred_resizes=True,
)
