"""What SchedulingGates consists of."""

from trireme.framework.plugin_spec import ExtensionPoint, PluginSpec

SPEC = PluginSpec(
    "SchedulingGates",
    frozenset({ExtensionPoint.PRE_ENQUEUE}),
    __package__,
)
