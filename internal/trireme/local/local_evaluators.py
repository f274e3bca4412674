"""LocalEvaluators: filter and score as the scheduler knows them, answered in this process from one snapshot.

There is no gRPC and no server: an engine is asked, and its answers are handed on. So who asks and who answers share one
thread; what the snapshot shows is brought up to date by whoever owns it.
"""

import contextlib
import itertools
from collections.abc import Container, Iterator, Sequence

from trireme.cache import placed_pod
from trireme.evaluation import engine, filter_engine, questions
from trireme.framework import status
from trireme.results import class_answer
from trireme.results.phase_results import FilterResult, PlaceResult, PostFilterResult
from trireme.scheduling import ports
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, cycle_pb2, filter_pb2, filter_phase_pb2, score_phase_pb2
from trireme.wire import domain_constraints, node_columns
from trireme.wire import status as wire_status


class LocalEvaluators(ports.Evaluators):
    """Asks an engine whose snapshot is at the generation that a call names, or later."""

    def __init__(self, evaluating: engine.Engine) -> None:
        self.engine = evaluating

    @property
    def answers(self) -> Container[ports.ClassKey]:
        """The classes whose columns the engine keeps."""
        return self.engine.filter.kept

    def cycle(self, profile: str, class_id: int, generation: int) -> cycle_pb2.Cycle:
        """The context of a call: there is no leader and no other configuration to be told apart."""
        return cycle_pb2.Cycle(generation=generation, profile=profile, pod_class=class_id)

    async def filter(
        self,
        profile: str,
        class_id: int,
        count: int,
        generation: int,
        nominee: core_pb2.Pod | None = None,
        nominated: int = placed_pod.NO_SLOT,
        preemptors: Sequence[core_pb2.Pod] = (),
    ) -> FilterResult:
        """As the port says."""
        cycle = self.cycle(profile, class_id, generation)
        if nominee is not None:
            cycle.pod.CopyFrom(nominee)
        answer = class_answer.ClassAnswer()
        with self._answering(cycle):
            if nominated != placed_pod.NO_SLOT:
                alone = await self.engine.filter.filter_nominated(cycle, count=count)
                # Else it was nominated for another node meanwhile.
                if alone is not None and alone.admitted[0] == nominated:
                    answer.admit_alone(nominated, generation)
                    return _result(answer, alone, of_one=True)
            found = await self.engine.filter.filter(cycle, count, preemptors=preemptors)
        if found.columns is not None:
            answer.take(found.columns)
        return _result(answer, found, of_one=nominee is not None)

    async def filter_nominated(
        self, profile: str, class_id: int, generation: int, nominees: Sequence[core_pb2.Pod], slots: Sequence[int]
    ) -> FilterResult:
        """As the port says."""
        others = [pod.metadata for pod in nominees[1:]]
        cycle = self.cycle(profile, class_id, generation)
        cycle.pod.CopyFrom(nominees[0])
        identities = [cycle_pb2.PodIdentity(namespace=each.namespace, name=each.name, uid=each.uid) for each in others]
        with self._answering(cycle):
            found = await self.engine.filter.filter_nominated(cycle, identities)
            admitted = () if found is None else found.admitted
            if found is None:
                # None of them; what else is so of the class is asked for in full.
                found = await self.engine.filter.filter(cycle)
        # Where a pod is by now nominated for another node than the caller knew, it is asked about anew.
        same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(admitted, slots, strict=False))
        return _result(class_answer.ClassAnswer(generation), found, of_one=True, admitted=len(list(same)))

    async def post_filter(
        self,
        profile: str,
        class_id: int,
        generation: int,
        pod: core_pb2.Pod,
        filtered: FilterResult,
        trim: ports.Trim | None = None,
    ) -> PostFilterResult:
        """As the port says; with `trim` the candidates are asked for first."""
        cycle = self.cycle(profile, class_id, generation)
        cycle.pod.CopyFrom(pod)
        refused = _columns(filtered.answer)
        with self._answering(cycle):
            response = await self.engine.filter.post_filter(cycle, refused, filtered.refusal, offer=trim is not None)
        if trim is not None and response.HasField("candidates"):
            chosen = await trim(response.candidates)
            with self._answering(cycle):
                response = await self.engine.filter.post_filter(cycle, refused, filtered.refusal, chosen=chosen)
        return PostFilterResult.from_message(response)

    async def pod_group_post_filter(
        self, request: filter_phase_pb2.PodGroupPostFilterRequest
    ) -> filter_phase_pb2.PodGroupPostFilterResponse:
        """As the port says."""
        with self._answering(request.cycle):
            return await self.engine.filter.pod_group_post_filter(request)

    async def score_placements(
        self, request: score_phase_pb2.ScorePlacementsRequest
    ) -> score_phase_pb2.ScorePlacementsResponse:
        """As the port says."""
        with self._answering(request.cycle):
            totals = await self.engine.score.score_placements(request)
        if isinstance(totals, status.Status):
            return score_phase_pb2.ScorePlacementsResponse(status=wire_status.to_message(totals))
        return score_phase_pb2.ScorePlacementsResponse(status=wire_status.to_message(status.SUCCESS), totals=totals)

    async def place(
        self, profile: str, class_id: int, count: int, filtered: FilterResult, extra_scores: Sequence[int] = ()
    ) -> PlaceResult:
        """As the port says."""
        cycle = self.cycle(profile, class_id, filtered.answer.generation)
        constraints = domain_constraints.from_messages(filtered.constraints)
        with self._answering(cycle):
            placed = await self.engine.score.place(cycle, count, _columns(filtered.answer), constraints, extra_scores)
        return PlaceResult(tuple(placed.slots), placed.failure, placed.more, placed.timings, placed.evaluated)

    async def reserve(
        self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement]
    ) -> Sequence[filter_pb2.Reservation]:
        """As the port says."""
        with self._answering(cycle):
            return await self.engine.filter.reserve(cycle, placements)

    async def unreserve(self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement]) -> None:
        """As the port says."""
        with self._answering(cycle):
            await self.engine.filter.unreserve(cycle, placements)

    async def prepare(self, profile: str, class_id: int, generation: int) -> None:
        """As the port says."""
        cycle = self.cycle(profile, class_id, generation)
        with self._answering(cycle):
            await self.engine.filter.prepare(cycle)
            await self.engine.score.prepare(cycle)

    @contextlib.contextmanager
    def _answering(self, cycle: cycle_pb2.Cycle) -> Iterator[None]:
        """The engine answers a call, or it is said as the port says it why not."""
        if self.engine.snap.generation < cycle.generation:
            text = f"generation {cycle.generation} is not reached, the snapshot is at {self.engine.snap.generation}"
            raise ports.PhaseUnavailable(text)
        try:
            yield
        except (snapshot.OutOfStepError, questions.StaleQuestionError) as error:
            raise ports.PhaseUnavailable(str(error)) from error
        except questions.InvalidQuestionError as error:
            raise ports.PhaseFault(str(error)) from error


def _result(
    answer: class_answer.ClassAnswer, found: filter_engine.FilterAnswer, *, of_one: bool, admitted: int = 0
) -> FilterResult:
    columns = filter_pb2.NodeColumns() if found.columns is None else node_columns.to_message(found.columns)
    return FilterResult(
        answer,
        columns,
        found.refusal,
        tuple(domain_constraints.to_message(each) for each in found.constraints),
        found.max_batch,
        found.needs_reserve,
        found.needs_pre_bind,
        tuple(found.evaluated),
        found.timings,
        of_one,
        found.narrowed_by,
        found.ways_out,
        admitted,
    )


def _columns(answer: class_answer.ClassAnswer) -> node_columns.NodeColumns:
    """The whole answer about a class."""
    return node_columns.NodeColumns(
        answer.generation, 0, answer.index.shape[0], None, answer.statuses, answer.index, answer.capacity
    )
