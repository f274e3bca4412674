"""InProcessEvaluators: filter and score as the scheduler knows them, answered in this process from one snapshot.

There is no gRPC and no server: the engine is called, and its answers are handed on. So caller and engine share one
thread; the snapshot's owner keeps it up to date.

Also change: internal/trireme/frontend/phase_clients/remote_evaluators.py,
internal/trireme/frontend/phase_clients/recording_evaluators.py,
internal/trireme/replay/decision_calls.py (the calls of filter and score, sent, recorded and replayed).
Also change: internal/trireme/filter/service.py,
internal/trireme/score/service.py (the servers are alike; in one process).
Also change: protos/trireme/v1/filter_phase.proto (the messages).
Also change: protos/trireme/v1/score_phase.proto (the messages).
Also change: internal/trireme/evaluation/filter_engine.py,
internal/trireme/evaluation/score_engine.py (filter and score are alike here).

Tests: tests/unit/in_process/test_in_process_evaluators.py, tests/unit/replay/test_decision_replay.py.
"""

import contextlib
from collections.abc import Container, Iterator, Sequence

from trireme.evaluation import engine, request_errors
from trireme.evaluation.scoring import classes_in_turn
from trireme.framework import status
from trireme.scheduling import ports
from trireme.snapshot import node_usage, snapshot
from trireme.v1 import core_pb2, cycle_pb2, filter_pb2, filter_phase_pb2, score_phase_pb2
from trireme.wire import domain_constraints, identities, packing
from trireme.wire import status as wire_status
from trireme.wire.phase_answers import FilterAnswer, PlaceAnswer


class OtherChangesError(ports.PhaseFault):
    """The pods before change more than what is left of resources, so a class cannot be placed after them."""


class InProcessEvaluators(ports.Evaluators):
    """Asks an engine whose snapshot is at the generation that a call names, or later.

    Subclasses: trireme.simulation.yielding_evaluators.YieldingEvaluators.
    """

    def __init__(self, evaluating: engine.Engine, caller: cycle_pb2.Cycle | None = None) -> None:
        """`caller`: what identifies the caller to remote plugins; None: there are none."""
        self.engine = evaluating
        self._caller = cycle_pb2.Cycle() if caller is None else caller

    @property
    def answers(self) -> Container[ports.ClassKey]:
        """The classes whose columns are in the engine's cache."""
        return self.engine.filter.evaluator.cached_classes

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
    ) -> FilterAnswer:
        """Filter the class, or `nominee` alone, which takes the place of the class's pod; always a whole answer."""
        cycle = self.cycle(profile, class_id, generation)
        if nominee is not None:
            cycle.pod.CopyFrom(nominee)
        with self._port_errors(cycle):
            return await self.engine.filter.filter(
                cycle, count, preemptors=identities.preemptors(preemptors, generation)
            )

    async def filter_nominated(
        self, profile: str, class_id: int, generation: int, nominees: Sequence[core_pb2.Pod], slots: Sequence[int]
    ) -> FilterAnswer:
        """Check how many of the nominees, from the first, may all go to the slots that they are nominated for."""
        cycle = self.cycle(profile, class_id, generation)
        with self._port_errors(cycle):
            return await self.engine.filter.filter_nominated(cycle, identities.nominees(nominees, slots))

    async def run_post_filter(
        self, profile: str, class_id: int, generation: int, pods: Sequence[core_pb2.Pod], filtered: FilterAnswer
    ) -> filter_phase_pb2.RunPostFilterResponse:
        """Run PostFilter for the first of the pods that fit nowhere; the response has at least one result, in order."""
        cycle, preemptors = self.cycle(profile, class_id, generation), identities.preemptors(pods, generation)
        with self._port_errors(cycle):
            return await self.engine.filter.run_post_filter(cycle, filtered.columns, filtered.refusal, preemptors)

    async def list_preemption_candidates(
        self, profile: str, class_id: int, generation: int, pod: core_pb2.Pod, filtered: FilterAnswer
    ) -> filter_phase_pb2.ListPreemptionCandidatesResponse:
        """List the nodes that preemption may choose from; PostFilter's answer instead if there is none."""
        cycle, preemptor = self.cycle(profile, class_id, generation), identities.preemptor(pod, generation)
        with self._port_errors(cycle):
            return await self.engine.filter.list_preemption_candidates(
                cycle, filtered.columns, filtered.refusal, preemptor
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
        """Run PostFilter for the pod, where preemption may choose among the candidates alone."""
        cycle, preemptor = self.cycle(profile, class_id, generation), identities.preemptor(pod, generation)
        with self._port_errors(cycle):
            return await self.engine.filter.select_preemption_candidate(
                cycle, filtered.columns, filtered.refusal, preemptor, candidates
            )

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
        self, profile: str, class_id: int, count: int, filtered: FilterAnswer, extra_scores: Sequence[int] = ()
    ) -> PlaceAnswer:
        """Choose slots for the next pods, at most `count`; `extra_scores` are added to the plugins', by slot."""
        cycle = self.cycle(profile, class_id, filtered.columns.generation)
        constraints = domain_constraints.from_messages(filtered.constraints)
        with self._port_errors(cycle):
            return await self.engine.score.place(
                cycle, count, filtered.columns, constraints, extra_scores, cycle.generation
            )

    async def place_in_turn(
        self, profile: str, wanted: Sequence[tuple[int, int]], generation: int
    ) -> Sequence[tuple[FilterAnswer, PlaceAnswer]]:
        """Filter and place pods of several classes, one class after the other."""
        cycle = self.cycle(profile, 0, generation)
        about = [filter_phase_pb2.ClassToFilter(pod_class=number, count=count) for number, count in wanted]
        with self._port_errors(cycle):
            filtered = await self.engine.filter.filter_classes(cycle, about)
            if not filtered:
                return ()
            pods = [
                classes_in_turn.PodsToPlace(*each, answer.demand or {}, packing.from_bits(answer.admitted_nodes))
                for each, answer in zip(wanted, filtered, strict=False)
            ]
            cycle.generation = filtered[0].columns.generation
            placed = await self.engine.score.place_classes(cycle, pods)
            return list(zip(filtered, placed, strict=False))

    async def place_after(
        self,
        profile: str,
        class_id: int,
        count: int,
        filtered: FilterAnswer,
        before: Sequence[node_usage.PlacedPod],
    ) -> PlaceAnswer:
        """As place_in_turn, of one class after these pods. Raises: OtherChangesError."""
        cycle = self.cycle(profile, class_id, filtered.columns.generation)
        about = [filter_phase_pb2.ClassToFilter(pod_class=class_id, count=count)]
        with self._port_errors(cycle):
            answers = await self.engine.filter.filter_classes(cycle, about)
            if answers:
                demand = answers[0].demand or {}
                wanted = classes_in_turn.PodsToPlace(class_id, count, demand, filtered.columns.feasible)
                placed = await self.engine.score.place_after(cycle, wanted, before)
                if placed is not None:
                    return placed
        raise OtherChangesError("the pods before it change more than what is left of resources")

    async def reserve(
        self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement]
    ) -> filter_pb2.ReserveResponse:
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
