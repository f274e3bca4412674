"""The spec of NodeName."""

from trireme.framework.plugin_spec import FILTERING, ExtensionPoint, LazyImport, PluginSpec

SPEC = PluginSpec(
    "NodeName",
    frozenset(FILTERING),
    __package__,
    pod_fields=("spec.nodeName",),
    implementations={ExtensionPoint.FILTER: LazyImport(".filter:make")},
    events_to_register=LazyImport(".hints:events_to_register"),
    explain=LazyImport(".explain:REASONS"),
)
