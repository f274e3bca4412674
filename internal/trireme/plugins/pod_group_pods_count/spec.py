"""What PodGroupPodsCount consists of."""

from trireme.framework.plugin_spec import ExtensionPoint, PluginSpec

SPEC = PluginSpec(
    "PodGroupPodsCount",
    frozenset({ExtensionPoint.PLACEMENT_SCORE}),
    __package__,
)
