"""By which decision a pod got its node, as JSON: `decision` of an explanation."""

from collections.abc import Sequence
from typing import Any

from trireme.frontend.phase_clients import insight_replicas
from trireme.frontend.serving import insight_report, preemption_report
from trireme.v1 import cycle_pb2, decision_explanation_pb2

Json = dict[str, Any]

_KINDS = {
    decision_explanation_pb2.DECISION_KIND_SCORED: "scored",
    decision_explanation_pb2.DECISION_KIND_ONLY_NODE: "onlyNode",
    decision_explanation_pb2.DECISION_KIND_NOMINATED: "nominated",
}


async def explain_decision(
    insight: insight_replicas.InsightReplicas, key: str, uid: str, nodes: Sequence[str], *, all_nodes: bool
) -> Json:
    """Have insight explain by which decision the pod (namespace/name) got its node.

    About these nodes alone, if any are given; with `all_nodes` all feasible ones are named. Raises: InsightUnavailable,
    InsightRefusal.
    """
    namespace, _, name = key.partition("/")
    pod = cycle_pb2.PodIdentity(namespace=namespace, name=name, uid=uid)
    limit = 2**31 if all_nodes else 0
    request = decision_explanation_pb2.ExplainDecisionRequest(pod=pod, nodes=nodes, max_feasible_nodes=limit)
    return decision_json(await insight.explain_decision(request))


def decision_json(response: decision_explanation_pb2.ExplainDecisionResponse) -> Json:
    """The answer of insight, without fields that say nothing."""
    out: Json = {
        "node": response.node_name,
        "kind": _KINDS.get(response.kind, ""),
        "generation": response.generation,
        "decidedAt": response.decided_unix_ms / 1000,
        "profile": response.profile,
        "exact": not response.inexact,
        "same": not response.differs,
        "notKnown": list(response.not_known),
        "nodes": response.node_count,
        "feasibleNodes": response.feasible_count,
        **({"feasibleNodesAtMost": True} if response.feasible_at_most else {}),
        "refusals": [
            {
                **insight_report.status_json(refusal.status),
                "nodes": refusal.node_count,
                "names": list(refusal.nodes),
            }
            for refusal in response.refusals
        ],
        "scorePlugins": [
            {"plugin": plugin.name, "weight": plugin.weight, "skipped": plugin.skipped}
            for plugin in response.score_plugins
        ],
        "feasible": [_node_json(node, response) for node in response.feasible_nodes],
        "margin": response.margin,
        "tiedNodes": response.tied_count,
        "batch": {
            "pods": response.batch_size,
            "before": [
                {"pod": f"{each.pod.namespace}/{each.pod.name}", "node": each.node_name}
                for each in response.batch_before
            ],
        },
        "steps": {step.name: step.duration_us / 1_000_000 for step in response.steps},
        "longestStep": response.longest_step,
    }
    if response.attempts:
        out["attempts"] = response.attempts
    if response.HasField("preemption"):
        out["preemption"] = preemption_report.preemption_json(response.preemption)
    return out


def _node_json(
    node: decision_explanation_pb2.DecisionNode, response: decision_explanation_pb2.ExplainDecisionResponse
) -> Json:
    """A feasible node; with its scores where nodes were scored."""
    if not response.score_plugins:
        return {"node": node.name}
    scored = zip(response.score_plugins, node.scores, strict=True)
    scores = {plugin.name: score for plugin, score in scored if not plugin.skipped}
    extenders = {"extenderScore": node.extender_score} if node.extender_score else {}
    return {"node": node.name, "total": node.total, "scores": scores, **extenders}
