"""ScorePhase of the score phase: calls, answered by an engine.

Also change: docs/protocol.md.
Also change: internal/trireme/filter/service.py,
internal/trireme/in_process/in_process_evaluators.py (the servers are alike; in one process).
Also change: protos/trireme/v1/score_phase.proto (the messages).
Also change: internal/trireme/evaluation/filter_engine.py,
internal/trireme/evaluation/score_engine.py (filter and score are alike here).

Tests: tests/unit/score/test_service.py, tests/unit/replay/test_decision_replay.py,
tests/contract/test_replica_metrics.py.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from grpc import aio

from trireme.evaluation import request_errors, score_engine
from trireme.evaluation.scoring import classes_in_turn, score_chain
from trireme.framework import amounts, status
from trireme.phases import answering, configuring
from trireme.registry import compared_plugins, score_profiles
from trireme.remote import answer_recording, compared_scores, remote_score
from trireme.rpc import follower
from trireme.snapshot import snapshot
from trireme.v1 import cycle_pb2, plugin_pb2, score_phase_pb2, score_phase_pb2_grpc, snapshot_pb2
from trireme.wire import domain_constraints, node_columns, packing, phase_answers
from trireme.wire import status as wire_status


@dataclasses.dataclass(frozen=True, slots=True)
class ScorePhaseStatistics:
    """What the service has done."""

    placed: int = dataclasses.field(metadata={"help": "Pods placed.", "total": True})
    batches: int = dataclasses.field(metadata={"help": "Batches placed.", "total": True})
    classes: int = dataclasses.field(metadata={"help": "Pod classes whose scores are cached."})
    column_bytes: int = dataclasses.field(metadata={"help": "Memory of the cached scores, in bytes."})
    slots_evaluated: int = dataclasses.field(
        metadata={"help": "Nodes that in-tree plugins scored, once for each evaluation.", "total": True}
    )


class ScorePhase(score_phase_pb2_grpc.ScorePhaseServicer):
    """The gRPC service of score: converts messages for the ScoreEngine, on a snapshot that `follow` updates."""

    def __init__(
        self,
        snap: snapshot.Snapshot,
        make_remote: score_profiles.MakeRemoteScore,
        make_compared: Callable[[snapshot_pb2.RemotePlugin, str], remote_score.RemoteScorePlugin] | None = None,
        *,
        follow: follower.Follower | None = None,
    ) -> None:
        """`make_compared` makes remote plugins in mode Shadow; without it they are left out.

        `follow` updates the snapshot for filter too, and has both `prepare` configurations; None: for this service
        alone.
        """
        self._make_compared = make_compared
        self.compared = compared_scores.ComparedScores(snap, {}, self._find_totals)
        self._snap = snap
        self._make_remote = make_remote
        self._engine = score_engine.ScoreEngine(snap, score_engine.ScoreProfiles())
        self._placed = 0
        self._batches = 0
        self.follow = follow or follower.Follower(snap, functools.partial(configuring.configure, [self]))

    @property
    def chains(self) -> Mapping[str, score_chain.ScoreChain]:
        """The plugins that run, by profile."""
        return self._engine.profiles.chains

    def statistics(self) -> ScorePhaseStatistics:
        """What it has done so far."""
        engine = self._engine.evaluator.statistics()
        return ScorePhaseStatistics(
            self._placed, self._batches, engine.classes, engine.column_bytes, engine.slots_evaluated
        )

    def prepare(self, configuration: snapshot_pb2.Configuration) -> Callable[[], None]:
        """Make the engine of a configuration; what this returns puts it in force, and does not fail.

        Raises: ValueError.
        """
        rules = amounts.rules_of(configuration.feature_gates)
        profiles = score_profiles.make_profiles(configuration, self._make_remote)
        compared = self._make_compared_plugins(configuration)
        engine = score_engine.ScoreEngine(self._snap, profiles)

        def put_in_force() -> None:
            self.compared.queue.close()
            self.compared = compared_scores.ComparedScores(self._snap, compared, self._find_totals)
            self._snap.amount_rules = rules
            self._engine = engine

        return put_in_force

    def _make_compared_plugins(
        self, configuration: snapshot_pb2.Configuration
    ) -> Mapping[str, Sequence[tuple[remote_score.RemoteScorePlugin, int]]]:
        """By profile the score plugins in mode Shadow, with their weights. Raises: ValueError."""
        make = self._make_compared
        if make is None:
            return {}
        found = compared_plugins.compared_plugins(configuration, plugin_pb2.EXTENSION_POINT_SCORE)
        return {
            profile: [(make(remote, profile), weight) for remote, weight in plugins]
            for profile, plugins in found.items()
        }

    async def _find_totals(self, profile: str, class_id: int) -> compared_scores.Totals | None:
        """The nodes that take pods of the class, and their totals; None: there is no choice, or a plugin fails."""
        return await self._engine.totals(cycle_pb2.Cycle(profile=profile, pod_class=class_id))

    async def Prepare(
        self, request: score_phase_pb2.ScorePhasePrepareRequest, context: aio.ServicerContext[Any, Any]
    ) -> score_phase_pb2.ScorePhasePrepareResponse:
        """Bring the class's raw scores up to date."""
        engine = await self._engine_when_synced(request.cycle, context)
        await answering.answer_or_abort(engine.prepare(request.cycle), context)
        return score_phase_pb2.ScorePhasePrepareResponse(evaluated_generation=self._snap.generation)

    async def ScorePodGroupPlacements(
        self, request: score_phase_pb2.ScorePodGroupPlacementsRequest, context: aio.ServicerContext[Any, Any]
    ) -> score_phase_pb2.ScorePodGroupPlacementsResponse:
        """Score each placement of a group."""
        engine = await self._engine_when_synced(request.cycle, context)
        totals = await answering.answer_or_abort(engine.score_pod_group_placements(request), context)
        failed = totals if isinstance(totals, status.Status) else status.SUCCESS
        return score_phase_pb2.ScorePodGroupPlacementsResponse(
            status=wire_status.to_message(failed),
            totals=() if isinstance(totals, status.Status) else totals,
            evaluated_generation=self._snap.generation,
        )

    async def Place(
        self, request: score_phase_pb2.PlaceRequest, context: aio.ServicerContext[Any, Any]
    ) -> score_phase_pb2.PlaceResponse:
        """Choose the nodes of the next pods, in order; fewer if no more fit, and only a status if a plugin failed."""
        engine = await self._engine_when_synced(request.cycle, context)
        cycle = request.cycle
        with answer_recording.recording(cycle.wants_remote_answers) as recorded:
            answer = await answering.answer_or_abort(_decode_and_place(engine, request), context)
            if recorded is not None:
                answer = dataclasses.replace(answer, remote_answers=_remote_answers(engine, cycle, recorded))
        if answer.failure is None:
            self.compared.observe(cycle.profile, cycle.pod_class)
            self._placed += len(answer.slots)
            self._batches += 1
        response = phase_answers.place_response(answer)
        response.evaluated_generation = self._snap.generation
        return response

    async def PlaceClasses(
        self, request: score_phase_pb2.PlaceClassesRequest, context: aio.ServicerContext[Any, Any]
    ) -> score_phase_pb2.PlaceClassesResponse:
        """Choose the nodes of pods of several classes, each class as if the pods before were on their nodes."""
        engine = await self._engine_when_synced(request.cycle, context)
        answers = await answering.answer_or_abort(_decode_and_place_classes(engine, request), context)
        for each, answer in zip(request.classes, answers, strict=False):
            if answer.failure is None:
                self.compared.observe(request.cycle.profile, each.pod_class)
                self._placed += len(answer.slots)
        self._batches += 1
        responses = [phase_answers.place_response(each) for each in answers]
        generation = self._snap.generation
        return score_phase_pb2.PlaceClassesResponse(answers=responses, evaluated_generation=generation)

    async def _engine_when_synced(
        self, cycle: cycle_pb2.Cycle, context: aio.ServicerContext[Any, Any]
    ) -> score_engine.ScoreEngine:
        """The engine, once the snapshot is what the cycle needs."""
        await self.follow.wait_until_synced(cycle, context)
        return self._engine


def _remote_answers(
    engine: score_engine.ScoreEngine, cycle: cycle_pb2.Cycle, recorded: answer_recording.CollectedAnswers
) -> bytes:
    """What remote plugins answered in the call that has just ended, serialised."""
    answer_recording.add_scores(recorded, engine.profiles.chains[cycle.profile].asynchronous, engine.columns_of(cycle))
    return recorded.content()


async def _decode_and_place(
    engine: score_engine.ScoreEngine, request: score_phase_pb2.PlaceRequest
) -> phase_answers.PlaceAnswer:
    """Decode the request and place by the engine. Raises: InvalidRequestError, StaleRequestError."""
    try:
        capacities = node_columns.from_message(request.capacities)
    except ValueError as error:
        raise request_errors.InvalidRequestError(f"capacities: {error}") from error
    try:
        constraints = domain_constraints.from_messages(request.constraints)
    except ValueError as error:
        raise request_errors.InvalidRequestError(str(error)) from error
    return await engine.place(request.cycle, request.count, capacities, constraints, request.extra_scores, request.seed)


async def _decode_and_place_classes(
    engine: score_engine.ScoreEngine, request: score_phase_pb2.PlaceClassesRequest
) -> Sequence[phase_answers.PlaceAnswer]:
    """Decode the request and place by the engine. Raises: InvalidRequestError."""
    if not all(each.HasField("demand") for each in request.classes):
        raise request_errors.InvalidRequestError("classes.demand: is missing, so that a node may be overcommitted")
    wanted = [
        classes_in_turn.PodsToPlace(
            each.pod_class, each.count, dict(each.demand.amounts), packing.from_bits(each.admitted)
        )
        for each in request.classes
    ]
    return await engine.place_classes(request.cycle, wanted)
