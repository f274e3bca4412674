"""What VolumeRestrictions consists of."""

from trireme.framework.plugin_spec import FILTERING, ExtensionPoint, PluginSpec, Side

SPEC = PluginSpec(
    "VolumeRestrictions",
    frozenset(FILTERING),
    __package__,
    pod_fields=("metadata.namespace", "spec.volumes"),
    sides={ExtensionPoint.FILTER: Side(".filter:make")},
    events_to_register=Side(".hints:events_to_register"),
    explain=Side(".explain:TEXTS"),
    ignores_deferred_resizes=True,
)
