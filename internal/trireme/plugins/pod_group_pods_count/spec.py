"""What PodGroupPodsCount consists of."""

from trireme.framework.plugin_spec import ExtensionPoint, PluginSpec, Side

SPEC = PluginSpec(
    "PodGroupPodsCount",
    frozenset({ExtensionPoint.PLACEMENT_SCORE}),
    __package__,
    sides={ExtensionPoint.PLACEMENT_SCORE: Side(".placement_score:make")},
)
