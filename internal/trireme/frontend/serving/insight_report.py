"""How insight evaluates a pending pod, as JSON: `evaluation` of an explanation, beside what the frontend knows."""

from collections.abc import Sequence
from typing import Any

from trireme.frontend.phase_clients import insight_replicas
from trireme.frontend.serving import preemption_report, proposals_report
from trireme.v1 import cycle_pb2, insight_pb2, shortage_pb2, status_pb2
from trireme.wire import status as wire_status

Json = dict[str, Any]


async def evaluate_pod(
    insight: insight_replicas.InsightReplicas,
    key: str,
    uid: str,
    nodes: Sequence[str],
    extenders: Sequence[str],
    *,
    proposals: bool = False,
    preemption: bool = False,
) -> Json | None:
    """Have insight evaluate the pod (namespace/name) now; None: it has left the queue.

    About these nodes alone, if any are given. `extenders` are the URLs of HTTP extenders, which insight does not call.
    With `proposals` also what would help, with `preemption` whom it would preempt.

    Raises: InsightUnavailable, InsightRefusal.
    """
    namespace, _, name = key.partition("/")
    pod = cycle_pb2.PodIdentity(namespace=namespace, name=name, uid=uid)
    request = insight_pb2.ExplainRequest(pod=pod, nodes=nodes, scores=True, proposals=proposals, preemption=preemption)
    response = await insight.explain(request)
    if not response.HasField("queued_pod"):
        return None
    out = evaluation_json(response) | ({"notEvaluated": list(extenders)} if extenders else {})
    return out | (proposals_report.proposals_json(response) if proposals else {})


def evaluation_json(response: insight_pb2.ExplainResponse) -> Json:
    """Insight's answer about a pod, without fields that say nothing."""
    plugins = [
        {"plugin": plugin.name, "weight": plugin.weight, "skipped": plugin.skipped} for plugin in response.score_plugins
    ]
    out: Json = {
        "generation": response.evaluated_generation,
        "nodes": response.node_count,
        "feasibleNodes": response.feasible_count,
        **({"feasibleNodesAtMost": True} if response.feasible_at_most else {}),
        "refusals": [
            {
                **status_json(refusal.status),
                "nodes": len(refusal.nodes),
                "names": list(refusal.nodes),
                **({"shortages": [_shortage_json(each) for each in refusal.shortages]} if refusal.shortages else {}),
            }
            for refusal in response.refusals
        ],
        "feasible": [_feasible_node_json(node, response) for node in response.feasible_nodes],
        "scorePlugins": plugins,
    }
    if response.HasField("pre_filter"):
        out["preFilter"] = status_json(response.pre_filter)
    if response.HasField("score_failure"):
        out["scoreFailure"] = status_json(response.score_failure)
    if response.HasField("preemption"):
        out["preemption"] = preemption_report.preemption_json(response.preemption)
    if response.not_known:
        out["notKnown"] = list(response.not_known)
    if response.disconnected_ms:
        out["disconnectedSeconds"] = response.disconnected_ms / 1000
    return out


def _shortage_json(shortage: shortage_pb2.Shortage) -> Json:
    """What a node has too little of, and by whom it is used."""
    return {
        "resource": shortage.resource,
        "requested": shortage.requested.string,
        "node": shortage.node_name,
        "free": shortage.free.string,
        "allocatable": shortage.allocatable.string,
        "users": [
            {
                "pod": None if user.nominated else f"{user.pod.namespace}/{user.pod.name}",
                "used": user.used.string,
                **({"nominated": True} if user.nominated else {}),
            }
            for user in shortage.users
        ],
        "moreUsers": shortage.more_users,
    }


def _feasible_node_json(node: insight_pb2.FeasibleNode, response: insight_pb2.ExplainResponse) -> Json:
    """A feasible node with its total, and the scores of the plugins that were not skipped."""
    scored = zip(response.score_plugins, node.scores, strict=True)
    return {
        "node": node.name,
        "total": node.total,
        "scores": {plugin.name: score for plugin, score in scored if not plugin.skipped},
    }


def status_json(message: status_pb2.Status) -> Json:
    """A refusal: the plugin, its code, messages and reasons."""
    found = wire_status.from_message(message)
    return {
        "plugin": found.plugin,
        "code": found.code.label,
        "messages": list(found.messages),
        "reasons": [{"code": reason.code, **dict(reason.parameters)} for reason in found.reasons],
    }
