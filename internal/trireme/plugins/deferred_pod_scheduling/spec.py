"""The spec of DeferredPodScheduling."""

from trireme.framework.plugin_spec import FILTERING, ExtensionPoint, LazyImport, PluginSpec

SPEC = PluginSpec(
    "DeferredPodScheduling",
    frozenset({*FILTERING, ExtensionPoint.PERMIT}),
    __package__,
    pod_fields=("spec.nodeName", "status.conditions"),
    implementations={ExtensionPoint.FILTER: LazyImport(".filter:make")},
    events_to_register=LazyImport(".hints:events_to_register"),
    explain=LazyImport(".explain:REASONS"),
    # What it looks at while a pod is resized is not part of a pod's signature.
    supports_signature=False,
)
