"""What NodePorts consists of."""

from trireme.framework.plugin_spec import FILTERING, ExtensionPoint, PluginSpec, Side

SPEC = PluginSpec(
    "NodePorts",
    frozenset(FILTERING),
    __package__,
    pod_fields=("spec.containers.ports", "spec.initContainers.ports", "spec.initContainers.restartPolicy"),
    sides={ExtensionPoint.FILTER: Side(".filter:make")},
    events_to_register=Side(".hints:events_to_register"),
    ignores_deferred_resizes=True,
)
