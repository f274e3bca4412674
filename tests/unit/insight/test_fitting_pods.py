"""Which waiting pods insight finds to fit, within its budget."""

from collections.abc import Iterator

import grpc
import pytest

from tests.helpers import phase_calls
from tests.helpers.phase_calls import PROFILE, Aborted, context
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from trireme.insight import fitting_pods, service
from trireme.v1 import cycle_pb2, insight_pb2

SMALL, LARGE, GONE = 1, 2, 3


class Insight:
    """Three nodes: two of them have room for small pods, and none for large ones."""

    def __init__(self) -> None:
        self.builder = SnapshotBuilder()
        for name, cpu in (("n0", "1"), ("n1", "2"), ("n2", "3")):
            self.builder.set_node(name, allocatable={"cpu": cpu, "pods": "9"})
        self.builder.add_class(SMALL, pod_of(requesting(cpu="1")))
        self.builder.add_class(LARGE, pod_of(requesting(cpu="5")))
        self.builder.place(SMALL, "n0")
        self.service = service.InsightService(self.builder.snap)

    async def start(self) -> "Insight":
        configuration = phase_calls.configuration(("NodeResourcesFit",), ())
        await phase_calls.greet(self.service, configuration)
        return self

    def request(self, *numbers: int, max_cpu_ms: int = 1000) -> insight_pb2.FindFittingPodsRequest:
        """About a pod of each of these classes."""
        pods = [
            insight_pb2.RefusedPod(
                pod=cycle_pb2.PodIdentity(namespace="default", name=f"p{index}", uid=f"uid-{index}"),
                pod_class=number,
                profile=PROFILE,
            )
            for index, number in enumerate(numbers)
        ]
        cycle = phase_calls.cycle(self.builder, 0)
        return insight_pb2.FindFittingPodsRequest(cycle=cycle, pods=pods, max_cpu_ms=max_cpu_ms)


async def test_those_that_fit_come_with_a_node_and_how_many_like_them_would_fit() -> None:
    insight = await Insight().start()
    response = await insight.service.FindFittingPods(insight.request(LARGE, SMALL, GONE), context())
    assert response.evaluated_count == 3
    (found,) = response.fitting
    assert (found.index, found.feasible_count, found.capacity) == (1, 2, 2 + 3)
    assert found.node_name in ("n1", "n2")
    assert response.cpu_ms > 0


async def test_an_older_state_or_another_leader_or_configuration_answers_nothing() -> None:
    """If this fails, a pod counts as missed that did not fit when it was refused."""
    insight = await Insight().start()
    for field, value in (("generation", 99), ("config_hash", 1)):
        request = insight.request(SMALL)
        setattr(request.cycle, field, value)
        with pytest.raises(Aborted) as caught:
            await insight.service.FindFittingPods(request, context())
        assert caught.value.code is grpc.StatusCode.FAILED_PRECONDITION
    request = insight.request(SMALL)
    request.cycle.fence.epoch = 0
    with pytest.raises(Aborted) as caught:
        await insight.service.FindFittingPods(request, context())
    assert caught.value.code is grpc.StatusCode.FAILED_PRECONDITION


def _ticks(*moments: float) -> Iterator[float]:
    yield from moments


@pytest.mark.parametrize(
    ("max_cpu_ms", "deadline", "evaluated"),
    [(1000, 100.0, 4), (250, 100.0, 2), (1, 100.0, 1), (1000, 2.0, 2)],
    ids=["enough", "budget", "one at least", "deadline"],
)
async def test_no_more_is_evaluated_once_the_time_is_up(max_cpu_ms: int, deadline: float, evaluated: int) -> None:
    """The clocks go on by 100 ms of a processor, and by a second, each time. If this fails, insight has no bound."""
    insight = await Insight().start()
    request = insight.request(SMALL, SMALL, SMALL, SMALL, max_cpu_ms=max_cpu_ms)
    cpu, clock = _ticks(*(number / 10 for number in range(20))), _ticks(*map(float, range(1, 20)))
    response = await fitting_pods.find(
        insight.service._engine, request, deadline, cpu=cpu.__next__, monotonic=clock.__next__
    )
    assert response.evaluated_count == evaluated
    assert [each.index for each in response.fitting] == list(range(evaluated))
