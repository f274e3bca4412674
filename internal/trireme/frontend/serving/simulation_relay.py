"""Has insight answer a simulation: JSON in, JSON out, as over insight's own HTTP API.

Also change: internal/trireme/insight/http_api/simulation_page.py (what a request may have).
Also change: protos/trireme/v1/simulation.proto (the messages).

Tests: tests/contract/test_insight_explanations.py.
"""

from collections.abc import Sequence

from google.protobuf import json_format

from trireme.frontend.phase_clients import insight_replicas
from trireme.v1 import simulation_pb2


class BadSimulationRequest(ValueError):
    """The body is no SimulateRequest; the text says why."""


async def simulate(
    insight: insight_replicas.InsightReplicas, body: bytes, extenders: Sequence[str]
) -> simulation_pb2.SimulateResponse:
    """The answer. `extenders` are the URLs of HTTP extenders, which no simulation calls.

    Raises: BadSimulationRequest, InsightRefusal, InsightUnavailable.
    """
    try:
        request = json_format.Parse(body, simulation_pb2.SimulateRequest())
    except (json_format.ParseError, UnicodeDecodeError, RecursionError) as error:
        raise BadSimulationRequest(f"the body is no SimulateRequest: {error}") from error
    response = await insight.simulate(request)
    if extenders:
        response.not_simulated.append(f"HTTP extenders: {', '.join(extenders)}")
    return response
