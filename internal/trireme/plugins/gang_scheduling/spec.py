"""What GangScheduling consists of."""

from trireme.framework.plugin_spec import ExtensionPoint, PluginSpec

SPEC = PluginSpec(
    "GangScheduling",
    frozenset({ExtensionPoint.PRE_ENQUEUE, ExtensionPoint.PERMIT}),
    __package__,
)
