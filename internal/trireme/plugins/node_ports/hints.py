"""What may help a pod that NodePorts refused.

Source: pkg/scheduler/framework/plugins/nodeports.
"""

from collections.abc import Sequence
from typing import Any

from trireme.plugin_api.hints import ClassHint, ClusterEventWithHint, HintContext, helps_none, is_on_node
from trireme.plugins.node_ports import filter as node_ports
from trireme.snapshot import classes


def events_to_register(context: HintContext) -> Sequence[ClusterEventWithHint]:
    """NodePorts: a host port that the pod asks for is given back."""

    def after_delete(old: Any, new: Any) -> ClassHint:
        freed = context.cluster.class_of(old.pod).host_ports if is_on_node(old) else ()

        def helps(pod_class: classes.PodClass) -> bool:
            return any(node_ports.ports_conflict(wanted, used) for wanted in pod_class.host_ports for used in freed)

        return helps if freed else helps_none

    return (ClusterEventWithHint("AssignedPod", ("Delete",), after_delete), ClusterEventWithHint("Node", ("Add",)))
