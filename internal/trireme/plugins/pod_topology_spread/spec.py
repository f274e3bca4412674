"""The spec of PodTopologySpread."""

from trireme.framework.plugin_spec import FILTERING, SCORING, ExtensionPoint, LazyImport, PluginSpec

SPEC = PluginSpec(
    "PodTopologySpread",
    frozenset({*FILTERING, *SCORING}),
    __package__,
    pod_fields=(
        "metadata.namespace",
        "metadata.ownerReferences",
        "spec.topologySpreadConstraints",
        "spec.nodeSelector",
        "spec.affinity.nodeAffinity",
        "spec.tolerations",
    ),
    implementations={
        ExtensionPoint.FILTER: LazyImport(".filter:make"),
        ExtensionPoint.SCORE: LazyImport(".score:make"),
    },
    events_to_register=LazyImport(".hints:events_to_register"),
    args=LazyImport(".args:ARGS"),
    explain=LazyImport(".explain:REASONS"),
    ignores_deferred_resizes=True,
)
