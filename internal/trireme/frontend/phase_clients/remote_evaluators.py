"""The evaluators of scheduling as gRPC clients: calls to filter and score, with patches if one has the rest.

Also change: internal/trireme/frontend/phase_clients/recording_evaluators.py, internal/trireme/replay/decision_calls.py,
internal/trireme/in_process/in_process_evaluators.py (the calls of filter and score, sent, recorded and replayed).
Also change: protos/trireme/v1/filter_phase.proto (the messages).
Also change: protos/trireme/v1/score_phase.proto (the messages).

Tests: tests/unit/frontend/test_remote_evaluators.py, tests/unit/frontend/test_stale_answers.py,
tests/contract/test_phase_contract.py.
"""

from collections.abc import Awaitable, Callable, Container, Sequence
from typing import Protocol, TypeVar

import grpc
from google.protobuf import message
from grpc import aio

from trireme.framework import status
from trireme.frontend import scheduler_metrics
from trireme.frontend.phase_clients import class_answers, follower_replicas, replica_link
from trireme.scheduling import ports
from trireme.v1 import (
    core_pb2,
    cycle_pb2,
    filter_pb2,
    filter_phase_pb2,
    filter_phase_pb2_grpc,
    score_phase_pb2,
    score_phase_pb2_grpc,
)
from trireme.wire import identities, node_columns, phase_answers
from trireme.wire import status as wire_status
from trireme.wire.phase_answers import FilterAnswer, PlaceAnswer

Answer = TypeVar("Answer")


class _HasEvaluatedGeneration(Protocol):
    """An answer that was computed from a snapshot."""

    @property
    def evaluated_generation(self) -> int:
        """The snapshot's generation."""
        ...


Evaluated = TypeVar("Evaluated", bound=_HasEvaluatedGeneration)


class RemoteEvaluators:
    """The evaluators of scheduling, which call the replicas of filter and score.

    `fence` returns the current leadership for each call, `config_hash` the hash of the configuration in force, and
    `wants_remote_answers` whether phases are to return what remote plugins answer in calls about a profile.
    """

    def __init__(
        self,
        filters: follower_replicas.FollowerReplicas,
        scores: follower_replicas.FollowerReplicas,
        answers: class_answers.ClassAnswers,
        fence: Callable[[], cycle_pb2.Fence],
        config_hash: Callable[[], int],
        wants_remote_answers: Callable[[str], bool],
        *,
        metrics: scheduler_metrics.SchedulerMetrics,
    ) -> None:
        self._filters = filters
        self._scores = scores
        self._answers = answers
        self._fence = fence
        self._config_hash = config_hash
        self._wants_remote_answers = wants_remote_answers
        self._metrics = metrics

    @property
    def answers(self) -> Container[ports.ClassKey]:
        """The classes whose last answer is cached here."""
        return self._answers

    def cycle(self, profile: str, class_id: int, generation: int) -> cycle_pb2.Cycle:
        """Make the context of a call: class, generation, our leadership and the configuration's hash."""
        return cycle_pb2.Cycle(
            fence=self._fence(),
            generation=generation,
            config_hash=self._config_hash(),
            profile=profile,
            pod_class=class_id,
            wants_remote_answers=self._wants_remote_answers(profile),
        )

    async def filter(
        self,
        profile: str,
        class_id: int,
        count: int,
        generation: int,
        nominee: core_pb2.Pod | None = None,
        preemptors: Sequence[core_pb2.Pod] = (),
    ) -> FilterAnswer:
        """Call Filter about the class, or about `nominee` alone, whose answer is not cached.

        A replica that gave the last complete answer sends only what changed.
        """
        # An answer about a nominated pod holds for that pod alone, so it is not kept for its class.
        known = self._answers.get_or_add((profile, class_id)) if nominee is None else class_answers.ClassAnswer()
        request = filter_phase_pb2.FilterPhaseFilterRequest(
            cycle=self.cycle(profile, class_id, generation),
            count=count,
            preemptors=identities.preemptors(preemptors, generation),
        )
        if nominee is not None:
            request.cycle.pod.CopyFrom(nominee)

        response, source = await self._filter(request, known)
        _check_generation("filter", response.evaluated_generation, generation)
        try:
            answer = phase_answers.filter_answer(response, known.columns)
        except ValueError as error:
            raise ports.PhaseFault(f"filter answered columns that do not fit together: {error}") from error
        if answer.refusal is None:
            known.source = source
        return answer

    async def _filter(
        self, request: filter_phase_pb2.FilterPhaseFilterRequest, known: class_answers.ClassAnswer
    ) -> tuple[filter_phase_pb2.FilterPhaseFilterResponse, tuple[str, int]]:
        """Call Filter; returns the response, and the identity of the replica that sent it.

        `known` is the class's last complete answer: the replica that gave it sends a patch to it, any other a whole
        column.
        """
        answered_by: list[tuple[str, int]] = []

        async def call_filter(link: replica_link.ReplicaLink) -> filter_phase_pb2.FilterPhaseFilterResponse:
            request.base_generation = known.base_generation_for(link.identity)
            stub = link.stub(filter_phase_pb2_grpc.FilterPhaseStub)
            response = await stub.Filter(request, timeout=self._filters.deadline_seconds)
            answered_by.append(link.identity)
            return response

        answering = self._filters.call(request.cycle.profile, request.cycle.pod_class, call_filter)
        response = await self._measure_and_map_errors("filter", "Filter", answering)
        return response, answered_by[-1]

    async def filter_nominated(
        self, profile: str, class_id: int, generation: int, nominees: Sequence[core_pb2.Pod], slots: Sequence[int]
    ) -> FilterAnswer:
        """Ask filter how many of the nominees, from the first, may all go to the slots that they are nominated for.

        Raises: PhaseUnavailable; PhaseFault, also if filter admits more pods than were named.
        """
        request = filter_phase_pb2.FilterNominatedRequest(
            cycle=self.cycle(profile, class_id, generation), nominees=identities.nominees(nominees, slots)
        )
        response = await self._call_filter_checking_generation(
            "FilterNominated", request.cycle, lambda stub: stub.FilterNominated, request
        )
        if response.admitted > len(slots):
            raise ports.PhaseFault(f"filter admitted {response.admitted} of {len(slots)} nominated pods")
        return phase_answers.nominated_answer(response, generation)

    async def run_post_filter(
        self, profile: str, class_id: int, generation: int, pods: Sequence[core_pb2.Pod], filtered: FilterAnswer
    ) -> filter_phase_pb2.RunPostFilterResponse:
        """Have filter run PostFilter for pods that fit nowhere; the response has results for the first ones."""
        request = filter_phase_pb2.RunPostFilterRequest(
            cycle=self.cycle(profile, class_id, generation), preemptors=identities.preemptors(pods, generation)
        )
        _add_refusal(request, filtered)
        response = await self._call_filter_checking_generation(
            "RunPostFilter", request.cycle, lambda stub: stub.RunPostFilter, request
        )
        if not 1 <= len(response.results) <= len(pods):
            raise ports.PhaseFault(f"filter answered {len(response.results)} PostFilter results for {len(pods)} pods")
        return response

    async def list_preemption_candidates(
        self, profile: str, class_id: int, generation: int, pod: core_pb2.Pod, filtered: FilterAnswer
    ) -> filter_phase_pb2.ListPreemptionCandidatesResponse:
        """Have filter list the nodes that preemption may choose from; PostFilter's answer instead if there is none."""
        request = filter_phase_pb2.ListPreemptionCandidatesRequest(
            cycle=self.cycle(profile, class_id, generation), preemptor=identities.preemptor(pod, generation)
        )
        _add_refusal(request, filtered)
        rpc = "ListPreemptionCandidates"
        return await self._call_filter_checking_generation(
            rpc, request.cycle, lambda stub: stub.ListPreemptionCandidates, request
        )

    async def select_preemption_candidate(
        self,
        profile: str,
        class_id: int,
        generation: int,
        pod: core_pb2.Pod,
        filtered: FilterAnswer,
        candidates: Sequence[filter_phase_pb2.PreemptionCandidate],
    ) -> filter_phase_pb2.SelectPreemptionCandidateResponse:
        """Have filter run PostFilter for the pod, where preemption may choose among the candidates alone."""
        request = filter_phase_pb2.SelectPreemptionCandidateRequest(
            cycle=self.cycle(profile, class_id, generation),
            preemptor=identities.preemptor(pod, generation),
            candidates=candidates,
        )
        _add_refusal(request, filtered)
        rpc = "SelectPreemptionCandidate"
        return await self._call_filter_checking_generation(
            rpc, request.cycle, lambda stub: stub.SelectPreemptionCandidate, request
        )

    async def list_pod_group_victims(
        self, request: filter_phase_pb2.ListPodGroupVictimsRequest
    ) -> filter_phase_pb2.ListPodGroupVictimsResponse:
        """Have filter list the pods and groups that may be evicted for a group."""
        return await self._call_filter_checking_generation(
            "ListPodGroupVictims", request.cycle, lambda stub: stub.ListPodGroupVictims, request
        )

    async def reprieve_pod_group_victims(
        self, request: filter_phase_pb2.ReprievePodGroupVictimsRequest
    ) -> filter_phase_pb2.ReprievePodGroupVictimsResponse:
        """Have filter list the victims that still have to be evicted for a group whose pods were placed."""
        return await self._call_filter_checking_generation(
            "ReprievePodGroupVictims", request.cycle, lambda stub: stub.ReprievePodGroupVictims, request
        )

    async def list_releasable_claims(
        self, request: filter_phase_pb2.ListReleasableClaimsRequest
    ) -> filter_phase_pb2.ListReleasableClaimsResponse:
        """Have filter list the claims of a group that may be released, as no node can use them as they are."""
        return await self._call_filter_checking_generation(
            "ListReleasableClaims", request.cycle, lambda stub: stub.ListReleasableClaims, request
        )

    async def score_pod_group_placements(
        self, request: score_phase_pb2.ScorePodGroupPlacementsRequest
    ) -> score_phase_pb2.ScorePodGroupPlacementsResponse:
        """Have score rate each placement of a group.

        Raises: PhaseUnavailable; PhaseFault, also if a successful answer has not one total for each placement.
        """

        async def call_score_placements(
            link: replica_link.ReplicaLink,
        ) -> score_phase_pb2.ScorePodGroupPlacementsResponse:
            stub = link.stub(score_phase_pb2_grpc.ScorePhaseStub)
            return await stub.ScorePodGroupPlacements(request, timeout=self._scores.deadline_seconds)

        cycle = request.cycle
        answering = self._scores.call(cycle.profile, cycle.pod_class, call_score_placements)
        response = await self._measure_and_map_errors("score", "ScorePodGroupPlacements", answering)
        _check_generation("score", response.evaluated_generation, cycle.generation)
        succeeded = wire_status.from_message(response.status).code is status.Code.SUCCESS
        if succeeded and len(response.totals) != len(request.placements):
            raise ports.PhaseFault(
                f"score answered {len(response.totals)} totals for {len(request.placements)} placements"
            )
        return response

    async def place(
        self, profile: str, class_id: int, count: int, filtered: FilterAnswer, extra_scores: Sequence[int] = ()
    ) -> PlaceAnswer:
        """Have score choose slots for the next pods; a replica that has the last capacities gets what changed.

        One that has lost them (FAILED_PRECONDITION) gets all of them, in a second call.
        """
        key = (profile, class_id)
        generation = filtered.columns.generation

        async def call_place(link: replica_link.ReplicaLink) -> score_phase_pb2.PlaceResponse:
            request = score_phase_pb2.PlaceRequest(
                cycle=self.cycle(profile, class_id, generation),
                count=count,
                constraints=filtered.constraints,
                extra_scores=extra_scores,
                seed=generation,
            )
            return await self._place_with_capacities(link, key, filtered, request)

        response = await self._measure_and_map_errors(
            "score", "Place", self._scores.call(profile, class_id, call_place)
        )
        _check_generation("score", response.evaluated_generation, generation)
        return phase_answers.place_answer(response)

    async def place_in_turn(
        self, profile: str, wanted: Sequence[tuple[int, int]], generation: int
    ) -> Sequence[tuple[FilterAnswer, PlaceAnswer]]:
        """Have filter, and then score, answer about the classes, in a call of each.

        Raises: PhaseUnavailable; PhaseFault.
        """
        filtered = await self._filter_classes(profile, wanted, generation)
        if not filtered:
            return ()
        cycle = self.cycle(profile, 0, filtered[0].columns.generation)

        async def call_place_classes(link: replica_link.ReplicaLink) -> score_phase_pb2.PlaceClassesResponse:
            request = score_phase_pb2.PlaceClassesRequest(cycle=cycle)
            for (class_id, count), answer in zip(wanted, filtered, strict=False):
                each = request.classes.add(pod_class=class_id, count=count, admitted=answer.admitted_nodes)
                each.demand.amounts.update(answer.demand or {})
                each.demand.SetInParent()
            stub = link.stub(score_phase_pb2_grpc.ScorePhaseStub)
            return await stub.PlaceClasses(request, timeout=self._scores.deadline_seconds)

        answering = self._scores.call(profile, wanted[0][0], call_place_classes)
        response = await self._measure_and_map_errors("score", "PlaceClasses", answering)
        _check_generation("score", response.evaluated_generation, cycle.generation)
        if len(response.answers) > len(filtered):
            raise ports.PhaseFault(f"score answered about {len(response.answers)} classes of {len(filtered)}")
        return list(zip(filtered, map(phase_answers.place_answer, response.answers), strict=False))

    async def _filter_classes(
        self, profile: str, wanted: Sequence[tuple[int, int]], generation: int
    ) -> list[FilterAnswer]:
        """Have filter answer about the first classes."""
        request = filter_phase_pb2.FilterClassesRequest(cycle=self.cycle(profile, 0, generation))
        for class_id, count in wanted:
            request.classes.add(pod_class=class_id, count=count)

        async def call_filter_classes(link: replica_link.ReplicaLink) -> filter_phase_pb2.FilterClassesResponse:
            stub = link.stub(filter_phase_pb2_grpc.FilterPhaseStub)
            return await stub.FilterClasses(request, timeout=self._filters.deadline_seconds)

        answering = self._filters.call(profile, wanted[0][0], call_filter_classes)
        response = await self._measure_and_map_errors("filter", "FilterClasses", answering)
        _check_generation("filter", response.evaluated_generation, generation)
        out = []
        for response_of_class in response.answers:
            answer = phase_answers.filter_answer(response_of_class, node_columns.NodeColumns())
            if answer.demand is None or not answer.admitted_nodes:
                raise ports.PhaseFault("filter answered about a class without its demand, or the nodes that take it")
            _check_generation("filter", answer.columns.generation, generation)
            out.append(answer)
        return out

    async def _place_with_capacities(
        self,
        link: replica_link.ReplicaLink,
        key: ports.ClassKey,
        filtered: FilterAnswer,
        request: score_phase_pb2.PlaceRequest,
    ) -> score_phase_pb2.PlaceResponse:
        """Call Place with filter's answer about a class: what changed, where the replica has the rest.

        One that has lost it (FAILED_PRECONDITION) gets all, in a second call.
        """
        # The answer may be a later one when the call is over.
        update, generation = filtered.update, filtered.columns.generation
        if update is None or (update.base_generation and link.capacities.get(key) != update.base_generation):
            update = node_columns.to_message(filtered.columns)
        request.capacities.CopyFrom(update)
        link.capacities.pop(key, None)
        stub = link.stub(score_phase_pb2_grpc.ScorePhaseStub)
        try:
            response = await stub.Place(request, timeout=self._scores.deadline_seconds)
        except aio.AioRpcError as error:
            if error.code() != grpc.StatusCode.FAILED_PRECONDITION or not request.capacities.base_generation:
                raise
            request.capacities.CopyFrom(node_columns.to_message(filtered.columns))
            response = await stub.Place(request, timeout=self._scores.deadline_seconds)
        if self._answers.has(key, filtered.columns):
            link.note_capacities(key, generation)
        return response

    async def reserve(
        self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement]
    ) -> filter_pb2.ReserveResponse:
        """Have filter run the Reserve plugins; a reservation, or why it failed, for each placement in order.

        Raises: PhaseUnavailable; PhaseFault, also if there is not one answer for each placement.
        """
        request = filter_pb2.ReserveRequest(cycle=cycle, placements=placements)
        response = await self._call_filter_checking_generation("Reserve", cycle, lambda stub: stub.Reserve, request)
        if len(response.reservations) != len(placements):
            raise ports.PhaseFault(f"filter answered {len(response.reservations)} reservations for {len(placements)}")
        return response

    async def unreserve(self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement]) -> None:
        """Have filter notify the Reserve plugins that the pods will not be bound where they were placed."""
        request = filter_pb2.UnreserveRequest(cycle=cycle, placements=placements)
        await self._call_filter("Unreserve", cycle, lambda stub: stub.Unreserve, request)

    async def prepare(self, profile: str, class_id: int, generation: int) -> None:
        """Have the columns of a class made ahead of its turn, by the replicas that will be called then."""
        cycle = self.cycle(profile, class_id, generation)
        try:
            for link in self._filters.preferred(profile, class_id)[:1]:
                await link.stub(filter_phase_pb2_grpc.FilterPhaseStub).Prepare(
                    filter_phase_pb2.FilterPhasePrepareRequest(cycle=cycle), timeout=self._filters.deadline_seconds
                )
            for link in self._scores.preferred(profile, class_id)[:1]:
                await link.stub(score_phase_pb2_grpc.ScorePhaseStub).Prepare(
                    score_phase_pb2.ScorePhasePrepareRequest(cycle=cycle), timeout=self._scores.deadline_seconds
                )
        except aio.AioRpcError as error:
            raise ports.PhaseFault(error.details()) from error

    async def _call_filter_checking_generation(
        self,
        rpc: str,
        cycle: cycle_pb2.Cycle,
        method: "Callable[[filter_phase_pb2_grpc.FilterPhaseAsyncStub], Callable[..., Awaitable[Evaluated]]]",
        request: message.Message,
    ) -> Evaluated:
        """Call filter, and check the generation that its answer was computed from."""
        response = await self._call_filter(rpc, cycle, method, request)
        _check_generation("filter", response.evaluated_generation, cycle.generation)
        return response

    async def _call_filter(
        self,
        rpc: str,
        cycle: cycle_pb2.Cycle,
        method: "Callable[[filter_phase_pb2_grpc.FilterPhaseAsyncStub], Callable[..., Awaitable[Answer]]]",
        request: message.Message,
    ) -> Answer:
        """The answer of a filter replica that knows the class, if there is one, else of another."""

        async def call_rpc(link: replica_link.ReplicaLink) -> Answer:
            stub = link.stub(filter_phase_pb2_grpc.FilterPhaseStub)
            return await method(stub)(request, timeout=self._filters.deadline_seconds)

        return await self._measure_and_map_errors(
            "filter", rpc, self._filters.call(cycle.profile, cycle.pod_class, call_rpc)
        )

    async def _measure_and_map_errors(self, phase: str, rpc: str, answering: Awaitable[Answer]) -> Answer:
        """Await the answer to a call, and record its duration and gRPC code in the metrics.

        Raises: PhaseFault for an error of gRPC, PhaseUnavailable.
        """
        started = self._metrics.clock()
        code = grpc.StatusCode.OK
        try:
            return await answering
        except aio.AioRpcError as error:
            code = error.code()
            raise ports.PhaseFault(f"{phase} answered {code.name}: {error.details()}") from error
        except ports.PhaseUnavailable:
            code = grpc.StatusCode.UNAVAILABLE
            raise
        finally:
            self._metrics.record_phase_call(phase, rpc, code.name, self._metrics.clock() - started)


def _check_generation(phase: str, evaluated: int, wanted: int) -> None:
    """Raises: PhaseFault if the answer was computed from an older generation."""
    if evaluated < wanted:
        raise ports.PhaseFault(f"{phase} answered by generation {evaluated}, but the call named {wanted}")


def _add_refusal(
    request: filter_phase_pb2.RunPostFilterRequest
    | filter_phase_pb2.ListPreemptionCandidatesRequest
    | filter_phase_pb2.SelectPreemptionCandidateRequest,
    filtered: FilterAnswer,
) -> None:
    """Add to the request why the class runs nowhere: PreFilter's status, or else the columns of all nodes."""
    if filtered.refusal is not None:
        request.pre_filter.CopyFrom(wire_status.to_message(filtered.refusal))
    else:
        request.columns.CopyFrom(node_columns.to_message(filtered.columns))
