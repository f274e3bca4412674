"""What DefaultBinder consists of."""

from trireme.framework.plugin_spec import ExtensionPoint, PluginSpec, Side

SPEC = PluginSpec(
    "DefaultBinder",
    frozenset({ExtensionPoint.BIND}),
    __package__,
    sides={ExtensionPoint.BIND: Side(".bind:make")},
)
