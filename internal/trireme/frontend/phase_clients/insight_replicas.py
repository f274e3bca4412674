"""The replicas of insight, which follow the cluster and the queue and explain pods. Scheduling never waits for them.

Also change: protos/trireme/v1/insight.proto (the service).

Tests: tests/unit/frontend/test_insight_replicas.py, tests/contract/test_insight_explanations.py,
tests/contract/test_insight_status_feed.py.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc
from google.protobuf import message
from grpc import aio

from trireme.frontend.phase_clients import decision_log, follower_replicas, replica_link
from trireme.rpc import dialing
from trireme.v1 import (
    decision_explanation_pb2,
    insight_pb2,
    insight_pb2_grpc,
    scheduler_status_pb2,
    simulation_pb2,
    snapshot_pb2,
)

# A simulation has an answer, or an error of insight's own, before.
SIMULATION_SECONDS = 60.0

# About the request: another replica would say the same.
_REFUSALS = frozenset({grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INVALID_ARGUMENT})


class InsightUnavailable(Exception):
    """No replica of insight answers; the text says why."""


class InsightRefusal(Exception):
    """Insight cannot answer this request: the code of the call, and a text that says what is wrong with it."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class InsightReplicas:
    """Streams to the replicas of insight, and calls to them. It is also where their streams begin."""

    def __init__(
        self,
        source: replica_link.StreamSource,
        dialer: dialing.Dialer,
        deadline_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        """`source` is where streams of phases begin."""
        self._source = source
        self._new_stream = False
        #: How many streams have begun.
        self.streams = 0
        self._decisions: decision_log.DecisionLog | None = None
        self.replicas = follower_replicas.FollowerReplicas(
            "insight", self, dialer, deadline_seconds, clock, lambda: None, takes_decisions=True
        )

    def hello(self) -> snapshot_pb2.Hello:
        """The first message to a replica, as a phase gets it."""
        return self._source.hello()

    def full_sync(self) -> Sequence[bytes]:
        """The deltas of a full sync, as a phase gets them. The queue is due after it (`take_new_stream`)."""
        self._new_stream = True
        self.streams += 1
        return self._source.full_sync()

    def take_new_stream(self) -> bool:
        """Return whether a stream began since the last call: all of the queue is to be sent then."""
        new, self._new_stream = self._new_stream, False
        return new

    @property
    def backlog_bytes(self) -> int:
        """How much waits for the replica that has most left to read."""
        return max((link.backlog_bytes for link in self.replicas.statistics()), default=0)

    def publish_queue(self, delta: snapshot_pb2.QueueDelta, generation: int) -> None:
        """Send what changed in the queue; `generation` is that of the last delta of the cluster."""
        self.replicas.publish(snapshot_pb2.SyncRequest(queue=delta).SerializeToString(), generation)

    def publish_status(self, status: scheduler_status_pb2.SchedulerStatus, generation: int) -> None:
        """Send the state of the scheduler; `generation` is that of the last delta of the cluster."""
        self.publish_queue(snapshot_pb2.QueueDelta(scheduler_status=status), generation)

    def send_decisions(self, decisions: decision_log.DecisionLog) -> None:
        """Send replicas that take decisions those of the log from now on, each with the next message."""
        self._decisions = decisions
        self.replicas.take_decisions = decisions.take
        decisions.wanted = lambda: self.replicas.takes_decisions

    def publish_waiting_decisions(self, generation: int) -> None:
        """Send decisions that no message has taken, as after pods that were refused: nothing changed since."""
        if self._decisions is not None and self._decisions.waiting:
            self.publish_queue(snapshot_pb2.QueueDelta(), generation)

    async def explain(self, request: insight_pb2.ExplainRequest) -> insight_pb2.ExplainResponse:
        """Why a pod waits, as the first replica says that answers. Raises: as `_call` does."""
        response: insight_pb2.ExplainResponse = await self._call(lambda stub: stub.Explain, request)
        return response

    async def find_fitting_pods(
        self, request: insight_pb2.FindFittingPodsRequest
    ) -> insight_pb2.FindFittingPodsResponse:
        """Which of some waiting pods a node would take, as the first replica says that answers. Raises: as `_call`."""
        answer: insight_pb2.FindFittingPodsResponse = await self._call(lambda stub: stub.FindFittingPods, request)
        return answer

    async def explain_decision(
        self, request: decision_explanation_pb2.ExplainDecisionRequest
    ) -> decision_explanation_pb2.ExplainDecisionResponse:
        """By which decision a pod got its node, as the first replica says that answers. Raises: as `_call` does."""
        answer: decision_explanation_pb2.ExplainDecisionResponse = await self._call(
            lambda stub: stub.ExplainDecision, request
        )
        return answer

    async def simulate(self, request: simulation_pb2.SimulateRequest) -> simulation_pb2.SimulateResponse:
        """What the scheduler would do, as the first replica says that answers. Raises: as `_call` does."""
        answer: simulation_pb2.SimulateResponse = await self._call(
            lambda stub: stub.Simulate, request, SIMULATION_SECONDS, _REFUSALS | {grpc.StatusCode.DEADLINE_EXCEEDED}
        )
        return answer

    async def _call(
        self,
        method: "Callable[[insight_pb2_grpc.InsightServiceAsyncStub], Callable[..., Awaitable[Any]]]",
        request: message.Message,
        seconds: float | None = None,
        refusals: frozenset[grpc.StatusCode] = _REFUSALS,
    ) -> Any:
        """Return the answer of the first replica that has one; there are no retries after the last.

        Raises:
            InsightRefusal: insight knows no such pod or node; no other replica is called.
            InsightUnavailable: no replica is in step, or all of them failed.
        """
        problem = "no replica of insight is in step"
        for link in self.replicas.preferred("", 0):
            stub = link.stub(insight_pb2_grpc.InsightServiceStub)
            try:
                response = await method(stub)(request, timeout=seconds or self.replicas.deadline_seconds)
            except aio.AioRpcError as error:
                problem = f"{link.address}: {link.error_text(error)}"
                if error.code() in refusals:
                    raise InsightRefusal(error.code(), error.details() or error.code().name) from error
            else:
                return response
        raise InsightUnavailable(problem)
