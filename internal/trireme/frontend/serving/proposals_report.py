"""Insight's proposals for a pending pod, as JSON: `proposals` of an evaluation, and where their search stopped."""

from typing import Any

from google.protobuf import json_format

from trireme.v1 import insight_pb2

Json = dict[str, Any]


def proposals_json(response: insight_pb2.ExplainResponse) -> Json:
    """The fields of an evaluation that answer a request for proposals."""
    out: Json = {"proposals": [_proposal_json(proposal) for proposal in response.proposals]}
    if response.proposal_search_limits:
        out["proposalSearchLimits"] = [
            {"kind": _json_name(limit.kind), "tried": limit.tried, "candidates": limit.candidates}
            for limit in response.proposal_search_limits
        ]
    return out


def _proposal_json(proposal: insight_pb2.Proposal) -> Json:
    """One proposal: its change under the name of its kind, and the nodes that are feasible with it."""
    kind = str(proposal.WhichOneof("change"))
    change = json_format.MessageToDict(getattr(proposal, kind))
    if kind == "lower_request":
        lower = proposal.lower_request
        change |= {"current": lower.current.string, "proposed": lower.proposed.string}
    return {
        _json_name(kind): change,
        "feasibleNodes": proposal.feasible_count,
        "examples": list(proposal.example_nodes),
    }


def _json_name(kind: str) -> str:
    """The kind as JSON names it; one that this release does not know stays as it is."""
    field = insight_pb2.Proposal.DESCRIPTOR.fields_by_name.get(kind)
    return kind if field is None else field.json_name
