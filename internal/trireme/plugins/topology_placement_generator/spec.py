"""The spec of TopologyPlacementGenerator."""

from trireme.framework.plugin_spec import ExtensionPoint, LazyImport, PluginSpec

SPEC = PluginSpec(
    "TopologyPlacementGenerator",
    frozenset({ExtensionPoint.PLACEMENT_GENERATE}),
    __package__,
    implementations={ExtensionPoint.PLACEMENT_GENERATE: LazyImport(".placement_generate:make")},
)
