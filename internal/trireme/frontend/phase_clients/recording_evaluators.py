"""RecordingEvaluators: records the calls of other evaluators as decisions: what was called with what, and the answer.

The evaluators know nothing of it. A call that fails is no decision. Each call is a span of the pods' traces, too.

Also change: internal/trireme/frontend/phase_clients/remote_evaluators.py, internal/trireme/replay/decision_calls.py,
internal/trireme/in_process/in_process_evaluators.py (the calls of filter and score, sent, recorded and replayed).
Also change: protos/trireme/v1/decision.proto (the messages).
Also change: protos/trireme/v1/recorded_call.proto (the messages).

Tests: tests/unit/frontend/test_recording_evaluators.py, tests/unit/frontend/test_decision_log.py,
tests/contract/test_recorded_remote_answers.py, tests/unit/replay/test_decision_replay.py.
"""

import contextlib
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

from trireme.cache import placed_pod
from trireme.frontend.phase_clients import decision_log
from trireme.frontend.tracing import pod_traces
from trireme.scheduling import fit_error, ports
from trireme.v1 import (
    core_pb2,
    cycle_pb2,
    decision_pb2,
    filter_pb2,
    filter_phase_pb2,
    recorded_call_pb2,
    score_phase_pb2,
)
from trireme.wire import identities, node_columns
from trireme.wire import status as wire_status
from trireme.wire.phase_answers import FilterAnswer, PlaceAnswer

Answer = TypeVar("Answer")

_GroupRequest = (
    filter_phase_pb2.ListPodGroupVictimsRequest
    | filter_phase_pb2.ReprievePodGroupVictimsRequest
    | filter_phase_pb2.ListReleasableClaimsRequest
    | score_phase_pb2.ScorePodGroupPlacementsRequest
)
_GroupResponse = TypeVar(
    "_GroupResponse",
    filter_phase_pb2.ListPodGroupVictimsResponse,
    filter_phase_pb2.ReprievePodGroupVictimsResponse,
    filter_phase_pb2.ListReleasableClaimsResponse,
    score_phase_pb2.ScorePodGroupPlacementsResponse,
)

# The field of Decision that has a call about a group, by the call's request.
_GROUP_FIELDS: Mapping[type[_GroupRequest], str] = {
    filter_phase_pb2.ListPodGroupVictimsRequest: "group_victims",
    filter_phase_pb2.ReprievePodGroupVictimsRequest: "group_reprieval",
    filter_phase_pb2.ListReleasableClaimsRequest: "claim_release",
    score_phase_pb2.ScorePodGroupPlacementsRequest: "group_placements",
}


class RecordingEvaluators(ports.Evaluators):
    """Calls the evaluators, and adds to the log what they answer, while anybody records."""

    def __init__(
        self,
        evaluators: ports.Evaluators,
        log: decision_log.DecisionLog,
        clock: Callable[[], float],
        filters_remotely: Callable[[str], bool] = lambda profile: False,
        traces: pod_traces.PodTraces | None = None,
    ) -> None:
        """`clock` times the calls, in seconds; `filters_remotely` returns whether services filter for a profile.

        `traces` is None while tracing is off.
        """
        self._evaluators = evaluators
        self._log = log
        self._clock = clock
        self._filters_remotely = filters_remotely
        self._traces = traces
        # The last answer of filter, and the generation of that call: most calls that follow build on it.
        self._filtered: tuple[ports.ClassKey, node_columns.NodeColumns, int] | None = None

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
        """Record how many nodes refuse, by reason; all verdicts where services filter."""
        call = self._evaluators.filter(profile, class_id, count, generation, nominee, preemptors)
        answer, seconds = await self._timed("Filter", call)
        class_key = profile, class_id
        self._filtered = class_key, answer.columns, generation
        if self._log.wanted():
            about = decision_pb2.FilterDecision(
                count=count,
                preemptors=identities.preemptors(preemptors, generation),
                post_filter_results=answer.post_filter_results,
            )
            if nominee is not None:
                about.nominee.CopyFrom(identities.identity(nominee))
            self._add_verdicts(about, profile, answer)
            self._log.add(class_key, generation, decision_pb2.Decision(filter=about), seconds=seconds)
        return answer

    async def filter_nominated(
        self, profile: str, class_id: int, generation: int, nominees: Sequence[core_pb2.Pod], slots: Sequence[int]
    ) -> FilterAnswer:
        """Record how many nominated pods may have their nodes."""
        call = self._evaluators.filter_nominated(profile, class_id, generation, nominees, slots)
        answer, seconds = await self._timed("FilterNominated", call)
        if self._log.wanted():
            about = decision_pb2.NominatedDecision(
                nominees=identities.nominees(nominees, slots), admitted=answer.admitted
            )
            decision = decision_pb2.Decision(nominated=about)
            self._log.add((profile, class_id), generation, decision, seconds=seconds)
        return answer

    async def run_post_filter(
        self, profile: str, class_id: int, generation: int, pods: Sequence[core_pb2.Pod], filtered: FilterAnswer
    ) -> filter_phase_pb2.RunPostFilterResponse:
        """Record how room is to be made for the pods."""
        call = self._evaluators.run_post_filter(profile, class_id, generation, pods, filtered)
        response, seconds = await self._timed("PostFilter", call)
        if self._log.wanted():
            class_key, preemptors = (profile, class_id), identities.preemptors(pods, generation)
            about = decision_pb2.PostFilterDecision(preemptors=preemptors, results=response.results)
            generation = self._add_refusal(about, class_key, generation, filtered)
            decision = decision_pb2.Decision(post_filter=about)
            self._log.add(class_key, generation, decision, seconds=seconds, remote=response.remote_answers)
        return response

    async def list_preemption_candidates(
        self, profile: str, class_id: int, generation: int, pod: core_pb2.Pod, filtered: FilterAnswer
    ) -> filter_phase_pb2.ListPreemptionCandidatesResponse:
        """Record the nodes that extenders may choose from, or PostFilter's answer without a choice."""
        call = self._evaluators.list_preemption_candidates(profile, class_id, generation, pod, filtered)
        response, seconds = await self._timed("ListPreemptionCandidates", call)
        if self._log.wanted():
            class_key, preemptor = (profile, class_id), identities.preemptor(pod, generation)
            about = recorded_call_pb2.CandidatesDecision(preemptor=preemptor, candidates=response.candidates)
            if not response.candidates:
                about.answer.CopyFrom(response.answer)
            generation = self._add_refusal(about, class_key, generation, filtered)
            decision = decision_pb2.Decision(candidates=about)
            self._log.add(class_key, generation, decision, seconds=seconds, remote=response.remote_answers)
        return response

    async def select_preemption_candidate(
        self,
        profile: str,
        class_id: int,
        generation: int,
        pod: core_pb2.Pod,
        filtered: FilterAnswer,
        candidates: Sequence[filter_phase_pb2.PreemptionCandidate],
    ) -> filter_phase_pb2.SelectPreemptionCandidateResponse:
        """Record the choice among the nodes that extenders left."""
        call = self._evaluators.select_preemption_candidate(profile, class_id, generation, pod, filtered, candidates)
        response, seconds = await self._timed("SelectPreemptionCandidate", call)
        if self._log.wanted():
            class_key, preemptor = (profile, class_id), identities.preemptor(pod, generation)
            about = recorded_call_pb2.CandidateChoiceDecision(
                preemptor=preemptor, candidates=candidates, answer=response.answer
            )
            generation = self._add_refusal(about, class_key, generation, filtered)
            decision = decision_pb2.Decision(candidate_choice=about)
            self._log.add(class_key, generation, decision, seconds=seconds, remote=response.remote_answers)
        return response

    async def list_pod_group_victims(
        self, request: filter_phase_pb2.ListPodGroupVictimsRequest
    ) -> filter_phase_pb2.ListPodGroupVictimsResponse:
        """Record the potential victims of a group."""
        return await self._record_group_call(request, self._evaluators.list_pod_group_victims(request))

    async def reprieve_pod_group_victims(
        self, request: filter_phase_pb2.ReprievePodGroupVictimsRequest
    ) -> filter_phase_pb2.ReprievePodGroupVictimsResponse:
        """Record the victims that have to be evicted for a group."""
        return await self._record_group_call(request, self._evaluators.reprieve_pod_group_victims(request))

    async def list_releasable_claims(
        self, request: filter_phase_pb2.ListReleasableClaimsRequest
    ) -> filter_phase_pb2.ListReleasableClaimsResponse:
        """Record which claims of a group may be released."""
        return await self._record_group_call(request, self._evaluators.list_releasable_claims(request))

    async def score_pod_group_placements(
        self, request: score_phase_pb2.ScorePodGroupPlacementsRequest
    ) -> score_phase_pb2.ScorePodGroupPlacementsResponse:
        """Record the totals of a group's placements."""
        return await self._record_group_call(request, self._evaluators.score_pod_group_placements(request))

    async def place(
        self, profile: str, class_id: int, count: int, filtered: FilterAnswer, extra_scores: Sequence[int] = ()
    ) -> PlaceAnswer:
        """Record the nodes of the next pods."""
        call = self._evaluators.place(profile, class_id, count, filtered, extra_scores)
        answer, seconds = await self._timed("Place", call)
        if self._log.wanted():
            class_key, columns = (profile, class_id), filtered.columns
            about = decision_pb2.PlaceDecision(count=count, extra_scores=extra_scores, slots=answer.slots)
            if not self._is_last_answer(class_key, filtered):
                about.capacities.CopyFrom(node_columns.to_message(columns))
                about.constraints.extend(filtered.constraints)
            if answer.failure is not None:
                about.failure.CopyFrom(wire_status.to_message(answer.failure))
            decision = decision_pb2.Decision(place=about)
            self._log.add(class_key, columns.generation, decision, seconds=seconds, remote=answer.remote_answers)
        return answer

    async def place_in_turn(
        self, profile: str, wanted: Sequence[tuple[int, int]], generation: int
    ) -> Sequence[tuple[FilterAnswer, PlaceAnswer]]:
        """Record what is answered about each class as Filter and Place, with the pods that were placed before."""
        span = None if self._traces is None else self._traces.call_ahead("FilterAndPlaceClasses")
        call = self._evaluators.place_in_turn(profile, wanted, generation)
        answers, seconds = await self._timed_within(span, call)
        if not self._log.wanted():
            return answers
        classes: list[int] = []
        slots: list[int] = []
        for (class_id, count), (filtered, placed) in zip(wanted, answers, strict=False):
            class_key, columns = (profile, class_id), filtered.columns
            filter_decision = decision_pb2.Decision(filter=decision_pb2.FilterDecision(count=count))
            self._log.add(class_key, generation, filter_decision, seconds=seconds / len(answers))
            self._filtered = class_key, columns, generation
            about = decision_pb2.PlaceDecision(
                count=count, slots=placed.slots, before_classes=classes, before_slots=slots
            )
            if placed.failure is not None:
                about.failure.CopyFrom(wire_status.to_message(placed.failure))
            self._log.add(class_key, columns.generation, decision_pb2.Decision(place=about), seconds=0.0)
            classes += [class_id] * len(placed.slots)
            slots += placed.slots
        return answers

    async def reserve(
        self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement]
    ) -> filter_pb2.ReserveResponse:
        """Record what Reserve assumes beside pods. The state for PreBind says the same again, and is left out."""
        span = None
        if self._traces is not None:
            span = self._traces.call_about("Reserve", [(each.pod.uid, each.node_name) for each in placements])
        response, seconds = await self._timed_within(span, self._evaluators.reserve(cycle, placements))
        if self._log.wanted():
            about = recorded_call_pb2.ReserveDecision(placements=placements, reservations=response.reservations)
            for reservation in about.reservations:
                reservation.ClearField("state")
            class_key, decision = (cycle.profile, cycle.pod_class), decision_pb2.Decision(reserve=about)
            self._log.add(class_key, cycle.generation, decision, seconds=seconds, remote=response.remote_answers)
        return response

    async def unreserve(self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement]) -> None:
        """Record and trace nothing: it decides nothing, and the attempts have ended."""
        await self._evaluators.unreserve(cycle, placements)

    async def prepare(self, profile: str, class_id: int, generation: int) -> None:
        """Record and trace nothing: it decides nothing, and is for no pod."""
        await self._evaluators.prepare(profile, class_id, generation)

    async def _timed(self, name: str, call: Awaitable[Answer]) -> tuple[Answer, float]:
        """Await a call about the pods that were taken last, as a span of this name."""
        return await self._timed_within(None if self._traces is None else self._traces.batch_call(name), call)

    async def _timed_within(
        self, span: AbstractContextManager[pod_traces.Call | None] | None, call: Awaitable[Answer]
    ) -> tuple[Answer, float]:
        """Await a call within the span, if there is one, with the plugins below the span; also how long it took."""
        with span or contextlib.nullcontext() as traced:
            started = self._clock()
            answer = await call
            seconds = self._clock() - started
            if traced is not None:
                traced.timings = _timings(answer)
            return answer, seconds

    async def _record_group_call(self, request: _GroupRequest, call: Awaitable[_GroupResponse]) -> _GroupResponse:
        """Await a call about a pod group, and record it."""
        response, seconds = await self._timed(type(request).__name__.removesuffix("Request"), call)
        if not self._log.wanted():
            return response
        decision, cycle, remote = decision_pb2.Decision(), request.cycle, b""
        about = getattr(decision, _GROUP_FIELDS[type(request)])
        about.request.CopyFrom(request)
        about.request.ClearField("cycle")
        about.response.CopyFrom(response)
        about.response.ClearField("evaluated_generation")
        if isinstance(response, filter_phase_pb2.ReprievePodGroupVictimsResponse):
            remote = response.remote_answers
            about.response.ClearField("remote_answers")
        class_key = cycle.profile, cycle.pod_class
        self._log.add(class_key, cycle.generation, decision, seconds=seconds, remote=remote)
        return response

    def _add_verdicts(self, about: decision_pb2.FilterDecision, profile: str, answer: FilterAnswer) -> None:
        """Add why nodes refuse the pods."""
        if answer.refusal is not None:
            about.pre_filter.CopyFrom(wire_status.to_message(answer.refusal))
            return
        if answer.is_refused_everywhere(placed_pod.NO_SLOT):
            for refusing, nodes in fit_error.nodes_by_status(answer.columns.statuses, answer.columns.index):
                about.refusals.add(status=wire_status.to_message(refusing), nodes=nodes)
        if self._filters_remotely(profile):
            about.columns.CopyFrom(node_columns.to_message(answer.columns))

    def _add_refusal(
        self,
        about: decision_pb2.PostFilterDecision
        | recorded_call_pb2.CandidatesDecision
        | recorded_call_pb2.CandidateChoiceDecision,
        class_key: ports.ClassKey,
        generation: int,
        filtered: FilterAnswer,
    ) -> int:
        """Add why no node took the pods, unless Filter's last answer says it; returns the generation of the call."""
        if self._filtered is not None and self._is_last_answer(class_key, filtered):
            # Where PreFilter refused the class, the generation of the call is that of an earlier answer.
            return self._filtered[2]
        about.columns.CopyFrom(node_columns.to_message(filtered.columns))
        return generation

    def _is_last_answer(self, class_key: ports.ClassKey, filtered: FilterAnswer) -> bool:
        last = self._filtered
        return last is not None and last[0] == class_key and last[1] is filtered.columns


def _timings(answer: object) -> Sequence[filter_phase_pb2.Timing]:
    """How long extension points and plugins took for what evaluators answer."""
    match answer:
        case FilterAnswer() | PlaceAnswer():
            return answer.timings
        case list() | tuple():
            return [timing for both in answer for each in both for timing in each.timings]
    return ()
