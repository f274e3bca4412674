"""Simulator: what becomes of questions that take too long, and of those beside them."""

import asyncio
import logging

import grpc
import pytest

from tests.helpers.phase_calls import context
from tests.helpers.simulated_insight import SimulatedInsight, manifest, stored
from trireme.insight.simulations import simulator
from trireme.simulation import usage
from trireme.v1 import cycle_pb2, insight_pb2, simulation_pb2


def _simulator(insight: SimulatedInsight, seconds: float) -> simulator.Simulator:
    return simulator.Simulator(insight.service.cluster, insight.service._make_simulation_setup, seconds=seconds)


def _many_pods(count: int = 50_000) -> simulation_pb2.SimulateRequest:
    request = simulation_pb2.SimulateRequest()
    change = request.scenario.changes.add().add_pods
    change.count = count
    change.manifest.update(manifest(cpu="1m"))
    return request


async def test_a_simulation_that_takes_too_long_ends_with_advice() -> None:
    """It would hold up all others forever."""
    insight = await SimulatedInsight(n0="9").start()
    simulating = _simulator(insight, 0.05)
    with pytest.raises(simulator.SimulationError, match="fewer pods or nodes") as caught:
        await simulating.simulate(_many_pods(), "a")
    assert caught.value.code is grpc.StatusCode.DEADLINE_EXCEEDED
    small = simulation_pb2.SimulateRequest(scenario=simulation_pb2.Scenario())
    assert (await _simulator(insight, 60.0).simulate(small, "a")).before.node_count == 1


@pytest.mark.slow
async def test_explanations_are_answered_during_a_simulation() -> None:
    """A replica that simulates would look dead to everybody else."""
    insight = await SimulatedInsight(n0="9").start()
    insight.builder.add_class(1, stored())
    insight.queue(("waits", 1))
    running = asyncio.ensure_future(_simulator(insight, 60.0).simulate(_many_pods(3000), "a"))
    pod = cycle_pb2.PodIdentity(namespace="default", name="waits")
    answered = 0
    while not running.done():
        response = await insight.service.Explain(insight_pb2.ExplainRequest(pod=pod), context())
        assert response.feasible_count == 1
        answered += 1
        await asyncio.sleep(0)
    assert len(running.result().placements) == 20
    assert answered > 20


@pytest.mark.slow
async def test_too_many_questions_are_refused_and_the_rest_answered() -> None:
    """10,000 at once would fill the memory of the replica."""
    insight = await SimulatedInsight(n0="9").start()
    simulating = _simulator(insight, 60.0)
    request = simulation_pb2.SimulateRequest(scenario=simulation_pb2.Scenario())
    results = await asyncio.gather(
        *(simulating.simulate(request, f"caller-{number % 40}") for number in range(1000)), return_exceptions=True
    )
    refused = [each for each in results if isinstance(each, simulator.SimulationError)]
    answered = [each for each in results if isinstance(each, simulation_pb2.SimulateResponse)]
    assert len(refused) + len(answered) == 1000
    assert len(answered) == 33
    assert {each.code for each in refused} == {grpc.StatusCode.RESOURCE_EXHAUSTED}


@pytest.mark.slow
async def test_the_cluster_may_change_during_a_simulation() -> None:
    """The answer is about the state that it names; deltas are applied meanwhile."""
    insight = await SimulatedInsight(n0="2").start()
    request = simulation_pb2.SimulateRequest()
    change = request.scenario.changes.add().add_pods
    change.count = 3000
    change.manifest.update(manifest(cpu="1"))
    began = insight.builder.snap.generation
    running = asyncio.ensure_future(_simulator(insight, 60.0).simulate(request, "a"))
    for _ in range(5):
        await asyncio.sleep(0)
    insight.builder.set_node("n1", allocatable={"cpu": "99", "memory": "8Gi", "pods": "99"})
    answer = await running
    assert answer.evaluated_generation == began
    assert len(answer.placements) == 2
    assert answer.after.node_count == 1


async def test_an_unexpected_error_is_internal_and_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Callers would have UNKNOWN and the name of an exception, and the operator a traceback of gRPC."""
    insight = await SimulatedInsight(n0="9").start()

    def fail(*_: object) -> None:
        raise ValueError("Value out of range: -5")

    with monkeypatch.context() as patched, caplog.at_level(logging.ERROR):
        patched.setattr(usage, "measure", fail)
        code, text = await insight.refusal(scenario={})
    assert code is grpc.StatusCode.INTERNAL
    assert "the simulation failed by an error of insight, which is in its log" in text
    assert "ValueError" not in text
    (record,) = caplog.records
    assert record.exc_info is not None
    assert "out of range" in str(record.exc_info[1])
    # The turn was passed on.
    assert (await insight.ask(scenario={})).before.node_count == 1
