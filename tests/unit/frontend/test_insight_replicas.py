"""InsightReplicas: which replica answers, what is an error of the request, and what its streams are sent."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from grpc import aio

from trireme.frontend.phase_clients import decision_log, insight_replicas
from trireme.rpc import dialing
from trireme.v1 import (
    decision_explanation_pb2,
    insight_pb2,
    scheduler_status_pb2,
    simulation_pb2,
    snapshot_pb2,
)

Code = grpc.StatusCode
DEADLINE = 7.0


class Link:
    """A replica that fails with a code, or answers; `calls` are the RPC and the timeout of each."""

    def __init__(self, address: str, code: grpc.StatusCode | None, details: str) -> None:
        self.address = address
        self._code, self._details = code, details
        self.calls: list[tuple[str, float]] = []

    def stub(self, make: Callable[[Any], Any]) -> Any:
        return make(self)

    def unary_unary(self, path: str, *_: object, **__: object) -> Callable[..., Awaitable[Any]]:
        async def call(request: object, timeout: float) -> Any:
            self.calls.append((path.rpartition("/")[2], timeout))
            if self._code is not None:
                raise aio.AioRpcError(self._code, aio.Metadata(), aio.Metadata(), self._details)
            return self.address

        return call

    def error_text(self, error: aio.AioRpcError) -> str:
        return error.code().name


class Source:
    """Where the streams of phases begin."""

    def hello(self) -> snapshot_pb2.Hello:
        return snapshot_pb2.Hello(config_hash=7)

    def full_sync(self) -> list[bytes]:
        return [b"all"]


def insight_of(
    *codes: grpc.StatusCode | None, details: str = "why"
) -> tuple[insight_replicas.InsightReplicas, list[Link]]:
    insight = insight_replicas.InsightReplicas(Source(), dialing.Dialer(), DEADLINE, lambda: 0.0)
    links = [Link(f"i{number}", code, details) for number, code in enumerate(codes)]
    replicas: Any = insight.replicas
    replicas.preferred = lambda *_: links
    return insight, links


CALLS: dict[str, Callable[[insight_replicas.InsightReplicas], Awaitable[Any]]] = {
    "Explain": lambda it: it.explain(insight_pb2.ExplainRequest()),
    "FindFittingPods": lambda it: it.find_fitting_pods(insight_pb2.FindFittingPodsRequest()),
    "ExplainDecision": lambda it: it.explain_decision(decision_explanation_pb2.ExplainDecisionRequest()),
    "Simulate": lambda it: it.simulate(simulation_pb2.SimulateRequest()),
}


@pytest.mark.parametrize("rpc", CALLS)
async def test_the_first_replica_that_answers_is_the_last_that_is_called(rpc: str) -> None:
    insight, links = insight_of(Code.UNAVAILABLE, None, None)
    answer: Any = await CALLS[rpc](insight)
    assert answer == "i1"
    seconds = insight_replicas.SIMULATION_SECONDS if rpc == "Simulate" else DEADLINE
    assert [link.calls for link in links] == [[(rpc, seconds)], [(rpc, seconds)], []]


@pytest.mark.parametrize("code", [Code.NOT_FOUND, Code.INVALID_ARGUMENT, Code.DEADLINE_EXCEEDED, Code.INTERNAL])
@pytest.mark.parametrize("rpc", CALLS)
async def test_what_is_wrong_with_the_request_is_asked_of_no_other_replica(rpc: str, code: grpc.StatusCode) -> None:
    """A simulation that took too long would take as long again on each of them."""
    for details in ("why", ""):
        insight, links = insight_of(code, Code.UNKNOWN, details=details)
        refused = code in (Code.NOT_FOUND, Code.INVALID_ARGUMENT)
        refused = refused or (rpc == "Simulate" and code is Code.DEADLINE_EXCEEDED)
        with pytest.raises(
            insight_replicas.InsightRefusal if refused else insight_replicas.InsightUnavailable
        ) as raised:
            await CALLS[rpc](insight)
        assert str(raised.value) == ((details or code.name) if refused else "i1: UNKNOWN")
        assert len(links[1].calls) == (0 if refused else 1)
        if isinstance(raised.value, insight_replicas.InsightRefusal):
            assert raised.value.code is code


async def test_without_a_replica_in_step_there_is_no_answer() -> None:
    insight, _ = insight_of()
    with pytest.raises(insight_replicas.InsightUnavailable, match="no replica of insight is in step"):
        await CALLS["Explain"](insight)


async def test_each_stream_that_begins_has_the_queue_sent_once() -> None:
    insight, _ = insight_of()
    assert not insight.take_new_stream()
    for streams in (1, 2):
        assert list(insight.full_sync()) == [b"all"]
        assert insight.streams == streams
        assert (insight.take_new_stream(), insight.take_new_stream()) == (True, False)
    assert insight.hello().config_hash == 7


@pytest.mark.parametrize(("backlogs", "most"), [((), 0), ((3,), 3), ((3, 9, 5), 9)])
async def test_the_backlog_is_that_of_the_replica_with_most_left_to_read(backlogs: tuple[int, ...], most: int) -> None:
    insight, _ = insight_of()
    replicas: Any = insight.replicas
    replicas.statistics = lambda: [SimpleNamespace(backlog_bytes=each) for each in backlogs]
    assert insight.backlog_bytes == most


async def test_decisions_go_with_the_next_message_and_none_is_sent_for_nothing() -> None:
    insight, _ = insight_of()
    sent: list[tuple[snapshot_pb2.SyncRequest, int, bytes]] = []
    replicas: Any = insight.replicas
    replicas._tasks = {"i": None}
    replicas._links = {
        "i": SimpleNamespace(
            publish=lambda request, *rest: sent.append((snapshot_pb2.SyncRequest.FromString(request), *rest)),
            streaming=True,
            takes_decisions=True,
        )
    }
    insight.publish_waiting_decisions(3)
    log = decision_log.DecisionLog(lambda: 3)
    assert not log.wanted()
    insight.send_decisions(log)
    assert log.wanted()
    insight.publish_waiting_decisions(3)
    assert sent == []
    log.add_placed(("p", 1), 3, [("u", 0)])
    insight.publish_waiting_decisions(4)
    ((request, generation, decisions),) = sent
    assert (request.HasField("queue"), generation, bool(decisions)) == (True, 4, True)
    insight.publish_status(scheduler_status_pb2.SchedulerStatus(leader="l"), 5)
    assert (sent[1][0].queue.scheduler_status.leader, sent[1][1:]) == ("l", (5, b""))


async def test_a_replica_of_insight_is_assumed_to_take_decisions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those before its first acknowledgement would be in no recording."""
    assumed: list[bool] = []

    def make_link(*_: object, takes_decisions: bool) -> Any:
        assumed.append(takes_decisions)
        return SimpleNamespace(run=asyncio.Event().wait, close=asyncio.Event().wait)

    monkeypatch.setattr("trireme.frontend.phase_clients.replica_link.ReplicaLink", make_link)
    insight, _ = insight_of()
    insight.replicas.set_endpoints(["i:1"])
    await insight.replicas.supervisor.close()
    assert assumed == [True]
