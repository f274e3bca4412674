"""What NodeResourcesBalancedAllocation consists of."""

from trireme.framework import amounts
from trireme.framework.plugin_spec import SCORING, ExtensionPoint, PluginSpec, Side

SPEC = PluginSpec(
    "NodeResourcesBalancedAllocation",
    frozenset(SCORING),
    __package__,
    pod_fields=(*amounts.POD_FIELDS,),
    sides={ExtensionPoint.SCORE: Side(".score:make")},
    args=Side(".args:ARGS"),
)
