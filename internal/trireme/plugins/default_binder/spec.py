"""What DefaultBinder consists of."""

from trireme.framework.plugin_spec import ExtensionPoint, PluginSpec

SPEC = PluginSpec(
    "DefaultBinder",
    frozenset({ExtensionPoint.BIND}),
    __package__,
)
