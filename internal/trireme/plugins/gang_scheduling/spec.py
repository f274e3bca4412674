"""What GangScheduling consists of."""

from trireme.framework.plugin_spec import ExtensionPoint, PluginSpec, Role, Side

SPEC = PluginSpec(
    "GangScheduling",
    frozenset({ExtensionPoint.PRE_ENQUEUE, ExtensionPoint.PERMIT}),
    __package__,
    pod_fields=("metadata.namespace", "spec.schedulingGroup"),
    events_to_register=Side(".hints:events_to_register"),
    role=Role.GANGS,
)
