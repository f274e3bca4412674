"""What NodeResourcesBalancedAllocation consists of."""

from trireme.framework.plugin_spec import SCORING, ExtensionPoint, PluginSpec, Side

SPEC = PluginSpec(
    "NodeResourcesBalancedAllocation",
    frozenset(SCORING),
    __package__,
    sides={ExtensionPoint.SCORE: Side(".score:make")},
    args=Side(".args:ARGS"),
)
