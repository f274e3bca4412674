"""What PodTopologySpread consists of."""

from trireme.framework.plugin_spec import FILTERING, SCORING, ExtensionPoint, PluginSpec, Side

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
    sides={ExtensionPoint.FILTER: Side(".filter:make"), ExtensionPoint.SCORE: Side(".score:make")},
    events_to_register=Side(".hints:events_to_register"),
    args=Side(".args:ARGS"),
    explain=Side(".explain:TEXTS"),
    ignores_deferred_resizes=True,
)
