"""What may help a pod that InterPodAffinity refused.

Source: pkg/scheduler/framework/plugins/interpodaffinity.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from trireme.plugin_api.hints import ClassHint, ClusterEventWithHint, HintContext, always, helps_none, on_node
from trireme.plugins.inter_pod_affinity import affinity_terms
from trireme.snapshot import classes
from trireme.v1 import core_pb2

_Term = affinity_terms.AffinityTerm

_Labels = Mapping[str, str]

# Hints do not look up which namespaces a selector means: they check whether it selects one without labels.
_UNKNOWN: _Labels = {}


def events_to_register(context: HintContext) -> Sequence[ClusterEventWithHint]:
    """Register for pods that come, go or change labels, and for nodes that change domains."""

    def after_pod(old: Any, new: Any) -> ClassHint:
        if any(pod is not None and not on_node(pod) for pod in (old, new)):
            return helps_none
        before = None if old is None else context.cluster.class_of(old.pod)
        after = None if new is None else context.cluster.class_of(new.pod)
        if before is None:
            return lambda pod_class: _matches_all_terms(_required_terms(pod_class)[0], after)
        if after is None:
            return lambda pod_class: _had_anti_affinity(pod_class, before)

        def helps(pod_class: classes.PodClass) -> bool:
            liked, disliked = _required_terms(pod_class)
            if not _matches_all_terms(liked, before) and _matches_all_terms(liked, after):
                return True
            return _matches_any_term(disliked, before) and not _matches_any_term(disliked, after)

        return helps

    return (
        ClusterEventWithHint("AssignedPod", ("Add", "UpdatePodLabel", "Delete"), after_pod),
        ClusterEventWithHint("TargetPod", ("UpdatePodLabel",), always),
        ClusterEventWithHint("Node", ("Add", "UpdateNodeLabel"), _after_node_labels_change),
    )


def _after_node_labels_change(old: core_pb2.Node | None, new: core_pb2.Node) -> ClassHint:
    """Make the hint for a node that came or changed labels: it helps pods with terms on a key whose value changed."""
    after = new.metadata.labels
    before: _Labels = {} if old is None else old.metadata.labels

    def helps(pod_class: classes.PodClass) -> bool:
        liked, disliked = _required_terms(pod_class)
        if any(term.key in after and before.get(term.key) != after[term.key] for term in liked):
            return True
        if old is None:
            return bool(disliked)
        return any(term.key in before and before[term.key] != after.get(term.key) for term in disliked)

    return helps


def _required_terms(pod_class: classes.PodClass) -> tuple[Sequence[_Term], Sequence[_Term]]:
    """Return the required terms of affinity, and of anti-affinity. Raises: InvalidSelectorError."""
    return pod_class.memo("hints/required_terms", affinity_terms.required_terms)


def _had_anti_affinity(pod_class: classes.PodClass, gone: classes.PodClass) -> bool:
    """Return whether either pod's required anti-affinity matched the other, which is gone."""
    if _matches_any_term(_required_terms(pod_class)[1], gone):
        return True
    return _matches_any_term(_required_terms(gone)[1], pod_class)


def _matches_all_terms(terms: Sequence[_Term], pod_class: classes.PodClass | None) -> bool:
    """Return whether pods of the class match all terms; False without a class or without terms."""
    if pod_class is None:
        return False
    return bool(terms) and all(term.matches_pods_of(pod_class, _UNKNOWN) for term in terms)


def _matches_any_term(terms: Sequence[_Term], pod_class: classes.PodClass) -> bool:
    return any(term.matches_pods_of(pod_class, _UNKNOWN) for term in terms)
