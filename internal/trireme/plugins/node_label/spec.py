"""What NodeLabel consists of. No profile has it unless it names it."""

from trireme.framework.plugin_spec import ExtensionPoint, PluginSpec, Side

SPEC = PluginSpec(
    "NodeLabel",
    frozenset({ExtensionPoint.FILTER, ExtensionPoint.SCORE}),
    __package__,
    sides={ExtensionPoint.FILTER: Side(".filter:make"), ExtensionPoint.SCORE: Side(".score:make")},
    events_to_register=Side(".hints:events_to_register"),
    args=Side(".args:ARGS"),
    explain=Side(".explain:TEXTS"),
    ignores_deferred_resizes=True,
)
