"""The spec of NodeAffinity."""

from trireme.framework.plugin_spec import FILTERING, SCORING, ExtensionPoint, LazyImport, PluginSpec

SPEC = PluginSpec(
    "NodeAffinity",
    frozenset({*FILTERING, *SCORING}),
    __package__,
    pod_fields=("spec.nodeSelector", "spec.affinity.nodeAffinity"),
    implementations={
        ExtensionPoint.FILTER: LazyImport(".filter:make"),
        ExtensionPoint.SCORE: LazyImport(".score:make"),
    },
    events_to_register=LazyImport(".hints:events_to_register"),
    explain=LazyImport(".explain:REASONS"),
    args=LazyImport(".args:ARGS"),
    ignores_deferred_resizes=True,
)
