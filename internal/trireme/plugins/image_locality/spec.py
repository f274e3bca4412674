"""The spec of ImageLocality."""

from trireme.framework.plugin_spec import ExtensionPoint, LazyImport, PluginSpec

SPEC = PluginSpec(
    "ImageLocality",
    frozenset({ExtensionPoint.SCORE}),
    __package__,
    pod_fields=("spec.containers.image", "spec.initContainers.image", "spec.volumes"),
    implementations={ExtensionPoint.SCORE: LazyImport(".score:make")},
)
