"""The spec of NodeLabelValue. No profile has it unless it names it."""

from trireme.framework.plugin_spec import ExtensionPoint, LazyImport, PluginSpec

SPEC = PluginSpec(
    "NodeLabelValue",
    frozenset({ExtensionPoint.SCORE}),
    __package__,
    implementations={ExtensionPoint.SCORE: LazyImport(".score:make")},
    args=LazyImport(".args:ARGS"),
)
