"""What ImageLocality consists of."""

from trireme.framework.plugin_spec import ExtensionPoint, PluginSpec, Side

SPEC = PluginSpec(
    "ImageLocality",
    frozenset({ExtensionPoint.SCORE}),
    __package__,
    pod_fields=("spec.containers.image", "spec.initContainers.image", "spec.volumes"),
    sides={ExtensionPoint.SCORE: Side(".score:make")},
)
