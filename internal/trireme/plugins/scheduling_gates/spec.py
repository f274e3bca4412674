"""What SchedulingGates consists of."""

from trireme.framework.plugin_spec import ExtensionPoint, PluginSpec, Side

SPEC = PluginSpec(
    "SchedulingGates",
    frozenset({ExtensionPoint.PRE_ENQUEUE}),
    __package__,
    events=Side(".hints:events"),
)
