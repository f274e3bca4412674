"""The spec of PrioritySort."""

from trireme.framework.plugin_spec import ExtensionPoint, PluginSpec

SPEC = PluginSpec(
    "PrioritySort",
    frozenset({ExtensionPoint.QUEUE_SORT}),
    __package__,
    pod_fields=("spec.priority",),
)
