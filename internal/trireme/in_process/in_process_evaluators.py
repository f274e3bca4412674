"""InProcessEvaluators: filter and score as the scheduler knows them, answered in this process from one snapshot.

There is no gRPC and no server: the engine is called, and its answers are handed on. So caller and engine share one
thread; what the snapshot shows is brought up to date by whoever owns it.
"""

import contextlib
from collections.abc import Container, Iterator, Sequence

from trireme.evaluation import engine, request_errors
from trireme.evaluation.filtering import filter_answers
from trireme.framework import status
from trireme.results import class_answer
from trireme.results.phase_results import FilterResult, PlaceResult, PostFilterResult
from trireme.scheduling import ports
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, cycle_pb2, filter_pb2, filter_phase_pb2, score_phase_pb2
from trireme.wire import domain_constraints, identities, node_columns
from trireme.wire import status as wire_status


class InProcessEvaluators(ports.Evaluators):
    """Asks an engine whose snapshot is at the generation that a call names, or later."""

    def __init__(self, evaluating: engine.Engine, caller: cycle_pb2.Cycle | None = None) -> None:
        """`caller`: what identifies the caller to remote plugins; None: there are none."""
        self.engine = evaluating
        self._caller = cycle_pb2.Cycle() if caller is None else caller

    @property
    def answers(self) -> Container[ports.ClassKey]:
        """The classes whose columns are in the engine's cache."""
        return self.engine.filter.cached_classes

    def cycle(self, profile: str, class_id: int, generation: int) -> cycle_pb2.Cycle:
        """The context of a call."""
        out = cycle_pb2.Cycle()
        out.CopyFrom(self._caller)
        out.generation, out.profile, out.pod_class = generation, profile, class_id
        return out

    async def filter(
        self,
        profile: str,
        class_id: int,
        count: int,
        generation: int,
        nominee: core_pb2.Pod | None = None,
        preemptors: Sequence[core_pb2.Pod] = (),
    ) -> FilterResult:
        """Filter the class, or `nominee` alone, which takes the place of the class's pod; always a whole answer."""
        cycle = self.cycle(profile, class_id, generation)
        if nominee is not None:
            cycle.pod.CopyFrom(nominee)
        with self._port_errors(cycle):
            found = await self.engine.filter.filter(
                cycle, count, preemptors=identities.preemptors(preemptors, generation)
            )
        answer = class_answer.ClassAnswer()
        if found.columns is not None:
            answer.update(found.columns)
        return _to_filter_result(answer, found, of_one=nominee is not None)

    async def filter_nominated(
        self, profile: str, class_id: int, generation: int, nominees: Sequence[core_pb2.Pod], slots: Sequence[int]
    ) -> FilterResult:
        """Check how many of the nominees, from the first, may all go to the slots that they are nominated for."""
        cycle = self.cycle(profile, class_id, generation)
        pairs = [identities.nominee(pod, slot) for pod, slot in zip(nominees, slots, strict=True)]
        with self._port_errors(cycle):
            found = await self.engine.filter.filter_nominated(cycle, pairs)
        return FilterResult.of_nominated(
            slots[: found.admitted],
            generation,
            needs_reserve=found.needs_reserve,
            needs_pre_bind=found.needs_pre_bind,
            evaluated=found.evaluated,
            timings=found.timings,
        )

    async def run_post_filter(
        self, profile: str, class_id: int, generation: int, pods: Sequence[core_pb2.Pod], filtered: FilterResult
    ) -> Sequence[PostFilterResult]:
        """Run PostFilter for the first of the pods that fit nowhere; returns at least one result, in order."""
        cycle, refused = self.cycle(profile, class_id, generation), _complete_columns(filtered.answer)
        preemptors = identities.preemptors(pods, generation)
        with self._port_errors(cycle):
            results = await self.engine.filter.run_post_filter(cycle, refused, filtered.refusal, preemptors)
        return PostFilterResult.from_messages(results)

    async def list_preemption_candidates(
        self, profile: str, class_id: int, generation: int, pod: core_pb2.Pod, filtered: FilterResult
    ) -> Sequence[filter_phase_pb2.PreemptionCandidate] | PostFilterResult:
        """List the nodes that preemption may choose from; PostFilter's result instead if there is none."""
        cycle, refused = self.cycle(profile, class_id, generation), _complete_columns(filtered.answer)
        preemptor = identities.preemptor(pod, generation)
        with self._port_errors(cycle):
            found = await self.engine.filter.list_preemption_candidates(cycle, refused, filtered.refusal, preemptor)
        return found if isinstance(found, tuple) else PostFilterResult.from_message(found)

    async def select_preemption_candidate(
        self,
        profile: str,
        class_id: int,
        generation: int,
        pod: core_pb2.Pod,
        filtered: FilterResult,
        candidates: Sequence[filter_phase_pb2.PreemptionCandidate],
    ) -> PostFilterResult:
        """Run PostFilter for the pod, where preemption may choose among the candidates alone."""
        cycle, refused = self.cycle(profile, class_id, generation), _complete_columns(filtered.answer)
        preemptor = identities.preemptor(pod, generation)
        with self._port_errors(cycle):
            answer = await self.engine.filter.select_preemption_candidate(
                cycle, refused, filtered.refusal, preemptor, candidates
            )
        return PostFilterResult.from_message(answer)

    async def list_pod_group_victims(
        self, request: filter_phase_pb2.ListPodGroupVictimsRequest
    ) -> filter_phase_pb2.ListPodGroupVictimsResponse:
        """List the pods and groups that may be evicted for a group."""
        with self._port_errors(request.cycle):
            return self.engine.filter.list_pod_group_victims(request)

    async def reprieve_pod_group_victims(
        self, request: filter_phase_pb2.ReprievePodGroupVictimsRequest
    ) -> filter_phase_pb2.ReprievePodGroupVictimsResponse:
        """List the victims that still have to be evicted for a group whose pods were placed."""
        with self._port_errors(request.cycle):
            return await self.engine.filter.reprieve_pod_group_victims(request)

    async def list_releasable_claims(
        self, request: filter_phase_pb2.ListReleasableClaimsRequest
    ) -> filter_phase_pb2.ListReleasableClaimsResponse:
        """List the claims of a group that may be released, as no node can use them as they are."""
        with self._port_errors(request.cycle):
            return self.engine.filter.list_releasable_claims(request)

    async def score_pod_group_placements(
        self, request: score_phase_pb2.ScorePodGroupPlacementsRequest
    ) -> score_phase_pb2.ScorePodGroupPlacementsResponse:
        """Score each placement of a group; the response has the totals, or the status of the plugin that failed."""
        with self._port_errors(request.cycle):
            totals = await self.engine.score.score_pod_group_placements(request)
        failed = totals if isinstance(totals, status.Status) else status.SUCCESS
        return score_phase_pb2.ScorePodGroupPlacementsResponse(
            status=wire_status.to_message(failed),
            totals=() if isinstance(totals, status.Status) else totals,
            evaluated_generation=self.engine.snap.generation,
        )

    async def place(
        self, profile: str, class_id: int, count: int, filtered: FilterResult, extra_scores: Sequence[int] = ()
    ) -> PlaceResult:
        """Choose slots for the next pods, at most `count`; `extra_scores` are added to the plugins', by slot."""
        cycle = self.cycle(profile, class_id, filtered.answer.generation)
        constraints = domain_constraints.from_messages(filtered.constraints)
        with self._port_errors(cycle):
            placed = await self.engine.score.place(
                cycle, count, _complete_columns(filtered.answer), constraints, extra_scores, cycle.generation
            )
        return PlaceResult(
            slots=tuple(placed.slots),
            failure=placed.failure,
            more=placed.more,
            timings=placed.timings,
            evaluated=placed.evaluated,
        )

    async def reserve(
        self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement]
    ) -> Sequence[filter_pb2.Reservation]:
        """Run the Reserve plugins for the placements; a reservation, or why it failed, for each in order."""
        with self._port_errors(cycle):
            return await self.engine.filter.reserve(cycle, placements)

    async def unreserve(self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement]) -> None:
        """Notify the Reserve plugins that the pods will not be bound where they were placed."""
        with self._port_errors(cycle):
            await self.engine.filter.unreserve(cycle, placements)

    async def prepare(self, profile: str, class_id: int, generation: int) -> None:
        """Compute the columns of the class in filter and in score before its pods are tried."""
        cycle = self.cycle(profile, class_id, generation)
        with self._port_errors(cycle):
            await self.engine.filter.prepare(cycle)
            await self.engine.score.prepare(cycle)

    @contextlib.contextmanager
    def _port_errors(self, cycle: cycle_pb2.Cycle) -> Iterator[None]:
        """Run a call of the engine; what it raises becomes the port's exceptions."""
        if self.engine.snap.generation < cycle.generation:
            text = f"generation {cycle.generation} is not reached, the snapshot is at {self.engine.snap.generation}"
            raise ports.PhaseUnavailable(text)
        try:
            yield
        except (snapshot.OutOfStepError, request_errors.StaleRequestError) as error:
            raise ports.PhaseUnavailable(str(error)) from error
        except request_errors.InvalidRequestError as error:
            raise ports.PhaseFault(str(error)) from error


def _to_filter_result(
    answer: class_answer.ClassAnswer, found: filter_answers.FilterAnswer, *, of_one: bool
) -> FilterResult:
    """The engine's answer as the port's result. `of_one`: about one pod, not about its class.

    `place` reads the whole answer here, so nothing of it is encoded for the wire.
    """
    return FilterResult(
        answer=answer,
        columns=filter_pb2.NodeColumns(),
        refusal=found.refusal,
        constraints=tuple(domain_constraints.to_message(each) for each in found.constraints),
        max_batch=found.max_batch,
        needs_reserve=found.needs_reserve,
        needs_pre_bind=found.needs_pre_bind,
        evaluated=tuple(found.evaluated),
        timings=found.timings,
        of_one=of_one,
        narrowed_by=found.narrowed_by,
        post_filter=PostFilterResult.from_messages(found.post_filter_results),
    )


def _complete_columns(answer: class_answer.ClassAnswer) -> node_columns.NodeColumns:
    """The whole answer about a class."""
    return node_columns.NodeColumns(
        answer.generation, 0, answer.index.shape[0], None, answer.statuses, answer.index, answer.capacity
    )
