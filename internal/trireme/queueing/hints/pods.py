"""Hints of the plugins that look at other pods: InterPodAffinity and PodTopologySpread.

Source: pkg/scheduler/framework/plugins interpodaffinity, podtopologyspread.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from trireme.plugins.inter_pod_affinity import affinity_terms
from trireme.plugins.pod_topology_spread import constraints as pod_topology_spread_constraints
from trireme.queueing.hints.wanted import Helps, Setting, Wanted, always, nobody, on_node
from trireme.snapshot import classes
from trireme.v1 import core_pb2

_Term = affinity_terms.Term
_Constraint = pod_topology_spread_constraints.Constraint
_Labels = Mapping[str, str]

# Hints do not look up which namespaces a selector means: what is asked is whether it takes one without labels.
_UNKNOWN: _Labels = {}


def inter_pod_affinity(setting: Setting) -> Sequence[Wanted]:
    """InterPodAffinity: a pod came that is liked, one went that is disliked or dislikes, or a node changed domains."""

    def after_pod(old: Any, new: Any) -> Helps:
        if any(pod is not None and not on_node(pod) for pod in (old, new)):
            return nobody
        before = None if old is None else setting.cluster.class_of(old.pod)
        after = None if new is None else setting.cluster.class_of(new.pod)
        if before is None:
            return lambda pod_class: _about_all(_terms(pod_class)[0], after)
        if after is None:
            return lambda pod_class: _freed(pod_class, before)

        def helps(pod_class: classes.PodClass) -> bool:
            liked, disliked = _terms(pod_class)
            if not _about_all(liked, before) and _about_all(liked, after):
                return True
            return _about_any(disliked, before) and not _about_any(disliked, after)

        return helps

    return (
        Wanted("AssignedPod", ("Add", "UpdatePodLabel", "Delete"), after_pod),
        Wanted("TargetPod", ("UpdatePodLabel",), always),
        Wanted("Node", ("Add", "UpdateNodeLabel"), _after_node_of_terms),
    )


def _after_node_of_terms(old: core_pb2.Node | None, new: core_pb2.Node) -> Helps:
    after = new.metadata.labels
    before: _Labels = {} if old is None else old.metadata.labels

    def helps(pod_class: classes.PodClass) -> bool:
        liked, disliked = _terms(pod_class)
        if any(term.key in after and before.get(term.key) != after[term.key] for term in liked):
            return True
        if old is None:
            return bool(disliked)
        return any(term.key in before and before[term.key] != after.get(term.key) for term in disliked)

    return helps


def _terms(pod_class: classes.PodClass) -> tuple[Sequence[_Term], Sequence[_Term]]:
    """The terms that must hold. Raises: InvalidSelectorError."""
    return pod_class.memo("hints/required_terms", affinity_terms.required_terms)


def _freed(pod_class: classes.PodClass, gone: classes.PodClass) -> bool:
    """Whether the pod dislikes the one that is gone, or that one disliked it."""
    if _about_any(_terms(pod_class)[1], gone):
        return True
    return _about_any(_terms(gone)[1], pod_class)


def _about_all(terms: Sequence[_Term], pod_class: classes.PodClass | None) -> bool:
    if pod_class is None:
        return False
    return bool(terms) and all(term.is_about(pod_class, _UNKNOWN) for term in terms)


def _about_any(terms: Sequence[_Term], pod_class: classes.PodClass) -> bool:
    return any(term.is_about(pod_class, _UNKNOWN) for term in terms)


def pod_topology_spread(setting: Setting) -> Sequence[Wanted]:
    """PodTopologySpread: a domain has other counts, there are other domains, or the pod counts otherwise."""
    spread = pod_topology_spread_constraints
    args = spread.args_of(setting.args, setting.features.enabled("MatchLabelKeysInPodTopologySpread"))

    def constraints(pod_class: classes.PodClass) -> Sequence[_Constraint]:
        """Raises: InvalidSelectorError."""
        if not pod_class.pod.spec.topology_spread_constraints:
            return spread.read(spread.HARD, pod_class, args, setting.cluster)
        return pod_class.memo("hints/spread", lambda of: tuple(spread.read(spread.HARD, of, args, setting.cluster)))

    def after_pod(old: Any, new: Any) -> Helps:
        changed = [pod for pod in (old, new) if pod is not None]
        if not all(on_node(pod) for pod in changed):
            return nobody
        namespace = changed[0].pod.metadata.namespace
        labels = [dict(pod.pod.metadata.labels) for pod in changed]

        def helps(pod_class: classes.PodClass) -> bool:
            if pod_class.namespace != namespace:
                return False
            own = constraints(pod_class)
            if len(labels) == 1:
                return any(each.selector.matches(labels[0]) for each in own)
            return _counts_otherwise(own, *labels)

        return helps

    def after_own(old: Any, new: Any) -> Helps:
        tolerates_more = old.pod.spec.tolerations != new.pod.spec.tolerations
        labels = dict(old.pod.metadata.labels), dict(new.pod.metadata.labels)

        def helps(pod_class: classes.PodClass) -> bool:
            own = constraints(pod_class)
            return (tolerates_more and any(each.honor_taints for each in own)) or _counts_otherwise(own, *labels)

        return helps

    def after_node(old: core_pb2.Node | None, new: core_pb2.Node | None) -> Helps:
        before = None if old is None else dict(old.metadata.labels)
        after = None if new is None else dict(new.metadata.labels)
        retainted = old is not None and new is not None and old.spec.taints != new.spec.taints

        def helps(pod_class: classes.PodClass) -> bool:
            keys = [each.key for each in constraints(pod_class)]
            was, now = _has_all(before, keys), _has_all(after, keys)
            if before is None or after is None:
                return was or now
            return was != now or (now and (retainted or any(before.get(key) != after.get(key) for key in keys)))

        return helps

    return (
        Wanted("AssignedPod", ("Add", "UpdatePodLabel", "Delete"), after_pod),
        Wanted("TargetPod", ("UpdatePodToleration", "UpdatePodLabel"), after_own),
        Wanted("Node", ("Add", "Delete", "UpdateNodeLabel", "UpdateNodeTaint"), after_node),
    )


def _counts_otherwise(constraints: Sequence[_Constraint], before: _Labels, after: _Labels) -> bool:
    """Whether the change of labels makes the pod count in a constraint, or count no more."""
    return any(each.selector.matches(before) != each.selector.matches(after) for each in constraints)


def _has_all(labels: _Labels | None, keys: Sequence[str]) -> bool:
    return labels is not None and all(key in labels for key in keys)
