"""The spec of NodePorts."""

from trireme.framework.plugin_spec import FILTERING, ExtensionPoint, LazyImport, PluginSpec

SPEC = PluginSpec(
    "NodePorts",
    frozenset(FILTERING),
    __package__,
    pod_fields=("spec.containers.ports", "spec.initContainers.ports", "spec.initContainers.restartPolicy"),
    implementations={ExtensionPoint.FILTER: LazyImport(".filter:make")},
    events_to_register=LazyImport(".hints:events_to_register"),
    explain=LazyImport(".explain:REASONS"),
    ignores_deferred_resizes=True,
)
