"""The spec of VolumeBinding."""

from trireme.framework.plugin_spec import ASSUMING, FILTERING, SCORING, ExtensionPoint, LazyImport, PluginSpec, Role

SPEC = PluginSpec(
    "VolumeBinding",
    frozenset({*FILTERING, *SCORING, *ASSUMING}),
    __package__,
    pod_fields=("metadata.namespace", "spec.volumes"),
    implementations={
        ExtensionPoint.FILTER: LazyImport(".filter:make"),
        ExtensionPoint.SCORE: LazyImport(".score:make"),
        ExtensionPoint.PRE_BIND: LazyImport(".bind:make"),
    },
    events_to_register=LazyImport(".hints:events_to_register"),
    explain=LazyImport(".explain:REASONS"),
    args=LazyImport(".args:ARGS"),
    ignores_deferred_resizes=True,
    role=Role.VOLUMES,
)
