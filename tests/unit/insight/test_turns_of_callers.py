"""Whose questions wait for whose: callers are told apart by their certificates, else by their connections."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc
import pytest
from phase_calls import Aborted, context
from simulated_insight import SimulatedInsight, stored

from trireme.insight.simulations import turns
from trireme.v1 import cycle_pb2, insight_pb2, simulation_pb2

Ask = Callable[[SimulatedInsight, Any], Awaitable[Any]]


async def _explain(insight: SimulatedInsight, call: Any, **fields: bool) -> Any:
    pod = cycle_pb2.PodIdentity(namespace="default", name="large")
    return await insight.service.Explain(insight_pb2.ExplainRequest(pod=pod, **fields), call)


async def _propose(insight: SimulatedInsight, call: Any) -> Any:
    return await _explain(insight, call, proposals=True)


async def _preempt(insight: SimulatedInsight, call: Any) -> Any:
    return await _explain(insight, call, preemption=True)


async def _simulate(insight: SimulatedInsight, call: Any) -> Any:
    return await insight.service.Simulate(simulation_pb2.SimulateRequest(scenario=simulation_pb2.Scenario()), call)


QUESTIONS: Sequence[Any] = [
    pytest.param(_propose, id="proposals"),
    pytest.param(_preempt, id="preemption"),
    pytest.param(_simulate, id="simulation"),
]


async def _insight() -> SimulatedInsight:
    insight = await SimulatedInsight(n0="2", n1="2").start()
    insight.builder.add_class(1, stored(cpu="9"))
    insight.queue(("large", 1))
    return insight


async def _answers(insight: SimulatedInsight, ask: Ask, calls: Sequence[Any]) -> list[bool]:
    """Which of the calls are answered; the others are refused for too many that wait."""
    results = await asyncio.gather(*(ask(insight, call) for call in calls), return_exceptions=True)
    refused = [each for each in results if isinstance(each, BaseException)]
    assert all(isinstance(each, Aborted) and each.code is grpc.StatusCode.RESOURCE_EXHAUSTED for each in refused)
    return [not isinstance(each, BaseException) for each in results]


@pytest.mark.parametrize("ask", QUESTIONS)
async def test_connections_of_one_certificate_are_one_caller(ask: Ask) -> None:
    """A caller that opens a connection for each question would keep all others waiting, or have them refused."""
    calls = [context(peer=f"ipv4:10.0.0.1:{port}", certificate="busy") for port in range(200)]
    calls.append(context(peer="ipv4:10.0.0.2:1", certificate="other"))
    answered = await _answers(await _insight(), ask, calls)
    assert answered[-1]
    # One has its turn at once, and as many wait as may.
    assert sum(answered[:-1]) == 1 + turns.MAX_WAITING_OF_CALLER


@pytest.mark.parametrize("ask", QUESTIONS)
async def test_without_a_certificate_each_connection_is_a_caller(ask: Ask) -> None:
    """Nothing else is known of it; all together are bounded."""
    calls = [context(peer=f"ipv4:10.0.0.1:{port}") for port in range(200)]
    answered = await _answers(await _insight(), ask, calls)
    assert sum(answered) == 1 + turns.MAX_WAITING


async def test_an_explanation_without_forks_waits_for_nobody() -> None:
    """It is what a person asks for first."""
    insight = await _insight()
    calls = [context(peer=f"ipv4:10.0.0.1:{port}") for port in range(200)]
    waiting = asyncio.ensure_future(_answers(insight, _propose, calls))
    await asyncio.sleep(0)
    response = await _explain(insight, context(peer="ipv4:10.0.0.1:1"))
    assert not response.feasible_count
    assert not waiting.done()
    await waiting
