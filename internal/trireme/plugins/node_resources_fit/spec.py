"""What NodeResourcesFit consists of."""

from trireme.framework.plugin_spec import FILTERING, SCORING, ExtensionPoint, PluginSpec, Role, Side
from trireme.framework.resource_fields import RESOURCE_FIELDS

SPEC = PluginSpec(
    "NodeResourcesFit",
    frozenset({*FILTERING, *SCORING, ExtensionPoint.PLACEMENT_SCORE}),
    __package__,
    pod_fields=(*RESOURCE_FIELDS, "spec.nodeName"),
    sides={
        ExtensionPoint.FILTER: Side(".filter:make"),
        ExtensionPoint.SCORE: Side(".score:make"),
        ExtensionPoint.PLACEMENT_SCORE: Side(".placement_score:make"),
    },
    events_to_register=Side(".hints:events_to_register"),
    args=Side(".args:ARGS"),
    explain=Side(".explain:TEXTS"),
    role=Role.RESOURCES,
)
