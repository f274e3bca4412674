"""Whose questions wait for whose: callers are told apart by their certificates, else by their connections."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc
import pytest

from tests.helpers.phase_calls import Aborted, context
from tests.helpers.simulated_insight import SimulatedInsight, stored
from trireme.insight import service
from trireme.insight.simulations import turns
from trireme.v1 import cycle_pb2, decision_explanation_pb2, insight_pb2, simulation_pb2

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


async def _decide(insight: SimulatedInsight, call: Any) -> Any:
    pod = cycle_pb2.PodIdentity(namespace="default", name="placed", uid="uid")
    return await insight.service.ExplainDecision(decision_explanation_pb2.ExplainDecisionRequest(pod=pod), call)


# With the most that may be answered of 200 that one caller asks at once, and of 200 callers. Those of the first kinds
# are evaluated first, some of them when others are answered.
_EVALUATED = service.EXPLANATIONS_AT_ONCE + service.MAX_WAITING_EXPLANATIONS_OF_CALLER, 200
QUESTIONS: Sequence[Any] = [
    pytest.param(_explain, 8 + 64, 200, id="explanation"),
    pytest.param(_propose, *_EVALUATED, id="proposals"),
    pytest.param(_preempt, *_EVALUATED, id="preemption"),
    pytest.param(_simulate, 1 + 8, 1 + 32, id="simulation"),
    pytest.param(_decide, 1 + 16, 1 + 64, id="decision"),
]


async def _insight() -> SimulatedInsight:
    insight = await SimulatedInsight(n0="2", n1="2").start()
    insight.builder.add_class(1, stored(cpu="9"))
    insight.queue(("large", 1))
    return insight


async def _answers(insight: SimulatedInsight, ask: Ask, calls: Sequence[Any]) -> list[bool]:
    """Which of the calls are answered; the others are refused for too many that wait, in words that say what to do."""
    results = await asyncio.gather(*(ask(insight, call) for call in calls), return_exceptions=True)
    refused = [each for each in results if isinstance(each, Aborted) and each.code is not grpc.StatusCode.NOT_FOUND]
    assert all(each.code is grpc.StatusCode.RESOURCE_EXHAUSTED for each in refused)
    assert all("wait for their answers" in str(each) or "ask again later" in str(each) for each in refused)
    assert not [each for each in results if isinstance(each, BaseException) and not isinstance(each, Aborted)]
    return [each not in refused for each in results]


@pytest.mark.parametrize(("ask", "most", "_"), QUESTIONS)
@pytest.mark.slow
async def test_connections_of_one_certificate_are_one_caller(ask: Ask, most: int, _: int) -> None:
    """A caller that opens a connection for each question would keep all others waiting, or have them refused."""
    calls = [context(peer=f"ipv4:10.0.0.1:{port}", certificate="busy") for port in range(200)]
    calls.append(context(peer="ipv4:10.0.0.2:1", certificate="other"))
    answered = await _answers(await _insight(), ask, calls)
    assert answered[-1]
    # One has its turn at once, and as many wait as may.
    assert 1 + turns.MAX_WAITING_OF_CALLER <= sum(answered[:-1]) <= most


@pytest.mark.parametrize(("ask", "_", "most"), QUESTIONS)
@pytest.mark.slow
async def test_without_a_certificate_each_connection_is_a_caller(ask: Ask, _: int, most: int) -> None:
    """Nothing else is known of it; all together are bounded."""
    calls = [context(peer=f"ipv4:10.0.0.1:{port}") for port in range(200)]
    answered = await _answers(await _insight(), ask, calls)
    assert 1 + turns.MAX_WAITING <= sum(answered) <= most


@pytest.mark.slow
async def test_all_explanations_together_are_bounded() -> None:
    """Each holds its answer about all nodes: any number of callers would use up the memory."""
    calls = [context(peer=f"ipv4:10.0.0.1:{port}") for port in range(1_000)]
    answered = await _answers(await _insight(), _explain, calls)
    assert sum(answered) == service.EXPLANATIONS_AT_ONCE + service.MAX_WAITING_EXPLANATIONS


@pytest.mark.slow
async def test_an_explanation_without_forks_does_not_wait_for_those_with() -> None:
    """It is what a person asks for first."""
    insight = await _insight()
    calls = [context(peer=f"ipv4:10.0.0.1:{port}") for port in range(20)]
    waiting = asyncio.ensure_future(_answers(insight, _propose, calls))
    while insight.service.waiting_explanations < 10:
        await asyncio.sleep(0)
    response = await _explain(insight, context(peer="ipv4:10.0.0.1:1"))
    assert not response.feasible_count
    assert not waiting.done()
    await waiting


async def test_a_caller_with_many_explanations_lets_another_one_be_answered_soon() -> None:
    """One that asks without end would have all others wait until its own questions are answered."""
    insight = await _insight()
    many = [asyncio.ensure_future(_explain(insight, context(certificate="busy"))) for _ in range(70)]
    await asyncio.sleep(0)
    await _explain(insight, context(certificate="other"))
    assert sum(each.done() for each in many) <= 2 * service.EXPLANATIONS_AT_ONCE
    await asyncio.gather(*many)
