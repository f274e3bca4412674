"""What may help a pod that NodeLabel refused.

The plugin is older than queueing hints: these are its Filter, run on the node of the event.
"""

from collections.abc import Sequence

from trireme.plugin_api.hints import ClassHint, ClusterEventWithHint, HintContext, helps_all, helps_none
from trireme.plugins.node_label import args as label_args
from trireme.v1 import core_pb2


def events_to_register(context: HintContext) -> Sequence[ClusterEventWithHint]:
    """NodeLabel: a node has the labels that are demanded, and did not before."""
    args = label_args.read(context.args)

    def has_demanded_labels(node: core_pb2.Node) -> bool:
        labels = node.metadata.labels
        return all(label in labels for label in args.present) and not any(label in labels for label in args.absent)

    def after_node(old: core_pb2.Node | None, new: core_pb2.Node) -> ClassHint:
        return helps_all if has_demanded_labels(new) and (old is None or not has_demanded_labels(old)) else helps_none

    return (ClusterEventWithHint("Node", ("Add", "UpdateNodeLabel"), after_node),)
