"""What would help a pending pod, as `trireme explain` shows it: insight's proposals in words."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import console, padding

from trireme.cli import display

Report = Mapping[str, Any]

# How many pods to delete are named, unless all are.
_PODS = 3

_KINDS: Mapping[str, str] = {
    "tolerateTaints": "sets of taints",
    "lowerRequest": "requests",
    "dropConstraint": "constraints",
    "addNode": "shapes of nodes",
    "deletePods": "nodes with pods of lower priority",
}


def render_proposals(evaluation: Report, wide: bool) -> list[console.RenderableType]:
    """The proposals under their heading, and what was not tried; a hint where they were not requested.

    Nothing where a node is feasible, unless the pod's group is helped by something. `wide`: with the names of all pods.
    """
    if evaluation["feasibleNodes"] and not evaluation.get("proposals"):
        return []
    if "proposals" not in evaluation:
        return ["", "What would help? --proposals tries changes of the pod and of the cluster"]
    out: list[console.RenderableType] = ["", "What would help"]
    if evaluation["proposals"]:
        entries = [
            [str(proposal["feasibleNodes"]), change_text(proposal, wide), ", ".join(_examples(proposal))]
            for proposal in evaluation["proposals"]
        ]
        table = display.table_of_rows(
            ("NODES", "CHANGE", "EXAMPLES"), entries, right=("NODES",), wrapped=("CHANGE", "EXAMPLES")
        )
        out.append(padding.Padding(table, (0, 0, 0, 2)))
    else:
        out.append("  no single change that was tried")
    limits = [
        f"{limit['tried']} of {limit['candidates']} {_KINDS.get(limit['kind'], limit['kind'])}"
        for limit in evaluation.get("proposalSearchLimits", ())
    ]
    return [*out, padding.Padding(f"Not all was tried: {', '.join(limits)}", (0, 0, 0, 2))] if limits else out


def change_text(proposal: Report, wide: bool = False) -> str:
    """The change in words; `wide`: with the names of all pods to delete."""
    if "tolerateTaints" in proposal:
        taints = " and ".join(_taint_text(taint) for taint in proposal["tolerateTaints"]["taints"])
        return f"tolerate {taints}"
    if "lowerRequest" in proposal:
        lower = proposal["lowerRequest"]
        of = f"container {lower['container']}" if lower.get("container") else "the pod"
        return f"requests.{lower['resource']} {lower['current']} → {lower['proposed']} ({of})"
    if "dropConstraint" in proposal:
        return f"drop {_constraint_text(proposal['dropConstraint'])}"
    if "addNode" in proposal:
        return f"1 more node of the shape of {proposal['addNode']['likeNode']}"
    if "deletePods" in proposal:
        return _deletion_text(proposal["deletePods"], wide)
    return "a change that this release of trireme does not know"


def _examples(proposal: Report) -> list[str]:
    """Names of nodes, with an ellipsis where there are more."""
    names: list[str] = proposal["examples"]
    return [*names[:-1], f"{names[-1]} …"] if 0 < len(names) < proposal["feasibleNodes"] else names


def _taint_text(taint: Report) -> str:
    """A taint as `kubectl taint` writes it."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"


def _deletion_text(delete: Report, wide: bool) -> str:
    """The pods to delete, and whether a disruption budget has nothing left for them."""
    pods = [f"{pod['namespace']}/{pod['name']}" for pod in delete["pods"]]
    named = pods if wide else pods[:_PODS]
    count = "1 pod" if len(pods) == 1 else f"{len(pods)} pods"
    more = " …" if len(named) < len(pods) else ""
    violated = " (violates a disruption budget)" if delete.get("budgetViolations") else ""
    return f"delete {count} of lower priority on {delete['nodeName']}: {', '.join(named)}{more}{violated}"


def _constraint_text(drop: Report) -> str:
    """A constraint as people call it; its path if this release does not know the kind."""
    if "nodeSelector" in drop:
        return f"nodeSelector {drop['nodeSelector']['key']}={drop['nodeSelector'].get('values', [''])[0]}"
    if "nodeAffinity" in drop:
        return f"node affinity {_requirement_text(drop['nodeAffinity'])}"
    if "requiredNodeAffinity" in drop:
        return f"all {len(drop['requiredNodeAffinity']['nodeSelectorTerms'])} terms of node affinity"
    if "boundVolume" in drop:
        return _volume_text(drop["boundVolume"])
    for field, name in (("podAffinity", "pod affinity"), ("podAntiAffinity", "pod anti-affinity")):
        if field in drop:
            return f"{name} to {_selector_text(drop[field])} by {drop[field]['topologyKey']}"
    if "topologySpread" in drop:
        spread = drop["topologySpread"]
        return f"the spread of {_selector_text(spread)} over {spread['topologyKey']} (maxSkew {spread['maxSkew']})"
    return str(drop["field"])


def _volume_text(bound: Report) -> str:
    """A claim and its volume, and which nodes alone reach that."""
    text = f"the volume of claim {bound['claimName']}, bound to {bound['volumeName']}"
    terms = bound.get("requiredNodeAffinity", {}).get("nodeSelectorTerms", ())
    if not terms:
        return text
    requirements = [[*term.get("matchExpressions", ()), *term.get("matchFields", ())] for term in terms]
    where = " or ".join(" and ".join(_requirement_text(each) for each in term) for term in requirements)
    count = bound.get("reachingCount", 0)
    return f"{text}, which {'1 node reaches' if count == 1 else f'{count} nodes reach'} ({where})"


def _selector_text(holder: Report) -> str:
    """A label selector as `kubectl get -l` takes it."""
    selector = holder.get("labelSelector", {})
    parts = [f"{key}={value}" for key, value in sorted(selector.get("matchLabels", {}).items())]
    parts += [_requirement_text(each) for each in selector.get("matchExpressions", ())]
    return ",".join(parts) or "all pods"


def _requirement_text(requirement: Report) -> str:
    """A requirement of a selector: key, operator and values."""
    values: Sequence[str] = requirement.get("values", ())
    text = f"{requirement['key']} {requirement['operator']}"
    return f"{text} ({', '.join(values)})" if values else text
