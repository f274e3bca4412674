"""What would help a pending pod, as `trireme explain` shows it: insight's proposals in words.

Also change: console/src/views/proposals.tsx, internal/trireme/insight/proposals/search.py,
tests/helpers/proposed_changes.py (kinds of changes and their words).
Also change: protos/trireme/v1/volume_proposal.proto (the messages).

Tests: tests/unit/cli/test_explain_command.py.
"""

from collections.abc import Mapping

from rich import console

from trireme.cli import display
from trireme.framework import amount_words
from trireme.v1 import core_pb2, insight_pb2, meta_pb2, volume_proposal_pb2

# How many pods to delete are named, unless all are.
_PODS = 3

_KINDS: Mapping[str, str] = {
    "tolerate_taints": "sets of taints",
    "lower_request": "requests",
    "drop_constraint": "constraints",
    "label_node": "sets of labels",
    "add_node": "shapes of nodes",
    "delete_pods": "nodes with pods of lower priority",
}


def render_proposals(
    found: insight_pb2.ExplainResponse, wide: bool, *, requested: bool
) -> list[console.RenderableType]:
    """The proposals under their heading, and what was not tried; a hint where they were not requested.

    Nothing where a node is feasible, unless the pod's group is helped by something. `wide`: with the names of all pods.
    """
    if found.feasible_count and not found.proposals:
        return []
    if not requested and not found.proposals:
        return ["", "What would help? --proposals tries changes of the pod and of the cluster"]
    out: list[console.RenderableType] = ["", "What would help"]
    if found.proposals:
        entries = [
            [str(proposal.feasible_count), change_text(proposal, wide), ", ".join(_examples(proposal))]
            for proposal in found.proposals
        ]
        table = display.table_of_rows(
            ("NODES", "CHANGE", "EXAMPLES"), entries, right=("NODES",), wrapped=("CHANGE", "EXAMPLES")
        )
        out.append(display.with_indent(table))
    else:
        out.append("  no single change that was tried")
    limits = [
        f"{limit.tried} of {limit.candidates} {_KINDS.get(limit.kind, limit.kind)}"
        for limit in found.proposal_search_limits
    ]
    return [*out, display.with_indent(f"Not all was tried: {', '.join(limits)}")] if limits else out


def change_text(proposal: insight_pb2.Proposal, wide: bool = False) -> str:
    """The change in words; `wide`: with the names of all pods to delete."""
    match proposal.WhichOneof("change"):
        case "tolerate_taints":
            return f"tolerate {' and '.join(_taint_text(taint) for taint in proposal.tolerate_taints.taints)}"
        case "lower_request":
            lower = proposal.lower_request
            of = f"container {lower.container}" if lower.container else "the pod"
            amounts = (amount_words.number(lower.resource, each.string) for each in (lower.current, lower.proposed))
            return f"requests.{lower.resource} {' → '.join(amounts)} ({of})"
        case "drop_constraint":
            return f"drop {_constraint_text(proposal.drop_constraint)}"
        case "label_node":
            label = proposal.label_node
            pairs = " ".join(f"{key}={value}" for key, value in sorted(label.labels.items()))
            return f"label a node: kubectl label node {label.node_name} {pairs}"
        case "add_node":
            return f"1 more node of the shape of {proposal.add_node.like_node}"
        case "delete_pods":
            return _deletion_text(proposal.delete_pods, wide)
    return "a change that this release of trireme does not know"


def _examples(proposal: insight_pb2.Proposal) -> list[str]:
    """Names of nodes, with an ellipsis where there are more."""
    names = list(proposal.example_nodes)
    return [*names[:-1], f"{names[-1]} …"] if 0 < len(names) < proposal.feasible_count else names


def _taint_text(taint: core_pb2.Taint) -> str:
    """A taint as `kubectl taint` writes it."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def _deletion_text(delete: insight_pb2.DeletePods, wide: bool) -> str:
    """The pods to delete, and whether a disruption budget has nothing left for them."""
    pods = [f"{pod.namespace}/{pod.name}" for pod in delete.pods]
    named = pods if wide else pods[:_PODS]
    count = "1 pod" if len(pods) == 1 else f"{len(pods)} pods"
    more = " …" if len(named) < len(pods) else ""
    violated = " (violates a disruption budget)" if delete.budget_violations else ""
    return f"delete {count} of lower priority on {delete.node_name}: {', '.join(named)}{more}{violated}"


def _constraint_text(drop: insight_pb2.DropConstraint) -> str:
    """A constraint as people call it; its path if this release does not know the kind."""
    match drop.WhichOneof("constraint"):
        case "node_selector":
            return f"nodeSelector {drop.node_selector.key}={next(iter(drop.node_selector.values), '')}"
        case "node_affinity":
            return f"node affinity {_requirement_text(drop.node_affinity)}"
        case "required_node_affinity":
            return f"all {len(drop.required_node_affinity.node_selector_terms)} terms of node affinity"
        case "bound_volume":
            return _volume_text(drop.bound_volume)
        case "pod_affinity":
            return _affinity_text("pod affinity", drop.pod_affinity)
        case "pod_anti_affinity":
            return _affinity_text("pod anti-affinity", drop.pod_anti_affinity)
        case "topology_spread":
            spread = drop.topology_spread
            of = _selector_text(spread.label_selector)
            return f"the spread of {of} over {spread.topology_key} (maxSkew {spread.max_skew})"
    return drop.field


def _affinity_text(name: str, term: core_pb2.PodAffinityTerm) -> str:
    return f"{name} to {_selector_text(term.label_selector)} by {term.topology_key}"


def _volume_text(bound: volume_proposal_pb2.BoundVolume) -> str:
    """A claim and its volume, and which nodes alone reach that."""
    text = f"the volume of claim {bound.claim_name}, bound to {bound.volume_name}"
    terms = bound.required_node_affinity.node_selector_terms
    if not terms:
        return text
    requirements = [[*term.match_expressions, *term.match_fields] for term in terms]
    where = " or ".join(" and ".join(_requirement_text(each) for each in term) for term in requirements)
    count = bound.reaching_count
    return f"{text}, which {'1 node reaches' if count == 1 else f'{count} nodes reach'} ({where})"


def _selector_text(selector: meta_pb2.LabelSelector) -> str:
    """A label selector as `kubectl get -l` takes it."""
    parts = [f"{key}={value}" for key, value in sorted(selector.match_labels.items())]
    parts += [_requirement_text(each) for each in selector.match_expressions]
    return ",".join(parts) or "all pods"


def _requirement_text(requirement: core_pb2.NodeSelectorRequirement | meta_pb2.LabelSelectorRequirement) -> str:
    """A requirement of a selector: key, operator and values."""
    text = f"{requirement.key} {requirement.operator}"
    return f"{text} ({', '.join(requirement.values)})" if requirement.values else text
