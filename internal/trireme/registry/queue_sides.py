"""What the queue runs of the in-tree plugins; each is loaded when a profile that has the plugin asks for it."""

from collections.abc import Sequence

from trireme.framework import feature_gates
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.plugin_api import hints
from trireme.registry.in_tree import IN_TREE
from trireme.v1 import core_pb2


def events(name: str, context: hints.HintContext) -> Sequence[hints.ClusterEventWithHint]:
    """The events that may help pods which the plugin refused; none where it is not in-tree or registers none."""
    spec = IN_TREE.plugins.get(name)
    if spec is None or spec.events is None:
        return ()
    registered: Sequence[hints.ClusterEventWithHint] = spec.events.load(spec.package)(context)
    return registered


def lacks_claims(pod: core_pb2.Pod, cluster: hints.ClusterReader, gates: feature_gates.Gates) -> bool:
    """Whether the pod has to wait for a claim, as DynamicResources' PreEnqueue says."""
    if not pod.spec.resource_claims:
        return False
    spec = IN_TREE["DynamicResources"]
    return bool(spec.sides[ExtensionPoint.PRE_ENQUEUE].load(spec.package)(pod, cluster, gates))
