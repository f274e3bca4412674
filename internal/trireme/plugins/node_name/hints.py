"""What may help a pod that NodeName refused.

Source: pkg/scheduler/framework/plugins/nodename.
"""

from collections.abc import Sequence

from trireme.plugin_api.hints import ClusterEventWithHint, HintContext


def events_to_register(context: HintContext) -> Sequence[ClusterEventWithHint]:
    """NodeName: the node may have come."""
    return (ClusterEventWithHint("Node", ("Add",)),)
