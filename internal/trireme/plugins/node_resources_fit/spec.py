"""The spec of NodeResourcesFit."""

from trireme.framework.plugin_spec import FILTERING, SCORING, ExtensionPoint, LazyImport, PluginSpec, Role
from trireme.framework.resource_fields import RESOURCE_FIELDS

SPEC = PluginSpec(
    "NodeResourcesFit",
    frozenset({*FILTERING, *SCORING, ExtensionPoint.PLACEMENT_SCORE}),
    __package__,
    pod_fields=(*RESOURCE_FIELDS, "spec.nodeName"),
    implementations={
        ExtensionPoint.FILTER: LazyImport(".filter:make"),
        ExtensionPoint.SCORE: LazyImport(".score:make"),
        ExtensionPoint.PLACEMENT_SCORE: LazyImport(".placement_score:make"),
    },
    events_to_register=LazyImport(".hints:events_to_register"),
    args=LazyImport(".args:ARGS"),
    explain=LazyImport(".explain:REASONS"),
    role=Role.RESOURCES,
)
