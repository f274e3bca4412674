"""What ImageLocality consists of."""

from trireme.framework.plugin_spec import ExtensionPoint, PluginSpec, Side

SPEC = PluginSpec(
    "ImageLocality",
    frozenset({ExtensionPoint.SCORE}),
    __package__,
    sides={ExtensionPoint.SCORE: Side(".score:make")},
)
