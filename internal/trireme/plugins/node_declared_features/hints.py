"""What may help a pod that NodeDeclaredFeatures refused.

Source: pkg/scheduler/framework/plugins/nodedeclaredfeatures.
"""

from collections.abc import Sequence
from typing import Any

from trireme.plugin_api.hints import ClassHint, ClusterEventWithHint, HintContext, helps_all, helps_none
from trireme.plugins.node_declared_features import filter as node_declared_features
from trireme.v1 import core_pb2


def events_to_register(context: HintContext) -> Sequence[ClusterEventWithHint]:
    """Register for nodes that declare other features, and for updates of the pod that change what it needs."""
    if not context.features.enabled("NodeDeclaredFeatures"):
        return ()

    def after_node(old: core_pb2.Node | None, new: core_pb2.Node) -> ClassHint:
        same = old is not None and old.status.declared_features == new.status.declared_features
        return helps_none if same else helps_all

    def after_own_pod(old: Any, new: Any) -> ClassHint:
        same = node_declared_features.needed_features(old.pod) == node_declared_features.needed_features(new.pod)
        return helps_none if same else helps_all

    return (
        ClusterEventWithHint("Node", ("Add", "UpdateNodeDeclaredFeature"), after_node),
        ClusterEventWithHint("TargetPod", ("Update",), after_own_pod),
    )
