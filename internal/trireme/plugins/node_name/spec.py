"""What NodeName consists of."""

from trireme.framework.plugin_spec import FILTERING, ExtensionPoint, PluginSpec, Side

SPEC = PluginSpec(
    "NodeName",
    frozenset(FILTERING),
    __package__,
    pod_fields=("spec.nodeName",),
    sides={ExtensionPoint.FILTER: Side(".filter:make")},
    events_to_register=Side(".hints:events_to_register"),
)
