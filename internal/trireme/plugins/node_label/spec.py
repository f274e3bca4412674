"""The spec of NodeLabel. No profile has it unless it names it."""

from trireme.framework.plugin_spec import ExtensionPoint, LazyImport, PluginSpec

SPEC = PluginSpec(
    "NodeLabel",
    frozenset({ExtensionPoint.FILTER, ExtensionPoint.SCORE}),
    __package__,
    implementations={
        ExtensionPoint.FILTER: LazyImport(".filter:make"),
        ExtensionPoint.SCORE: LazyImport(".score:make"),
    },
    events_to_register=LazyImport(".hints:events_to_register"),
    args=LazyImport(".args:ARGS"),
    explain=LazyImport(".explain:REASONS"),
    ignores_deferred_resizes=True,
)
