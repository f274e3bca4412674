"""What TopologyPlacementGenerator consists of."""

from trireme.framework.plugin_spec import ExtensionPoint, PluginSpec, Side

SPEC = PluginSpec(
    "TopologyPlacementGenerator",
    frozenset({ExtensionPoint.PLACEMENT_GENERATE}),
    __package__,
    sides={ExtensionPoint.PLACEMENT_GENERATE: Side(".placement_generate:make")},
)
