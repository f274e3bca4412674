"""Whom a pod preempts, or why nobody, as JSON: `preemption` of an evaluation or a decision."""

from typing import Any

from trireme.v1 import decision_explanation_pb2

Json = dict[str, Any]

_REASONS = {
    decision_explanation_pb2.PREEMPTION_POD_REASON_PRIORITY: "priority",
    decision_explanation_pb2.PREEMPTION_POD_REASON_REPRIEVED: "reprieved",
    decision_explanation_pb2.PREEMPTION_POD_REASON_BUDGET: "budget",
    decision_explanation_pb2.PREEMPTION_POD_REASON_BUDGET_VIOLATED: "budgetViolated",
    decision_explanation_pb2.PREEMPTION_POD_REASON_TERMINATING: "terminating",
}


def preemption_json(found: decision_explanation_pb2.PreemptionExplanation) -> Json:
    """What preemption did or would do: either whom it evicts and why these, or why nobody."""
    out: Json = {
        "nodesThatEvictionsDoNotHelp": found.unresolvable_count,
        "nodesWithoutLowerPriority": found.without_victims_count,
        "nodesWithoutCandidate": found.not_enough_count,
    }
    if found.decided_unix_ms:
        out["decidedAt"] = found.decided_unix_ms / 1000
    if found.pod_group:
        out["podGroup"] = found.pod_group
        out["placements"] = [
            {"pod": f"{each.pod.namespace}/{each.pod.name}", "node": each.node_name} for each in found.placements
        ]
    if found.reason:
        return out | {"reason": found.reason}
    return out | {
        "node": found.node_name,
        "victims": [_pod_json(pod) for pod in found.victims],
        "spared": [_pod_json(pod) for pod in found.spared],
        "budgetViolations": found.budget_violations,
        "candidates": [
            {
                "node": each.name,
                "victims": each.victims,
                "budgetViolations": each.budget_violations,
                "highestPriority": each.highest_priority,
                "prioritySum": each.priority_sum,
            }
            for each in found.candidates
        ],
        "candidateNodes": found.candidate_count,
        "decidedBy": found.decided_by,
    }


def _pod_json(pod: decision_explanation_pb2.PreemptionPod) -> Json:
    """A pod that goes or stays, with the reason if there is one to name."""
    out: Json = {"pod": f"{pod.pod.namespace}/{pod.pod.name}", "priority": pod.priority}
    out |= {"node": pod.node_name} if pod.node_name else {}
    return out | ({"reason": _REASONS[pod.reason]} if pod.reason in _REASONS else {})
