"""The spec of DefaultBinder."""

from trireme.framework.plugin_spec import ExtensionPoint, LazyImport, PluginSpec

SPEC = PluginSpec(
    "DefaultBinder",
    frozenset({ExtensionPoint.BIND}),
    __package__,
    implementations={ExtensionPoint.BIND: LazyImport(".bind:make")},
)
