"""Makes the call of a recorded decision again, and gives both outcomes: the recorded one, and that of now.

Also change: internal/trireme/frontend/phase_clients/remote_evaluators.py,
internal/trireme/frontend/phase_clients/recording_evaluators.py,
internal/trireme/in_process/in_process_evaluators.py (the calls of filter and score, sent, recorded and replayed).
Also change: protos/trireme/v1/decision.proto (the messages).
Also change: protos/trireme/v1/recorded_call.proto (the messages).
Also change: internal/trireme/filter/service.py (the calls).

Tests: tests/unit/replay/test_decision_replay.py.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trireme.in_process import in_process_evaluators
from trireme.remote import recorded_filter, recorded_plugins
from trireme.replay import call_outcomes, outcomes
from trireme.scheduling import ports
from trireme.snapshot import snapshot
from trireme.v1 import (
    core_pb2,
    cycle_pb2,
    decision_pb2,
    filter_pb2,
    filter_phase_pb2,
    recorded_call_pb2,
)
from trireme.wire import node_columns
from trireme.wire.phase_answers import FilterAnswer
from trireme.wire.post_filter_result import PostFilterResult


@dataclass(frozen=True, slots=True)
class MadeAgain:
    """A decision that was made again: the name of its call, and the outcomes."""

    call: str
    recorded: outcomes.Outcome
    replayed: outcomes.Outcome


class DecisionCalls:
    """Makes decisions again, one after the other: most build on the last answer of Filter."""

    def __init__(
        self,
        snap: snapshot.Snapshot,
        evaluators: in_process_evaluators.InProcessEvaluators,
        recorded: recorded_filter.RecordedAnswer,
        remote: recorded_plugins.RemoteAnswers,
    ) -> None:
        """`recorded` and `remote` are where the evaluators' remote plugins look for their answers."""
        self._snap = snap
        self._recorded = recorded
        self._remote = remote
        self._evaluators = evaluators
        # The last answer of Filter, with its class and the generation.
        self._filtered: tuple[ports.ClassKey, int, FilterAnswer] | None = None
        self._calls: Mapping[str, Callable[[decision_pb2.Decision], Awaitable[MadeAgain | None]]] = {
            "filter": self._filter,
            "nominated": self._filter_nominated,
            "place": self._place,
            "post_filter": self._run_post_filter,
            "candidates": self._list_candidates,
            "candidate_choice": self._select_candidate,
            "reserve": self._reserve,
            "group_victims": self._list_group_victims,
            "group_reprieval": self._reprieve_group_victims,
            "claim_release": self._list_releasable_claims,
            "group_placements": self._score_group_placements,
        }

    def forget_filter(self) -> None:
        """Nothing builds on the answers before this."""
        self._filtered = None

    async def make(self, decision: decision_pb2.Decision) -> MadeAgain | None:
        """Make a decision again; None: what it builds on is not there, or this release does not know its kind.

        Raises: PhaseFault, PhaseUnavailable; ValueError: its columns or remote answers do not fit together;
            MissingAnswerError: what a remote plugin answered is not recorded.
        """
        call = self._calls.get(decision.WhichOneof("decision") or "")
        if call is None:
            return None
        self._remote.take(decision)
        self._recorded.filtering = False
        self._recorded.is_of_now = self._is_filtered_for(decision)
        return await call(decision)

    async def _filter(self, decision: decision_pb2.Decision) -> MadeAgain:
        about, key = decision.filter, _key(decision)
        nominee = _pod(about.nominee) if about.HasField("nominee") else None
        preemptors = [_preemptor_pod(each) for each in about.preemptors]
        self._filtered = None
        self._recorded.take(decision.pod_class, about)
        self._recorded.filtering = True
        if about.HasField("columns") or self._recorded.pre_filter is not None:
            self._evaluators.engine.filter.evaluator.drop(*key)
        result = await self._evaluators.filter(*key, about.count, decision.generation, nominee, preemptors)
        self._filtered = key, decision.generation, result
        return MadeAgain("Filter", outcomes.recorded_filter(about), outcomes.replayed_filter(result))

    async def _filter_nominated(self, decision: decision_pb2.Decision) -> MadeAgain:
        nominees = [_pod(each.pod) for each in decision.nominated.nominees]
        slots = [each.slot for each in decision.nominated.nominees]
        found = await self._evaluators.filter_nominated(*_key(decision), decision.generation, nominees, slots)
        recorded = outcomes.admitted(decision.nominated.admitted)
        return MadeAgain("FilterNominated", recorded, outcomes.admitted(found.admitted))

    async def _place(self, decision: decision_pb2.Decision) -> MadeAgain | None:
        """Place."""
        place, names = decision.place, self._snap.nodes.names
        columns = place.capacities if place.HasField("capacities") else None
        filtered = self._filtered_for(decision, columns, place.constraints)
        if filtered is None:
            return None
        if decision.HasField("remote") or place.HasField("failure"):
            self._evaluators.engine.score.evaluator.drop(*_key(decision))
        before = list(zip(place.before_classes, place.before_slots, strict=True))
        if before:
            try:
                placed = await self._evaluators.place_after(*_key(decision), place.count, filtered, before)
            except in_process_evaluators.OtherChangesError:
                return None
        else:
            placed = await self._evaluators.place(*_key(decision), place.count, filtered, place.extra_scores)
        recorded = outcomes.recorded_placement(place, names)
        return MadeAgain("Place", recorded, outcomes.replayed_placement(placed, names))

    async def _run_post_filter(self, decision: decision_pb2.Decision) -> MadeAgain | None:
        about = decision.post_filter
        filtered = self._filtered_for(decision, about.columns if about.HasField("columns") else None)
        if filtered is None:
            return None
        pods = [_preemptor_pod(each) for each in about.preemptors]
        found = await self._evaluators.run_post_filter(*_key(decision), decision.generation, pods, filtered)
        recorded, replayed = (
            outcomes.post_filter(PostFilterResult.from_messages(each)) for each in (about.results, found.results)
        )
        return MadeAgain("RunPostFilter", recorded, replayed)

    async def _list_candidates(self, decision: decision_pb2.Decision) -> MadeAgain | None:
        """ListPreemptionCandidates."""
        about = decision.candidates
        filtered = self._filtered_for(decision, about.columns if about.HasField("columns") else None)
        if filtered is None:
            return None
        pod = _preemptor_pod(about.preemptor)
        found = await self._evaluators.list_preemption_candidates(*_key(decision), decision.generation, pod, filtered)
        recorded, replayed = (call_outcomes.candidates(each.candidates, each.answer) for each in (about, found))
        return MadeAgain("ListPreemptionCandidates", recorded, replayed)

    async def _select_candidate(self, decision: decision_pb2.Decision) -> MadeAgain | None:
        """SelectPreemptionCandidate."""
        about = decision.candidate_choice
        filtered = self._filtered_for(decision, about.columns if about.HasField("columns") else None)
        if filtered is None:
            return None
        found = await self._evaluators.select_preemption_candidate(
            *_key(decision), decision.generation, _preemptor_pod(about.preemptor), filtered, about.candidates
        )
        recorded, replayed = (
            outcomes.post_filter([PostFilterResult.from_message(each)]) for each in (about.answer, found.answer)
        )
        return MadeAgain("SelectPreemptionCandidate", recorded, replayed)

    async def _reserve(self, decision: decision_pb2.Decision) -> MadeAgain:
        about: recorded_call_pb2.ReserveDecision = decision.reserve
        found = await self._evaluators.reserve(self._cycle(decision), about.placements)
        recorded = call_outcomes.reservations(about.reservations)
        return MadeAgain("Reserve", recorded, call_outcomes.reservations(found.reservations))

    async def _list_group_victims(self, decision: decision_pb2.Decision) -> MadeAgain:
        call = self._evaluators.list_pod_group_victims
        return await self._call_about_group("ListPodGroupVictims", decision, decision.group_victims, call)

    async def _reprieve_group_victims(self, decision: decision_pb2.Decision) -> MadeAgain:
        call = self._evaluators.reprieve_pod_group_victims
        return await self._call_about_group("ReprievePodGroupVictims", decision, decision.group_reprieval, call)

    async def _list_releasable_claims(self, decision: decision_pb2.Decision) -> MadeAgain | None:
        if decision.claim_release.without_state:
            return None
        call = self._evaluators.list_releasable_claims
        return await self._call_about_group("ListReleasableClaims", decision, decision.claim_release, call)

    async def _score_group_placements(self, decision: decision_pb2.Decision) -> MadeAgain:
        call = self._evaluators.score_pod_group_placements
        return await self._call_about_group("ScorePodGroupPlacements", decision, decision.group_placements, call)

    async def _call_about_group(
        self, name: str, decision: decision_pb2.Decision, about: Any, call: Callable[[Any], Awaitable[Any]]
    ) -> MadeAgain:
        """A call about a group: `about` has its request, but for the cycle, and its response."""
        request = type(about.request)()
        request.CopyFrom(about.request)
        request.cycle.CopyFrom(self._cycle(decision))
        found = await call(request)
        return MadeAgain(name, call_outcomes.answer(about.response), call_outcomes.answer(found))

    def _cycle(self, decision: decision_pb2.Decision) -> cycle_pb2.Cycle:
        return self._evaluators.cycle(*_key(decision), decision.generation)

    def _filtered_for(
        self,
        decision: decision_pb2.Decision,
        columns: filter_pb2.NodeColumns | None,
        constraints: Sequence[filter_phase_pb2.DomainConstraint] = (),
    ) -> FilterAnswer | None:
        """The answer of Filter that a call builds on: the recorded columns, else the last one about the class."""
        if columns is not None:
            return FilterAnswer(columns=node_columns.from_message(columns), constraints=constraints)
        return self._filtered[2] if self._filtered is not None and self._is_filtered_for(decision) else None

    def _is_filtered_for(self, decision: decision_pb2.Decision) -> bool:
        return self._filtered is not None and self._filtered[:2] == (_key(decision), decision.generation)


def _key(decision: decision_pb2.Decision) -> ports.ClassKey:
    return decision.profile, decision.pod_class


def _pod(identity: cycle_pb2.PodIdentity) -> core_pb2.Pod:
    """A pod with its identity alone."""
    out = core_pb2.Pod()
    out.metadata.namespace, out.metadata.name, out.metadata.uid = identity.namespace, identity.name, identity.uid
    return out


def _preemptor_pod(preemptor: filter_phase_pb2.Preemptor) -> core_pb2.Pod:
    """The pod that preempts, with its nomination."""
    out = _pod(preemptor.pod)
    out.status.nominated_node_name = preemptor.nominated_node
    return out
