"""What TaintToleration consists of."""

from trireme.framework.plugin_spec import FILTERING, SCORING, ExtensionPoint, PluginSpec, Side

SPEC = PluginSpec(
    "TaintToleration",
    frozenset({*FILTERING, *SCORING}),
    __package__,
    pod_fields=("spec.tolerations",),
    sides={ExtensionPoint.FILTER: Side(".filter:make"), ExtensionPoint.SCORE: Side(".score:make")},
    events_to_register=Side(".hints:events_to_register"),
    ignores_deferred_resizes=True,
)
