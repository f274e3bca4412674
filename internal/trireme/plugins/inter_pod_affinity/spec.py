"""The spec of InterPodAffinity."""

from trireme.framework.plugin_spec import FILTERING, SCORING, ExtensionPoint, LazyImport, PluginSpec

SPEC = PluginSpec(
    "InterPodAffinity",
    frozenset({*FILTERING, *SCORING}),
    __package__,
    pod_fields=("metadata.namespace", "spec.affinity.podAffinity", "spec.affinity.podAntiAffinity"),
    implementations={
        ExtensionPoint.FILTER: LazyImport(".filter:make"),
        ExtensionPoint.SCORE: LazyImport(".score:make"),
    },
    events_to_register=LazyImport(".hints:events_to_register"),
    explain=LazyImport(".explain:REASONS"),
    args=LazyImport(".args:ARGS"),
    ignores_deferred_resizes=True,
)
