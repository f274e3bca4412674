"""The spec of TaintToleration."""

from trireme.framework.plugin_spec import FILTERING, SCORING, ExtensionPoint, LazyImport, PluginSpec

SPEC = PluginSpec(
    "TaintToleration",
    frozenset({*FILTERING, *SCORING}),
    __package__,
    pod_fields=("spec.tolerations",),
    implementations={
        ExtensionPoint.FILTER: LazyImport(".filter:make"),
        ExtensionPoint.SCORE: LazyImport(".score:make"),
    },
    events_to_register=LazyImport(".hints:events_to_register"),
    explain=LazyImport(".explain:REASONS"),
    ignores_deferred_resizes=True,
)
