"""Hints of the plugins that look at the node alone: its name, taints, labels, `unschedulable` and declared features.

Source: pkg/scheduler/framework/plugins nodename, nodeunschedulable, tainttoleration, nodeaffinity,
nodedeclaredfeatures.
"""

from collections.abc import Sequence
from typing import Any

from trireme.framework import resizes, selectors, tolerations
from trireme.plugin_kit import required_affinity
from trireme.plugins.node_declared_features import filter as node_declared_features
from trireme.queueing.hints.wanted import Helps, Setting, Wanted, always, everybody, nobody
from trireme.snapshot import classes
from trireme.v1 import core_pb2
from trireme_kube.apimachinery import decode

_FORBIDS = (tolerations.NO_SCHEDULE, tolerations.NO_EXECUTE)


def node_name(setting: Setting) -> Sequence[Wanted]:
    """NodeName: the node may have come."""
    return (Wanted("Node", ("Add",)),)


def node_unschedulable(setting: Setting) -> Sequence[Wanted]:
    """NodeUnschedulable: a node takes pods now, or the pod tolerates that none are taken."""

    def after_node(old: core_pb2.Node | None, new: core_pb2.Node) -> Helps:
        opened = (old is None or old.spec.unschedulable) and not new.spec.unschedulable
        return everybody if opened else nobody

    comparing = setting.features.enabled(tolerations.GATE)

    def after_own(old: Any, new: Any) -> Helps:
        own = new.pod.spec.tolerations
        return everybody if tolerations.tolerated(own, tolerations.UNSCHEDULABLE, comparing=comparing) else nobody

    return (
        Wanted("Node", ("Add", "UpdateNodeTaint"), after_node),
        Wanted("TargetPod", ("UpdatePodToleration",), after_own),
    )


def deferred_pod_scheduling(setting: Setting) -> Sequence[Wanted]:
    """DeferredPodScheduling: the pod's own node lets resizes preempt now."""
    enabled = setting.features.enabled(resizes.GATE)

    def after_change(old: core_pb2.Node, new: core_pb2.Node) -> Helps:
        return after_add(None, new) if _forbids_resizes(old) else nobody

    def after_add(old: core_pb2.Node | None, new: core_pb2.Node) -> Helps:
        if not enabled or _forbids_resizes(new):
            return nobody
        name = new.metadata.name
        return lambda pod_class: pod_class.resize_deferred and pod_class.pod.spec.node_name == name

    return (
        Wanted("Node", ("UpdateNodePreemptionPolicy",), after_change),
        Wanted("Node", ("Add",), after_add),
    )


def _forbids_resizes(node: core_pb2.Node) -> bool:
    return bool(node.spec.pod_preemption_policy.disable_resize_preemption)


def taint_toleration(setting: Setting) -> Sequence[Wanted]:
    """TaintToleration: a node has no taint any more that the pod does not tolerate."""
    comparing = setting.features.enabled(tolerations.GATE)

    def is_open(own: Sequence[core_pb2.Toleration], taints: Sequence[tolerations.Taint]) -> bool:
        return tolerations.untolerated(own, taints, _FORBIDS, comparing=comparing) is None

    def after_node(old: core_pb2.Node | None, new: core_pb2.Node) -> Helps:
        before, after = None if old is None else _taints(old), _taints(new)

        def helps(pod_class: classes.PodClass) -> bool:
            own = pod_class.pod.spec.tolerations
            return not (before is not None and is_open(own, before)) and is_open(own, after)

        return helps

    return (
        Wanted("Node", ("Add", "UpdateNodeTaint"), after_node),
        Wanted("TargetPod", ("UpdatePodToleration",), always),
    )


def node_affinity_hints(setting: Setting) -> Sequence[Wanted]:
    """NodeAffinity: a node is as the pod, and the profile, ask, and was not before."""
    stated = setting.args.get("addedAffinity")
    added = core_pb2.NodeAffinity() if stated is None else decode.decode(stated, core_pb2.NodeAffinity)
    added_terms = required_affinity.required_terms(added)

    def after_node(old: core_pb2.Node | None, new: core_pb2.Node) -> Helps:
        if added_terms is not None and not _any_matches(added_terms, new):
            return nobody

        def helps(pod_class: classes.PodClass) -> bool:
            return _matches(pod_class, new) and (old is None or not _matches(pod_class, old))

        return helps

    return (Wanted("Node", ("Add", "UpdateNodeLabel"), after_node),)


def declared_features(setting: Setting) -> Sequence[Wanted]:
    """NodeDeclaredFeatures: a node declares other features, or the pod needs others."""
    if not setting.features.enabled("NodeDeclaredFeatures"):
        return ()

    def after_node(old: core_pb2.Node | None, new: core_pb2.Node) -> Helps:
        same = old is not None and old.status.declared_features == new.status.declared_features
        return nobody if same else everybody

    def after_own(old: Any, new: Any) -> Helps:
        same = node_declared_features.needed_features(old.pod) == node_declared_features.needed_features(new.pod)
        return nobody if same else everybody

    return (
        Wanted("Node", ("Add", "UpdateNodeDeclaredFeature"), after_node),
        Wanted("TargetPod", ("Update",), after_own),
    )


def _taints(node: core_pb2.Node) -> list[tolerations.Taint]:
    return [(taint.key, taint.value, taint.effect) for taint in node.spec.taints]


def _any_matches(terms: Sequence[selectors.NodeTerm], node: core_pb2.Node) -> bool:
    return any(term.matches(node.metadata.name, node.metadata.labels) for term in terms)


def _matches(pod_class: classes.PodClass, node: core_pb2.Node) -> bool:
    """Whether the node is as the pod asks. Raises: ValueError where only a term that cannot be read might say so."""
    wanted = required_affinity.of(pod_class)
    if any(node.metadata.labels.get(key) != value for key, value in wanted.labels.items()):
        return False
    if wanted.terms is None or _any_matches(wanted.terms, node):
        return True
    stated = pod_class.pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    problems = [
        problem
        for index, term in enumerate(stated.node_selector_terms)
        for problem in selectors.problems(term, f"nodeSelectorTerms[{index}]")
    ]
    if problems:
        raise ValueError(", ".join(problems))
    return False
