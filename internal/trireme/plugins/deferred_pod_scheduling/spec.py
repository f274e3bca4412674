"""What DeferredPodScheduling consists of."""

from trireme.framework.plugin_spec import FILTERING, ExtensionPoint, PluginSpec, Side

SPEC = PluginSpec(
    "DeferredPodScheduling",
    frozenset({*FILTERING, ExtensionPoint.PERMIT}),
    __package__,
    pod_fields=("spec.nodeName", "status.conditions"),
    sides={ExtensionPoint.FILTER: Side(".filter:make")},
    events_to_register=Side(".hints:events_to_register"),
    # What it looks at while a pod is resized is not part of a pod's signature.
    supports_signature=False,
)
