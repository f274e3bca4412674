"""The explanation of a pod: insight's answer, to which the frontend adds what it knows itself (`scheduler`).

Tests: tests/contract/test_insight_explanations.py.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import grpc

from trireme.frontend.phase_clients import insight_replicas
from trireme.v1 import decision_explanation_pb2, insight_pb2

Query: TypeAlias = Mapping[str, Sequence[str]]

# More nodes than any cluster has.
_ALL_NODES = 1 << 31


class BadQuery(ValueError):
    """The query is wrong; the text names the field."""


async def with_insight(
    own: insight_pb2.ExplainResponse,
    query: Query,
    insight: insight_replicas.InsightReplicas | None,
    extenders: Sequence[str],
) -> insight_pb2.ExplainResponse:
    """The frontend's `own` explanation with insight's: the evaluation of a pending pod, the decision about a bound one.

    If insight does not answer, `insight_error` says why. `extenders` are the URLs of HTTP extenders, which insight does
    not call. The query has `nodes` (names with commas), and `proposals`, `preemption` and `allNodes` (`true`).
    Raises: BadQuery.
    """
    if insight is None:
        requested = [name for name in ("nodes", "proposals", "allNodes") if _first(query, name) not in ("", "false")]
        if requested:
            raise BadQuery(f"{requested[0]}: requires insight: set insight.endpoints")
        return own
    try:
        match own.scheduler.WhichOneof("state"):
            case "pending":
                return await _with_evaluation(own, query, insight, extenders)
            case "bound":
                own.decision.CopyFrom(await insight.explain_decision(_decision_request(own, query)))
    except insight_replicas.InsightRefusal as error:
        if error.code is grpc.StatusCode.INVALID_ARGUMENT:
            raise BadQuery(str(error)) from error
        own.insight_error = str(error)
    except insight_replicas.InsightUnavailable as error:
        own.insight_error = str(error)
    return own


async def _with_evaluation(
    own: insight_pb2.ExplainResponse, query: Query, insight: insight_replicas.InsightReplicas, extenders: Sequence[str]
) -> insight_pb2.ExplainResponse:
    """Insight's evaluation with what the frontend knows of the pod. Raises: InsightUnavailable, InsightRefusal."""
    request = insight_pb2.ExplainRequest(
        pod=own.pod,
        nodes=_node_names(query),
        scores=True,
        proposals=_is_true(query, "proposals"),
        preemption=_is_true(query, "preemption"),
    )
    out = await insight.explain(request)
    if extenders and out.HasField("queued_pod"):
        out.not_known.append(f"what HTTP extenders would refuse: {', '.join(extenders)}")
    out.MergeFrom(own)
    return out


def _decision_request(
    own: insight_pb2.ExplainResponse, query: Query
) -> decision_explanation_pb2.ExplainDecisionRequest:
    """The request for the decision by which the pod got its node."""
    limit = _ALL_NODES if _is_true(query, "allNodes") else 0
    return decision_explanation_pb2.ExplainDecisionRequest(
        pod=own.pod, nodes=_node_names(query), max_feasible_nodes=limit
    )


def _node_names(query: Query) -> Sequence[str]:
    """The nodes that the answer is to be about; none: all."""
    return [name for name in _first(query, "nodes").split(",") if name]


def _is_true(query: Query, name: str) -> bool:
    return _first(query, name) == "true"


def _first(query: Query, name: str) -> str:
    """The first value of the name; empty: there is none."""
    return next(iter(query.get(name, ())), "")
