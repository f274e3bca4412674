"""The spec of PrioritySort. The queue has the order itself: `queueing.pod_info.key_by_priority`."""

from trireme.framework.plugin_spec import ExtensionPoint, PluginSpec

SPEC = PluginSpec(
    "PrioritySort",
    frozenset({ExtensionPoint.QUEUE_SORT}),
    __package__,
    pod_fields=("spec.priority",),
)
