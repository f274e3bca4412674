"""What NodeResourcesBalancedAllocation consists of."""

from trireme.framework.plugin_spec import SCORING, ExtensionPoint, PluginSpec, Side
from trireme.framework.resource_fields import RESOURCE_FIELDS

SPEC = PluginSpec(
    "NodeResourcesBalancedAllocation",
    frozenset(SCORING),
    __package__,
    pod_fields=(*RESOURCE_FIELDS,),
    sides={ExtensionPoint.SCORE: Side(".score:make")},
    args=Side(".args:ARGS"),
)
