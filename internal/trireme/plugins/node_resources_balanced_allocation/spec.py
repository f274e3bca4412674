"""The spec of NodeResourcesBalancedAllocation."""

from trireme.framework.plugin_spec import SCORING, ExtensionPoint, LazyImport, PluginSpec
from trireme.framework.resource_fields import RESOURCE_FIELDS

SPEC = PluginSpec(
    "NodeResourcesBalancedAllocation",
    frozenset(SCORING),
    __package__,
    pod_fields=(*RESOURCE_FIELDS,),
    implementations={ExtensionPoint.SCORE: LazyImport(".score:make")},
    args=LazyImport(".args:ARGS"),
)
