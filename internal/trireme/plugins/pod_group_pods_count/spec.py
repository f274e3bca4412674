"""The spec of PodGroupPodsCount."""

from trireme.framework.plugin_spec import ExtensionPoint, LazyImport, PluginSpec

SPEC = PluginSpec(
    "PodGroupPodsCount",
    frozenset({ExtensionPoint.PLACEMENT_SCORE}),
    __package__,
    implementations={ExtensionPoint.PLACEMENT_SCORE: LazyImport(".placement_score:make")},
)
