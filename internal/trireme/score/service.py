"""ScoreService of the score phase: calls, answered by an engine."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from grpc import aio

from trireme.evaluation import questions, score_engine
from trireme.evaluation.scoring import evaluation
from trireme.framework import amounts, status
from trireme.phases import answering
from trireme.rpc import follower
from trireme.score import assembly
from trireme.snapshot import snapshot
from trireme.v1 import cycle_pb2, score_pb2, score_pb2_grpc, snapshot_pb2
from trireme.wire import domain_constraints, node_columns
from trireme.wire import status as wire_status

MakeRemote = Callable[[snapshot_pb2.RemotePlugin], evaluation.RemoteScore]


@dataclass(frozen=True, slots=True)
class ServiceStatistics:
    """What the service has done."""

    placed: int = field(metadata={"help": "Pods placed."})
    batches: int = field(metadata={"help": "Batches placed."})
    classes: int = field(metadata={"help": "Pod classes whose scores are cached."})
    column_bytes: int = field(metadata={"help": "Memory of the cached scores, in bytes."})
    slots_evaluated: int = field(metadata={"help": "Nodes that in-tree plugins scored, once for each evaluation."})


class ScoreService(score_pb2_grpc.ScoreServiceServicer):
    """Answers from one snapshot, which `follow` keeps up to date."""

    def __init__(self, snap: snapshot.Snapshot, make_remote: MakeRemote) -> None:
        self._snap = snap
        self._make_remote = make_remote
        self._engine = score_engine.ScoreEngine(snap, score_engine.ScoreProfiles())
        self._placed = 0
        self._batches = 0
        self.follow = follower.Follower(snap, self._configured)

    @property
    def chains(self) -> Mapping[str, evaluation.Chain]:
        """The plugins that run, by profile."""
        return self._engine.chains

    def statistics(self) -> ServiceStatistics:
        """What it has done so far."""
        kept = self._engine.statistics()
        return ServiceStatistics(self._placed, self._batches, kept.classes, kept.column_bytes, kept.slots_evaluated)

    def _configured(self, configuration: snapshot_pb2.Configuration) -> None:
        rules = amounts.rules_of(configuration.feature_gates)
        profiles = assembly.score_profiles(configuration, self._make_remote)
        # From here on nothing fails: a configuration that is refused changes nothing.
        self._snap.amount_rules = rules
        self._engine = score_engine.ScoreEngine(self._snap, profiles)

    async def PreScore(
        self, request: score_pb2.PreScoreRequest, context: aio.ServicerContext[Any, Any]
    ) -> score_pb2.PreScoreResponse:
        """Brings the class's raw scores up to date."""
        engine = await self._ready(request.cycle, context)
        failed = await answering.answer(engine.prepare(request.cycle), context)
        return score_pb2.PreScoreResponse(status=wire_status.to_message(failed or status.SUCCESS))

    async def Score(
        self, request: score_pb2.ScoreRequest, context: aio.ServicerContext[Any, Any]
    ) -> score_pb2.ScoreResponse:
        """Each plugin's raw scores of the slots asked about."""
        engine = await self._ready(request.cycle, context)
        slots = np.array(request.nodes.slots, dtype=np.intp)
        raw = await answering.answer(engine.raw_scores(request.cycle, slots), context)
        if isinstance(raw, status.Status):
            return score_pb2.ScoreResponse(status=wire_status.to_message(raw))
        return score_pb2.ScoreResponse(status=wire_status.to_message(status.SUCCESS), columns=_to_messages(raw))

    async def NormalizeScore(
        self, request: score_pb2.NormalizeScoreRequest, context: aio.ServicerContext[Any, Any]
    ) -> score_pb2.NormalizeScoreResponse:
        """The scores given, each plugin's normalised as it normalises."""
        engine = await self._ready(request.cycle, context)
        slots = np.array(request.nodes.slots, dtype=np.intp)
        given = _from_messages(request.columns)
        normal = await answering.answer(engine.normalized(request.cycle, slots, given), context)
        if isinstance(normal, status.Status):
            return score_pb2.NormalizeScoreResponse(status=wire_status.to_message(normal))
        success = wire_status.to_message(status.SUCCESS)
        return score_pb2.NormalizeScoreResponse(status=success, columns=_to_messages(normal))

    async def ScorePlacements(
        self, request: score_pb2.ScorePlacementsRequest, context: aio.ServicerContext[Any, Any]
    ) -> score_pb2.ScorePlacementsResponse:
        """How good each placement of a group is."""
        engine = await self._ready(request.cycle, context)
        totals = await answering.answer(engine.score_placements(request), context)
        if isinstance(totals, status.Status):
            return score_pb2.ScorePlacementsResponse(status=wire_status.to_message(totals))
        return score_pb2.ScorePlacementsResponse(status=wire_status.to_message(status.SUCCESS), totals=totals)

    async def Place(
        self, request: score_pb2.PlaceRequest, context: aio.ServicerContext[Any, Any]
    ) -> score_pb2.PlaceResponse:
        """The hosts of the next pods."""
        engine = await self._ready(request.cycle, context)
        if request.prepare:
            failed = await answering.answer(engine.prepare(request.cycle), context)
            return score_pb2.PlaceResponse(status=None if failed is None else wire_status.to_message(failed))
        answer = await answering.answer(_place(engine, request), context)
        if answer.failure is not None:
            return score_pb2.PlaceResponse(status=wire_status.to_message(answer.failure))
        self._placed += len(answer.slots)
        self._batches += 1
        return score_pb2.PlaceResponse(
            slots=answer.slots,
            totals=answer.totals,
            more=answer.more,
            timings=answer.timings,
            evaluated_plugins=answer.evaluated,
        )

    async def _ready(self, cycle: cycle_pb2.Cycle, context: aio.ServicerContext[Any, Any]) -> score_engine.ScoreEngine:
        """The engine, once the snapshot is what the cycle needs."""
        await self.follow.ready_for(cycle, context)
        return self._engine


async def _place(engine: score_engine.ScoreEngine, request: score_pb2.PlaceRequest) -> score_engine.PlaceAnswer:
    try:
        capacities = node_columns.unpack(request.capacities)
    except ValueError as error:
        raise questions.InvalidQuestionError(f"capacities: {error}") from error
    try:
        constraints = domain_constraints.from_messages(request.constraints)
    except ValueError as error:
        raise questions.InvalidQuestionError(str(error)) from error
    return await engine.place(request.cycle, request.count, capacities, constraints, request.extra_scores)


def _to_messages(scores: Iterable[score_engine.PluginScores]) -> list[score_pb2.ScoreColumn]:
    return [
        score_pb2.ScoreColumn(
            plugin=each.plugin,
            weight=each.weight,
            skipped=each.scores is None,
            scores=[] if each.scores is None else each.scores.tolist(),
        )
        for each in scores
    ]


def _from_messages(messages: Iterable[score_pb2.ScoreColumn]) -> Sequence[score_engine.PluginScores]:
    return [
        score_engine.PluginScores(
            each.plugin, each.weight, None if each.skipped else np.array(each.scores, dtype=np.int64)
        )
        for each in messages
    ]
