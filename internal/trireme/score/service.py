"""ScoreService of the score phase: raw scores, normalisation, and Place."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np
from grpc import aio

from trireme.evaluation import stopwatch
from trireme.evaluation.scoring import (
    columns,
    domain_placement,
    evaluation,
    group_placements,
    placement,
    ranking,
    sampling,
)
from trireme.framework import amounts, domain_rules, status
from trireme.plugin_api import interfaces
from trireme.rpc import follower
from trireme.score import assembly
from trireme.snapshot import arrays, classes, snapshot
from trireme.v1 import filter_pb2, score_pb2, score_pb2_grpc, snapshot_pb2
from trireme.wire import domain_constraints, node_columns, profiles
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
        self._chains: Mapping[str, evaluation.Chain] = {}
        self._evaluator = evaluation.Evaluator(snap, self._chains)
        self._tie_seed = 0
        self._ties = np.zeros(0, dtype=np.int64)
        self._fit_args: Mapping[str, bytes] = {}
        self._placed = 0
        self._batches = 0
        self._stopwatches = stopwatch.Stopwatches()
        self.follow = follower.Follower(snap, self._configured)

    @property
    def chains(self) -> Mapping[str, evaluation.Chain]:
        """The plugins that run, by profile."""
        return self._chains

    def statistics(self) -> ServiceStatistics:
        """What it has done so far."""
        kept = self._evaluator.statistics()
        return ServiceStatistics(self._placed, self._batches, kept.classes, kept.column_bytes, kept.slots_evaluated)

    def _configured(self, configuration: snapshot_pb2.Configuration) -> None:
        rules = amounts.rules_of(configuration.feature_gates)
        chains = assembly.chains(configuration, self._make_remote)
        fit_args = {
            profile.scheduler_name: profiles.args_of(profile, "NodeResourcesFit") for profile in configuration.profiles
        }
        # From here on nothing fails: a configuration that is refused changes nothing.
        self._snap.amount_rules = rules
        self._chains, self._fit_args = chains, fit_args
        self._evaluator = evaluation.Evaluator(self._snap, self._chains)
        self._tie_seed = configuration.tie_seed
        self._ties = np.zeros(0, dtype=np.int64)

    async def PreScore(
        self, request: score_pb2.PreScoreRequest, context: aio.ServicerContext[Any, Any]
    ) -> score_pb2.PreScoreResponse:
        """Brings the class's raw scores up to date."""
        pod_class = await self._class_of(request.cycle, context)
        answer = await self._evaluate(request.cycle, pod_class, context)
        failed = answer if isinstance(answer, status.Status) else status.SUCCESS
        return score_pb2.PreScoreResponse(status=wire_status.to_message(failed))

    async def Score(
        self, request: score_pb2.ScoreRequest, context: aio.ServicerContext[Any, Any]
    ) -> score_pb2.ScoreResponse:
        """Each plugin's raw scores of the slots asked about."""
        pod_class = await self._class_of(request.cycle, context)
        kept = await self._evaluate(request.cycle, pod_class, context)
        if isinstance(kept, status.Status):
            return score_pb2.ScoreResponse(status=wire_status.to_message(kept))
        slots = await self._asked(request.nodes, context)
        response = score_pb2.ScoreResponse(status=wire_status.to_message(status.SUCCESS))
        for name, weight in self._chains[request.cycle.profile].weights.items():
            column = kept.plugins[name]
            skipped = column.state is None or getattr(column.state, "skipped", False)
            scores = [] if skipped else self._raw(request.cycle.profile, pod_class, name, column, slots).tolist()
            response.columns.add(plugin=name, weight=weight, skipped=skipped, scores=scores)
        return response

    async def NormalizeScore(
        self, request: score_pb2.NormalizeScoreRequest, context: aio.ServicerContext[Any, Any]
    ) -> score_pb2.NormalizeScoreResponse:
        """The scores given, each plugin's normalised as it normalises."""
        pod_class = await self._class_of(request.cycle, context)
        kept = await self._evaluate(request.cycle, pod_class, context)
        if isinstance(kept, status.Status):
            return score_pb2.NormalizeScoreResponse(status=wire_status.to_message(kept))
        profile = request.cycle.profile
        slots = await self._asked(request.nodes, context)
        response = score_pb2.NormalizeScoreResponse(status=wire_status.to_message(status.SUCCESS))
        for column in request.columns:
            scores = np.array(column.scores, dtype=np.int64)
            if not column.skipped and scores.shape != slots.shape:
                text = f"columns.scores: {column.plugin} has {scores.size} for {slots.size} nodes"
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
            if not column.skipped:
                normal = await self._normalized(profile, pod_class, column.plugin, slots, scores)
                if isinstance(normal, status.Status):
                    return score_pb2.NormalizeScoreResponse(status=wire_status.to_message(normal))
                scores = normal
            response.columns.add(
                plugin=column.plugin, weight=column.weight, skipped=column.skipped, scores=scores.tolist()
            )
        return response

    async def ScorePlacements(
        self, request: score_pb2.ScorePlacementsRequest, context: aio.ServicerContext[Any, Any]
    ) -> score_pb2.ScorePlacementsResponse:
        """How good each placement of a group is."""
        await self._class_of(request.cycle, context)
        answer = group_placements.totals(request, self._snap, self._fit_args[request.cycle.profile])
        if isinstance(answer, status.Status):
            return score_pb2.ScorePlacementsResponse(status=wire_status.to_message(answer))
        return score_pb2.ScorePlacementsResponse(status=wire_status.to_message(status.SUCCESS), totals=answer)

    async def Place(
        self, request: score_pb2.PlaceRequest, context: aio.ServicerContext[Any, Any]
    ) -> score_pb2.PlaceResponse:
        """The hosts of the next pods."""
        pod_class = await self._class_of(request.cycle, context)
        known = self._evaluator.columns_of(request.cycle.profile, pod_class)
        constraints: tuple[domain_rules.DomainConstraint, ...] = ()
        if not request.prepare:
            await self._take_capacities(known, request, context)
            constraints = await _constraints(request, context)
            known.see_open(self._snap.nodes)
            if known.open_count < 2:
                return self._without_choice(request.count, known, bool(constraints))
        watch = self._stopwatches.next()
        kept = await self._evaluate(request.cycle, pod_class, context, watch)
        if isinstance(kept, status.Status):
            return score_pb2.PlaceResponse(status=wire_status.to_message(kept))
        if request.prepare:
            return score_pb2.PlaceResponse()
        chain = self._chains[request.cycle.profile]
        count = request.count
        one_by_one = chain.percentage or any(
            remote.depends_on == interfaces.Dependency.CLUSTER
            or remote.normalization == interfaces.Normalization.CUSTOM
            for remote in chain.remote
        )
        if one_by_one:
            count = 1
            constraints = ()
        started = watch.now()
        known.see_open(self._snap.nodes)
        ranked = ranking.of(known, self._ranked(request.cycle.profile, known), self._tie_order())
        placer: placement.Placer | domain_placement.DomainPlacer | status.Status
        if self._stays(request, known, constraints) and ranked.holds(count):
            slots = ranked.best(count)
            placer = self._placer_of_best(request.cycle.profile, pod_class, known, ranked, slots)
        else:
            slots = self._candidates(known, constraints)
            if chain.percentage:
                slots = sampling.sample(slots, self._snap.nodes.count, chain.percentage, request.cycle.generation)
            extra = np.zeros(self._snap.nodes.size if request.extra_scores else 0, dtype=np.int64)
            given = np.array(request.extra_scores, dtype=np.int64)[: extra.shape[0]]
            extra[: given.shape[0]] = given
            placer = await self._placer(
                request.cycle.profile, pod_class, known, ranked, slots, constraints, extra, count
            )
        if isinstance(placer, status.Status):
            return score_pb2.PlaceResponse(status=wire_status.to_message(placer))
        choices = placer.place(count)
        watch.point("Score", started)
        self._placed += len(choices)
        self._batches += 1
        return score_pb2.PlaceResponse(
            slots=[int(slots[choice.node]) for choice in choices],
            totals=[choice.total for choice in choices],
            more=bool(one_by_one and len(choices) == count < request.count),
            timings=watch.messages(),
            evaluated_plugins=[name for name, column in kept.plugins.items() if column.state is not None],
        )

    def _ranked(self, profile: str, kept: columns.ClassColumns) -> list[ranking.Ranked]:
        """The plugins whose scores of a node do not depend on other nodes, but by their maximum."""
        chain = self._chains[profile]
        roles = self._evaluator.roles(profile)
        out = []
        plugins: list[interfaces.ScorePlugin | evaluation.RemoteScore] = [*roles.plain.values(), *chain.remote]
        for plugin in plugins:
            column = kept.plugins[plugin.name]
            if column.state is not None:
                weight, own = chain.weights[plugin.name], plugin.name in roles.own_node
                out.append(ranking.Ranked(column, weight, plugin.normalization, own))
        return out

    def _stays(
        self,
        request: score_pb2.PlaceRequest,
        kept: columns.ClassColumns,
        constraints: Sequence[domain_rules.DomainConstraint],
    ) -> bool:
        """Whether all nodes are asked about, and a placement changes nothing on another one than its own."""
        chain = self._chains[request.cycle.profile]
        return not (
            constraints
            or chain.percentage
            or request.extra_scores
            or any(kept.plugins[name].state is not None for name in self._evaluator.roles(request.cycle.profile).joint)
            or any(remote.normalization == interfaces.Normalization.CUSTOM for remote in chain.remote)
        )

    def _candidates(
        self, known: columns.ClassColumns, constraints: Sequence[domain_rules.DomainConstraint]
    ) -> arrays.SlotArray:
        """The slots that take pods of the class, or will when a domain constraint admits them. Shape: (slot,)."""
        takes = self._takes(known) if constraints else known.open
        takes = takes[: min((each.domain.shape[0] for each in constraints), default=None)]
        return np.arange(takes.shape[0]) if takes.all() else np.flatnonzero(takes)

    def _takes(self, known: columns.ClassColumns) -> arrays.BoolArray:
        """Whether the slots' nodes take pods of the class by themselves. Shape: (slot,)."""
        # Filter may be ahead of this replica, or behind it: what is no node here cannot be chosen here.
        size = min(self._snap.nodes.size, known.capacity.shape[0])
        takes: arrays.BoolArray = known.capacity[:size] > 0
        takes &= self._snap.nodes.alive[:size]
        return takes

    def _without_choice(self, count: int, known: columns.ClassColumns, constrained: bool) -> score_pb2.PlaceResponse:
        """All on the only node, or nowhere: nothing is scored, so no plugin can fail by it either.

        `constrained`: other nodes may be admitted after one placement, or this one no more.
        """
        wanted = count
        if constrained:
            count = 1
        slots = np.flatnonzero(known.open).tolist() if known.open_count else []
        hosts = [slot for slot in slots for _ in range(min(count, int(known.capacity[slot])))]
        self._placed += len(hosts)
        self._batches += 1
        return score_pb2.PlaceResponse(slots=hosts, totals=[0] * len(hosts), more=bool(hosts) and count < wanted)

    def _placer_of_best(
        self,
        profile: str,
        pod_class: classes.PodClass,
        kept: columns.ClassColumns,
        ranked: ranking.Ranking,
        slots: arrays.SlotArray,
    ) -> placement.Placer:
        """Places on the best nodes, as many as there are pods: no other one can be chosen."""
        static = placement.ScoredPlugin("", 1, interfaces.Normalization.NONE, ranked.static[slots])
        own = self._own_scores(profile, pod_class, kept, slots)
        ties = self._tie_order()[slots]
        return placement.Placer(kept.capacity[slots], ties, [static], own, ranked.own[slots], kept.open_count)

    def _own_scores(
        self, profile: str, pod_class: classes.PodClass, kept: columns.ClassColumns, slots: arrays.SlotArray
    ) -> placement.OwnScores | None:
        weights = self._chains[profile].weights
        own = [
            (plugin, kept.plugins[name].state, weights[name])
            for name, plugin in self._evaluator.roles(profile).own_node.items()
            if kept.plugins[name].state is not None
        ]

        def own_scores(nodes: arrays.SlotArray, copies: int) -> arrays.Int64Array:
            total = np.zeros((nodes.shape[0], copies), dtype=np.int64)
            for plugin, state, weight in own:
                total += plugin.score_copies(pod_class, self._snap, state, slots[nodes], copies) * weight
            return total

        return own_scores if own else None

    async def _placer(
        self,
        profile: str,
        pod_class: classes.PodClass,
        kept: columns.ClassColumns,
        ranked: ranking.Ranking,
        slots: arrays.SlotArray,
        constraints: Sequence[domain_rules.DomainConstraint],
        extra: arrays.Int64Array,
        count: int,
    ) -> "placement.Placer | domain_placement.DomainPlacer | status.Status":
        chain = self._chains[profile]
        static: list[placement.ScoredPlugin] = []
        joint: list[domain_placement.JointPlugin] = []
        roles = self._evaluator.roles(profile)
        by_domain = bool(constraints) or any(kept.plugins[name].state is not None for name in roles.joint)
        for plugin in chain.local:
            column = kept.plugins[plugin.name]
            weight = chain.weights[plugin.name]
            if column.state is None:
                continue
            if plugin.name in roles.joint:
                scores = roles.joint[plugin.name].joint(pod_class, self._snap, column.state, slots)
                joint.append(domain_placement.JointPlugin(weight, scores))
            elif plugin.name not in roles.own_node:
                # Of scores that are the same everywhere one says it all where batches are placed by domains.
                even = column.uniform is not None
                raw = column.raw[slots[:1]] if even and by_domain else arrays.at(column.raw, slots)
                static.append(placement.ScoredPlugin(plugin.name, weight, plugin.normalization, raw, even))
        for remote in chain.remote:
            column = kept.plugins[remote.name]
            if column.state is None:
                continue
            given: arrays.Int64Array | status.Status = column.raw[slots]
            normalization = remote.normalization
            if normalization == interfaces.Normalization.CUSTOM:
                given = await self._normalized(profile, pod_class, remote.name, slots, column.raw[slots])
                normalization = interfaces.Normalization.NONE
            if isinstance(given, status.Status):
                return given
            static.append(placement.ScoredPlugin(remote.name, chain.weights[remote.name], normalization, given))

        if extra.size:
            static.append(placement.ScoredPlugin("", 1, interfaces.Normalization.NONE, extra[slots]))

        own = self._own_scores(profile, pod_class, kept, slots)
        own_now = arrays.at(ranked.own, slots)
        ties = arrays.at(self._tie_order(), slots)
        capacity = arrays.at(kept.capacity, slots)
        if by_domain:
            return domain_placement.DomainPlacer(capacity, ties, static, own, own_now, joint, constraints, slots, count)
        return placement.Placer(capacity, ties, static, own, own_now)

    async def _normalized(
        self,
        profile: str,
        pod_class: classes.PodClass,
        name: str,
        slots: arrays.SlotArray,
        raw: arrays.Int64Array,
    ) -> arrays.Int64Array | status.Status:
        chain = self._chains[profile]
        joint = self._evaluator.roles(profile).joint.get(name)
        if joint is not None:
            kept = self._evaluator.columns_of(profile, pod_class).plugins[name]
            each, first, place = np.unique(slots, return_index=True, return_inverse=True)
            return self._joint(joint, pod_class, kept, each).normalized(raw[first])[place]
        for plugin in chain.local:
            if plugin.name == name:
                return placement.normalized(raw, plugin.normalization)
        for remote in chain.remote:
            if remote.name == name and remote.normalization != interfaces.Normalization.CUSTOM:
                return placement.normalized(raw, remote.normalization)
            if remote.name == name:
                answer = await remote.normalize(profile, pod_class, self._snap, slots, raw)
                return np.zeros_like(raw) if answer is None else answer
        return status.error(name, f"no score plugin {name} in profile {profile}")

    def _raw(
        self,
        profile: str,
        pod_class: classes.PodClass,
        name: str,
        column: columns.ScoreColumn,
        slots: arrays.SlotArray,
    ) -> arrays.Int64Array:
        """One plugin's raw scores of these slots, which are all that passed. Shape: (slot asked,)."""
        joint = self._evaluator.roles(profile).joint.get(name)
        if joint is not None:
            each, place = np.unique(slots, return_inverse=True)
            return self._joint(joint, pod_class, column, each).raw()[place]
        raw: arrays.Int64Array = column.raw[slots]
        return raw

    def _joint(
        self,
        plugin: interfaces.JointScorePlugin,
        pod_class: classes.PodClass,
        column: columns.ScoreColumn,
        slots: arrays.SlotArray,
    ) -> interfaces.JointScores:
        scores = plugin.joint(pod_class, self._snap, column.state, slots)
        scores.set_feasible(np.ones(slots.shape[0], dtype=np.bool_))
        return scores

    def _tie_order(self) -> arrays.Int64Array:
        if self._ties.shape[0] < self._snap.nodes.size:
            self._ties = placement.tie_order(self._tie_seed, np.arange(self._snap.nodes.capacity))
        return self._ties

    async def _asked(self, nodes: filter_pb2.NodeSelection, context: aio.ServicerContext[Any, Any]) -> arrays.SlotArray:
        """The slots that a call is about. Shape: (n,)."""
        slots = np.array(nodes.slots, dtype=np.intp)
        if (slots >= self._snap.nodes.size).any() or not self._snap.nodes.alive[slots].all():
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "nodes.slots: there is no node at some of them")
        return slots

    async def _take_capacities(
        self, kept: columns.ClassColumns, request: score_pb2.PlaceRequest, context: aio.ServicerContext[Any, Any]
    ) -> None:
        try:
            answer = node_columns.unpack(request.capacities)
        except ValueError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"capacities: {error}")
            raise AssertionError("abort does not return") from error
        if answer.base_generation and answer.base_generation != kept.capacity_generation:
            await context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"capacities.base_generation: {answer.base_generation} is not here; send them complete",
            )
        kept.take_capacities(answer.slots, answer.size, answer.index != 0, answer.capacity, answer.generation)

    async def _evaluate(
        self,
        cycle: Any,
        pod_class: classes.PodClass,
        context: aio.ServicerContext[Any, Any],
        watch: stopwatch.Stopwatch | None = None,
    ) -> columns.ClassColumns | status.Status:
        return await follower.in_step(self._evaluator.evaluate(cycle.profile, pod_class, watch), context)

    async def _class_of(self, cycle: Any, context: aio.ServicerContext[Any, Any]) -> classes.PodClass:
        return await self.follow.class_of(cycle, self._chains, context)


async def _constraints(
    request: score_pb2.PlaceRequest, context: aio.ServicerContext[Any, Any]
) -> tuple[domain_rules.DomainConstraint, ...]:
    try:
        return domain_constraints.from_messages(request.constraints)
    except ValueError as error:
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        raise AssertionError("abort does not return") from error
