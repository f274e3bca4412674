"""What InterPodAffinity consists of."""

from trireme.framework.plugin_spec import FILTERING, SCORING, ExtensionPoint, PluginSpec, Side

SPEC = PluginSpec(
    "InterPodAffinity",
    frozenset({*FILTERING, *SCORING}),
    __package__,
    pod_fields=("metadata.namespace", "spec.affinity.podAffinity", "spec.affinity.podAntiAffinity"),
    sides={ExtensionPoint.FILTER: Side(".filter:make"), ExtensionPoint.SCORE: Side(".score:make")},
    events_to_register=Side(".hints:events_to_register"),
    args=Side(".args:ARGS"),
    ignores_deferred_resizes=True,
)
