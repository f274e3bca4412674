"""TracedEvaluators: the calls of other evaluators as spans of pods' traces.

Tests: tests/contract/test_trace_propagation.py.
"""

from collections.abc import Awaitable, Container, Sequence
from typing import TypeVar

from trireme.frontend.tracing import pod_traces
from trireme.scheduling import ports
from trireme.v1 import core_pb2, cycle_pb2, filter_pb2, filter_phase_pb2, score_phase_pb2
from trireme.wire.phase_answers import FilterAnswer, PlaceAnswer

Answer = TypeVar("Answer")


class TracedEvaluators(ports.Evaluators):
    """Calls the evaluators, each call as a span named after it."""

    def __init__(self, evaluators: ports.Evaluators, traces: pod_traces.PodTraces) -> None:
        self._evaluators = evaluators
        self._traces = traces

    @property
    def answers(self) -> Container[ports.ClassKey]:
        """As the evaluators."""
        return self._evaluators.answers

    def cycle(self, profile: str, class_id: int, generation: int) -> cycle_pb2.Cycle:
        """As the evaluators."""
        return self._evaluators.cycle(profile, class_id, generation)

    async def filter(
        self,
        profile: str,
        class_id: int,
        count: int,
        generation: int,
        nominee: core_pb2.Pod | None = None,
        preemptors: Sequence[core_pb2.Pod] = (),
    ) -> FilterAnswer:
        """As the evaluators, with the plugins below the span."""
        with self._traces.batch_call("Filter") as call:
            answer = await self._evaluators.filter(profile, class_id, count, generation, nominee, preemptors)
            if call is not None:
                call.timings = answer.timings
            return answer

    async def filter_nominated(
        self, profile: str, class_id: int, generation: int, nominees: Sequence[core_pb2.Pod], slots: Sequence[int]
    ) -> FilterAnswer:
        """As the evaluators, with the plugins below the span."""
        with self._traces.batch_call("FilterNominated") as call:
            answer = await self._evaluators.filter_nominated(profile, class_id, generation, nominees, slots)
            if call is not None:
                call.timings = answer.timings
            return answer

    async def run_post_filter(
        self, profile: str, class_id: int, generation: int, pods: Sequence[core_pb2.Pod], filtered: FilterAnswer
    ) -> filter_phase_pb2.RunPostFilterResponse:
        """As the evaluators."""
        call = self._evaluators.run_post_filter(profile, class_id, generation, pods, filtered)
        return await self._traced("PostFilter", call)

    async def list_preemption_candidates(
        self, profile: str, class_id: int, generation: int, pod: core_pb2.Pod, filtered: FilterAnswer
    ) -> filter_phase_pb2.ListPreemptionCandidatesResponse:
        """As the evaluators."""
        call = self._evaluators.list_preemption_candidates(profile, class_id, generation, pod, filtered)
        return await self._traced("ListPreemptionCandidates", call)

    async def select_preemption_candidate(
        self,
        profile: str,
        class_id: int,
        generation: int,
        pod: core_pb2.Pod,
        filtered: FilterAnswer,
        candidates: Sequence[filter_phase_pb2.PreemptionCandidate],
    ) -> filter_phase_pb2.SelectPreemptionCandidateResponse:
        """As the evaluators."""
        call = self._evaluators.select_preemption_candidate(profile, class_id, generation, pod, filtered, candidates)
        return await self._traced("SelectPreemptionCandidate", call)

    async def list_pod_group_victims(
        self, request: filter_phase_pb2.ListPodGroupVictimsRequest
    ) -> filter_phase_pb2.ListPodGroupVictimsResponse:
        """As the evaluators."""
        return await self._traced("ListPodGroupVictims", self._evaluators.list_pod_group_victims(request))

    async def reprieve_pod_group_victims(
        self, request: filter_phase_pb2.ReprievePodGroupVictimsRequest
    ) -> filter_phase_pb2.ReprievePodGroupVictimsResponse:
        """As the evaluators."""
        return await self._traced("ReprievePodGroupVictims", self._evaluators.reprieve_pod_group_victims(request))

    async def list_releasable_claims(
        self, request: filter_phase_pb2.ListReleasableClaimsRequest
    ) -> filter_phase_pb2.ListReleasableClaimsResponse:
        """As the evaluators."""
        return await self._traced("ListReleasableClaims", self._evaluators.list_releasable_claims(request))

    async def score_pod_group_placements(
        self, request: score_phase_pb2.ScorePodGroupPlacementsRequest
    ) -> score_phase_pb2.ScorePodGroupPlacementsResponse:
        """As the evaluators."""
        return await self._traced("ScorePodGroupPlacements", self._evaluators.score_pod_group_placements(request))

    async def place(
        self, profile: str, class_id: int, count: int, filtered: FilterAnswer, extra_scores: Sequence[int] = ()
    ) -> PlaceAnswer:
        """As the evaluators, with the plugins below the span."""
        with self._traces.batch_call("Place") as call:
            answer = await self._evaluators.place(profile, class_id, count, filtered, extra_scores)
            if call is not None:
                call.timings = answer.timings
            return answer

    async def place_in_turn(
        self, profile: str, wanted: Sequence[tuple[int, int]], generation: int
    ) -> Sequence[tuple[FilterAnswer, PlaceAnswer]]:
        """As the evaluators; the pods are still in the queue."""
        with self._traces.call_ahead("FilterAndPlaceClasses") as call:
            answers = await self._evaluators.place_in_turn(profile, wanted, generation)
            call.timings = [timing for both in answers for answer in both for timing in answer.timings]
            return answers

    async def reserve(
        self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement]
    ) -> filter_pb2.ReserveResponse:
        """As the evaluators."""
        with self._traces.call_about("Reserve", ((each.pod.uid, each.node_name) for each in placements)):
            return await self._evaluators.reserve(cycle, placements)

    async def unreserve(self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement]) -> None:
        """As the evaluators, outside of traces: the attempts have ended."""
        await self._evaluators.unreserve(cycle, placements)

    async def prepare(self, profile: str, class_id: int, generation: int) -> None:
        """As the evaluators, outside of traces: it is for no pod."""
        await self._evaluators.prepare(profile, class_id, generation)

    async def _traced(self, name: str, call: Awaitable[Answer]) -> Answer:
        """Await a call about the pods that were taken last, as a span."""
        with self._traces.batch_call(name):
            return await call
