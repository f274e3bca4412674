"""What may help a pod that PodTopologySpread refused.

Source: pkg/scheduler/framework/plugins/podtopologyspread.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from trireme.plugin_api.hints import ClassHint, ClusterEventWithHint, HintContext, helps_none, is_on_node
from trireme.plugins.pod_topology_spread import constraints as spread
from trireme.snapshot import classes
from trireme.v1 import core_pb2

_Constraint = spread.Constraint

_Labels = Mapping[str, str]


def events_to_register(context: HintContext) -> Sequence[ClusterEventWithHint]:
    """PodTopologySpread: a domain has other counts, there are other domains, or the pod counts otherwise."""
    hints = _SpreadHints(context)
    return (
        ClusterEventWithHint("AssignedPod", ("Add", "UpdatePodLabel", "Delete"), hints.after_pod),
        ClusterEventWithHint("TargetPod", ("UpdatePodToleration", "UpdatePodLabel"), hints.after_own_pod),
        ClusterEventWithHint("Node", ("Add", "Delete", "UpdateNodeLabel", "UpdateNodeTaint"), hints.after_node),
    )


class _SpreadHints:
    """The plugin's hints by its arguments."""

    def __init__(self, context: HintContext) -> None:
        self._rules = spread.rules_of(context.args, context.features.enabled("MatchLabelKeysInPodTopologySpread"))
        self._cluster = context.cluster

    def after_pod(self, old: Any, new: Any) -> ClassHint:
        """Make the hint for a pod on a node that came, went or changed labels.

        It helps classes of its namespace with a constraint in which the pod counts, or counts no more.
        """
        changed = [pod for pod in (old, new) if pod is not None]
        if not all(is_on_node(pod) for pod in changed):
            return helps_none
        namespace = changed[0].pod.metadata.namespace
        labels = [dict(pod.pod.metadata.labels) for pod in changed]

        def helps(pod_class: classes.PodClass) -> bool:
            if pod_class.namespace != namespace:
                return False
            own = self._hard_constraints_of_class(pod_class)
            if len(labels) == 1:
                return any(each.selector.matches(labels[0]) for each in own)
            return _is_counted_differently(own, *labels)

        return helps

    def after_own_pod(self, old: Any, new: Any) -> ClassHint:
        """The waiting pod tolerates other taints, or has other labels itself."""
        tolerates_more = old.pod.spec.tolerations != new.pod.spec.tolerations
        labels = dict(old.pod.metadata.labels), dict(new.pod.metadata.labels)

        def helps(pod_class: classes.PodClass) -> bool:
            own = self._hard_constraints_of_class(pod_class)
            return (tolerates_more and any(each.honor_taints for each in own)) or _is_counted_differently(own, *labels)

        return helps

    def after_node(self, old: core_pb2.Node | None, new: core_pb2.Node | None) -> ClassHint:
        """Make the hint for a node that came, went or changed labels.

        It helps classes with a constraint that gains or loses a domain, or whose domain of the node changes.
        """
        before = None if old is None else dict(old.metadata.labels)
        after = None if new is None else dict(new.metadata.labels)
        retainted = old is not None and new is not None and old.spec.taints != new.spec.taints

        def helps(pod_class: classes.PodClass) -> bool:
            keys = [each.key for each in self._hard_constraints_of_class(pod_class)]
            was, now = _has_all_keys(before, keys), _has_all_keys(after, keys)
            if before is None or after is None:
                return was or now
            return was != now or (now and (retainted or any(before.get(key) != after.get(key) for key in keys)))

        return helps

    def _hard_constraints_of_class(self, pod_class: classes.PodClass) -> Sequence[_Constraint]:
        """The class's hard constraints. Raises: InvalidSelectorError."""
        if not pod_class.pod.spec.topology_spread_constraints:
            return self._read_hard_constraints(pod_class)
        return pod_class.memo("hints/spread", self._read_hard_constraints)

    def _read_hard_constraints(self, pod_class: classes.PodClass) -> tuple[_Constraint, ...]:
        """Read the class's hard constraints; default ones by the services and owners of now."""
        return tuple(spread.read_constraints(spread.HARD, pod_class, self._rules, self._cluster))


def _is_counted_differently(constraints: Sequence[_Constraint], before: _Labels, after: _Labels) -> bool:
    """Whether the change of labels makes the pod count in a constraint, or count no more."""
    return any(each.selector.matches(before) != each.selector.matches(after) for each in constraints)


def _has_all_keys(labels: _Labels | None, keys: Sequence[str]) -> bool:
    """Return whether the node has all topology keys; False for a node that is not there (None)."""
    return labels is not None and all(key in labels for key in keys)
