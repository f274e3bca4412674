"""Events that may help a pod that NodeAffinity refused.

Source: pkg/scheduler/framework/plugins/nodeaffinity.
"""

from collections.abc import Sequence

from trireme.framework import selectors
from trireme.plugin_api.hints import ClassHint, ClusterEventWithHint, HintContext, helps_none
from trireme.plugin_kit import required_affinity
from trireme.snapshot import classes
from trireme.v1 import core_pb2
from trireme_kube.apimachinery import decode


def events_to_register(context: HintContext) -> Sequence[ClusterEventWithHint]:
    """NodeAffinity: a node matches the pod's affinity and the profile's, and did not match the pod's before."""
    stated = context.args.get("addedAffinity")
    added = core_pb2.NodeAffinity() if stated is None else decode.decode(stated, core_pb2.NodeAffinity)
    added_terms = required_affinity.required_terms(added)

    def after_node(old: core_pb2.Node | None, new: core_pb2.Node) -> ClassHint:
        if added_terms is not None and not _matches_any_term(added_terms, new):
            return helps_none

        def helps(pod_class: classes.PodClass) -> bool:
            return _matches_required_affinity(pod_class, new) and (
                old is None or not _matches_required_affinity(pod_class, old)
            )

        return helps

    return (ClusterEventWithHint("Node", ("Add", "UpdateNodeLabel"), after_node),)


def _matches_any_term(terms: Sequence[selectors.NodeTerm], node: core_pb2.Node) -> bool:
    return any(term.matches(node.metadata.name, node.metadata.labels) for term in terms)


def _matches_required_affinity(pod_class: classes.PodClass, node: core_pb2.Node) -> bool:
    """Whether the node is as the pod asks. Raises: ValueError where only an unreadable term might match."""
    wanted = required_affinity.required_affinity_of(pod_class)
    if any(node.metadata.labels.get(key) != value for key, value in wanted.labels.items()):
        return False
    if wanted.terms is None or _matches_any_term(wanted.terms, node):
        return True
    stated = pod_class.pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    problems = [
        problem
        for index, term in enumerate(stated.node_selector_terms)
        for problem in selectors.term_problems(term, f"nodeSelectorTerms[{index}]")
    ]
    if problems:
        raise ValueError(", ".join(problems))
    return False
