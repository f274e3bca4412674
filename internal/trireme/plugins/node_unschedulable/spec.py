"""What NodeUnschedulable consists of."""

from trireme.framework.plugin_spec import FILTERING, ExtensionPoint, PluginSpec, Side

SPEC = PluginSpec(
    "NodeUnschedulable",
    frozenset(FILTERING),
    __package__,
    pod_fields=("spec.tolerations",),
    sides={ExtensionPoint.FILTER: Side(".filter:make")},
    events_to_register=Side(".hints:events_to_register"),
    ignores_deferred_resizes=True,
)
