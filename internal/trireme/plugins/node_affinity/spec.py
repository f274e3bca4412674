"""What NodeAffinity consists of."""

from trireme.framework.plugin_spec import FILTERING, SCORING, ExtensionPoint, PluginSpec, Side

SPEC = PluginSpec(
    "NodeAffinity",
    frozenset({*FILTERING, *SCORING}),
    __package__,
    pod_fields=("spec.nodeSelector", "spec.affinity.nodeAffinity"),
    sides={ExtensionPoint.FILTER: Side(".filter:make"), ExtensionPoint.SCORE: Side(".score:make")},
    events_to_register=Side(".hints:events_to_register"),
    args=Side(".args:ARGS"),
    ignores_deferred_resizes=True,
)
