"""What TopologyPlacementGenerator consists of."""

from trireme.framework.plugin_spec import ExtensionPoint, PluginSpec

SPEC = PluginSpec(
    "TopologyPlacementGenerator",
    frozenset({ExtensionPoint.PLACEMENT_GENERATE}),
    __package__,
)
