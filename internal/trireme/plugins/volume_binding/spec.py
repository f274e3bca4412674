"""What VolumeBinding consists of."""

from trireme.framework.plugin_spec import ASSUMING, FILTERING, SCORING, ExtensionPoint, PluginSpec, Role, Side

SPEC = PluginSpec(
    "VolumeBinding",
    frozenset({*FILTERING, *SCORING, *ASSUMING}),
    __package__,
    pod_fields=("metadata.namespace", "spec.volumes"),
    sides={
        ExtensionPoint.FILTER: Side(".filter:make"),
        ExtensionPoint.SCORE: Side(".score:make"),
        ExtensionPoint.PRE_BIND: Side(".bind:make"),
    },
    events_to_register=Side(".hints:events_to_register"),
    args=Side(".args:ARGS"),
    ignores_deferred_resizes=True,
    role=Role.VOLUMES,
)
