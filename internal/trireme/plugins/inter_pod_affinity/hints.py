"""What may help a pod that InterPodAffinity refused.

Source: pkg/scheduler/framework/plugins/interpodaffinity. Where the departures from kube-scheduler are on, a pod that
may be the first of its kind is also woken when the last one of its kind goes, and pods with a namespace selector when
namespaces get other labels.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trireme.framework import feature_gates
from trireme.plugin_api.hints import (
    ClassHint,
    ClusterEventWithHint,
    EventHint,
    HintContext,
    always,
    helps_none,
    is_on_node,
)
from trireme.plugins.inter_pod_affinity import affinity_terms
from trireme.snapshot import classes
from trireme.v1 import core_pb2

_Term = affinity_terms.AffinityTerm
_Labels = Mapping[str, str]
# The labels of a namespace; None: nobody knows it.
_NamespaceLabels = Callable[[str], _Labels | None]

_NO_LABELS: _Labels = {}


class _UnknownNamespaceError(Exception):
    """Whether a term is about a pod depends on the labels of a namespace that nobody knows."""


def events_to_register(context: HintContext) -> Sequence[ClusterEventWithHint]:
    """Register for pods that come, go or change labels, for nodes that change domains, and for namespaces."""
    corrected = context.features.enabled(feature_gates.CORRECTED)

    def labels_of(name: str) -> _Labels | None:
        namespace = context.cluster.get("namespace", "", name)
        return None if namespace is None else namespace.metadata.labels

    def after_pod(old: Any, new: Any) -> ClassHint:
        if any(pod is not None and not is_on_node(pod) for pod in (old, new)):
            return helps_none
        before = None if old is None else context.cluster.class_of(old.pod)
        after = None if new is None else context.cluster.class_of(new.pod)
        return _waking_unknown(_after_pod_change(before, after, labels_of, corrected=corrected))

    pods = ClusterEventWithHint("AssignedPod", ("Add", "UpdatePodLabel", "Delete"), after_pod)
    target = ClusterEventWithHint("TargetPod", ("UpdatePodLabel",), always)
    if not corrected:
        return pods, target, ClusterEventWithHint("Node", ("Add", "UpdateNodeLabel"), _after_node_labels_change)
    return (
        pods,
        target,
        ClusterEventWithHint("Node", ("Add", "UpdateNodeLabel", "Delete"), _after_node_change_for_first(labels_of)),
        ClusterEventWithHint("Namespace", ("Add", "Update"), _after_namespace_change(labels_of)),
    )


def _waking_unknown(hint: ClassHint) -> ClassHint:
    """Make a hint that also helps a class about which it would have to know the labels of an unknown namespace."""

    def helps(pod_class: classes.PodClass) -> bool:
        try:
            return hint(pod_class)
        except _UnknownNamespaceError:
            return True

    return helps


def _after_pod_change(
    before: classes.PodClass | None, after: classes.PodClass | None, labels_of: _NamespaceLabels, *, corrected: bool
) -> ClassHint:
    """Make the hint for a pod on a node that came (`before` None), went (`after` None), or changed labels."""

    def added(pod_class: classes.PodClass) -> bool:
        return _matches_all(_required_terms(pod_class)[0], after, labels_of)

    def removed_or_changed(pod_class: classes.PodClass) -> bool:
        assert before is not None
        liked, disliked = _required_terms(pod_class)
        if after is None:
            helps = _matches_any(disliked, before, labels_of) or _matches_any(
                _required_terms(before)[1], pod_class, labels_of
            )
        else:
            gained = not _matches_all(liked, before, labels_of) and _matches_all(liked, after, labels_of)
            freed = _matches_any(disliked, before, labels_of) and not _matches_any(disliked, after, labels_of)
            helps = gained or freed
        if helps or not corrected:
            return helps
        lost = _matches_all(liked, before, labels_of) and not _matches_all(liked, after, labels_of)
        return lost and _may_be_first(pod_class, labels_of)

    return added if before is None else removed_or_changed


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


def _after_node_change_for_first(labels_of: _NamespaceLabels) -> EventHint:
    """Make the hint for nodes that also wakes those that may be the first.

    What is on a node that is gone, or that left its domain, counts for nobody's affinity or anti-affinity any more.
    """

    def after_node(old: core_pb2.Node | None, new: core_pb2.Node | None) -> ClassHint:
        left: _Labels = {} if old is None else old.metadata.labels
        has: _Labels = {} if new is None else new.metadata.labels

        def helps_first(pod_class: classes.PodClass) -> bool:
            liked = _required_terms(pod_class)[0]
            lost = any(term.key in left and term.key not in has for term in liked)
            return lost and _may_be_first(pod_class, labels_of)

        def helps_kept_away(pod_class: classes.PodClass) -> bool:
            return any(term.key in left for term in _required_terms(pod_class)[1])

        if new is None:
            return _waking_unknown(lambda pod_class: helps_kept_away(pod_class) or helps_first(pod_class))
        as_usual = _after_node_labels_change(old, new)
        return _waking_unknown(lambda pod_class: as_usual(pod_class) or helps_first(pod_class))

    return after_node


def _after_namespace_change(labels_of: _NamespaceLabels) -> EventHint:
    """Make the hint for a namespace that came or changed labels, which namespace selectors may be about.

    It helps pods of that namespace, because terms of other pods may not be about them any more, and pods with a term
    that selects the namespace now and did not before, or the other way round.
    """

    def after_namespace(old: core_pb2.Namespace | None, new: core_pb2.Namespace) -> ClassHint:
        before: _Labels | None = None if old is None else old.metadata.labels
        after = new.metadata.labels
        if before == after:
            return helps_none

        def helps(pod_class: classes.PodClass) -> bool:
            if pod_class.namespace == new.metadata.name:
                return True
            liked, disliked = _required_terms(pod_class)
            gained = [_selects(term, after) and not (before is not None and _selects(term, before)) for term in liked]
            lost = [before is not None and _selects(term, before) and not _selects(term, after) for term in disliked]
            if any(gained) or any(lost):
                return True
            left = any(before is not None and _selects(term, before) and not _selects(term, after) for term in liked)
            return left and _may_be_first(pod_class, labels_of)

        return _waking_unknown(helps)

    return after_namespace


def _selects(term: _Term, namespace_labels: _Labels) -> bool:
    return term.namespace_selector.matches(namespace_labels)


def _required_terms(pod_class: classes.PodClass) -> tuple[Sequence[_Term], Sequence[_Term]]:
    """Return the required terms of affinity, and of anti-affinity. Raises: InvalidSelectorError."""
    return pod_class.memo("hints/required_terms", affinity_terms.required_terms)


def _may_be_first(pod_class: classes.PodClass, labels_of: _NamespaceLabels) -> bool:
    """Whether a pod of the class may go anywhere if no other counts for its affinity: it matches its own terms."""
    return _matches_all(_required_terms(pod_class)[0], pod_class, labels_of)


def _matches_all(terms: Sequence[_Term], other: classes.PodClass | None, labels_of: _NamespaceLabels) -> bool:
    """Return whether pods of the other class match all terms; False without a class or without terms.

    Raises: _UnknownNamespaceError.
    """
    if other is None or not terms:
        return False
    labels = _namespace_labels(terms, other, labels_of)
    return all(term.matches_pods_of(other, labels) for term in terms)


def _matches_any(terms: Sequence[_Term], other: classes.PodClass, labels_of: _NamespaceLabels) -> bool:
    """Return whether pods of the other class match a term. Raises: _UnknownNamespaceError."""
    labels = _namespace_labels(terms, other, labels_of)
    return any(term.matches_pods_of(other, labels) for term in terms)


def _namespace_labels(terms: Sequence[_Term], other: classes.PodClass, labels_of: _NamespaceLabels) -> _Labels:
    """Return the labels of the other class's namespace, if a term depends on them. Raises: _UnknownNamespaceError."""
    if not any(_depends_on_namespace(term, other) for term in terms):
        return _NO_LABELS
    labels = labels_of(other.namespace)
    if labels is None:
        raise _UnknownNamespaceError
    return labels


def _depends_on_namespace(term: _Term, other: classes.PodClass) -> bool:
    """Return whether the labels of the namespace decide whether pods of the other class match the term."""
    if not term.namespace_selector.requirements or other.namespace in term.namespaces:
        return False
    return term.selector.matches(other.labels)
