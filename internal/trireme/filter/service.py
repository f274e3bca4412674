"""FilterService of the filter phase: the evaluator behind the contract.

A phase answers all that its plugins say as one plugin would: PreFilter and Filter in one call, the first refusal per
node.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import grpc
from google.protobuf import message
from grpc import aio

from trireme.evaluation import reserving, stopwatch
from trireme.evaluation.filtering import columns, evaluation, remote_columns
from trireme.evaluation.preemption import group_preemption, post_filtering, preemption, ways_out
from trireme.filter import assembly
from trireme.framework import amounts, status
from trireme.plugin_api import interfaces
from trireme.plugins.dynamic_resources import pod_group_post_filter as group_deallocation
from trireme.rpc import follower
from trireme.snapshot import classes, snapshot
from trireme.v1 import filter_pb2, filter_pb2_grpc, snapshot_pb2
from trireme.wire import domain_constraints, node_columns
from trireme.wire import status as wire_status

MakeRemote = Callable[[snapshot_pb2.RemotePlugin], remote_columns.RemoteFilter]


class FilterService(filter_pb2_grpc.FilterServiceServicer):
    """Answers from one snapshot, which `follow` keeps up to date."""

    def __init__(
        self,
        snap: snapshot.Snapshot,
        make_remote: MakeRemote,
        make_remote_reserve: reserving.MakeRemoteReserve | None = None,
    ) -> None:
        self._snap = snap
        self._make_remote = make_remote
        self._make_remote_reserve = make_remote_reserve
        self._chains: Mapping[str, evaluation.Chain] = {}
        self._reservers: Mapping[str, Sequence[reserving.Reserver]] = {}
        # Profiles with a plugin that must be asked for every pod.
        self._always_reserve: Mapping[str, bool] = {}
        self._post_filters: Mapping[str, Sequence[post_filtering.PostFilter]] = {}
        self._evaluator = evaluation.Evaluator(snap, self._chains)
        self._stopwatches = stopwatch.Stopwatches()
        self.follow = follower.Follower(snap, self._configured)

    @property
    def chains(self) -> Mapping[str, evaluation.Chain]:
        """The plugins that run, by profile."""
        return self._chains

    def statistics(self) -> evaluation.EvaluatorStatistics:
        """What the evaluator has done since the configuration came."""
        return self._evaluator.statistics()

    def _configured(self, configuration: snapshot_pb2.Configuration) -> None:
        rules = amounts.rules_of(configuration.feature_gates)
        chains = assembly.chains(configuration, self._make_remote)
        reservers = reserving.reservers(configuration, chains, self._make_remote_reserve)
        post_filters = assembly.post_filters(configuration, chains, self._make_remote_reserve)
        # From here on nothing fails: a configuration that is refused changes nothing.
        self._snap.amount_rules = rules
        self._chains, self._reservers, self._post_filters = chains, reservers, post_filters
        self._always_reserve = {profile: reserving.any_remote(each) for profile, each in self._reservers.items()}
        self._evaluator = evaluation.Evaluator(self._snap, self._chains)

    async def PreFilter(
        self, request: filter_pb2.PreFilterRequest, context: aio.ServicerContext[Any, Any]
    ) -> filter_pb2.PreFilterResponse:
        """PreFilter of all plugins."""
        kept = await self._evaluate(request.cycle, context)
        return _pre_filter(kept)

    async def Filter(
        self, request: filter_pb2.FilterRequest, context: aio.ServicerContext[Any, Any]
    ) -> filter_pb2.FilterResponse:
        """The class on all nodes, or a patch to what the caller has."""
        watch = self._stopwatches.next()
        response = filter_pb2.FilterResponse()
        nominated = await self._nominated(request.cycle, context, watch) if request.nominated_first else None
        own: tuple[int, int, int] | None = None
        if nominated is not None:
            kept, response.nominated_slot = nominated
            response.nominated_slots.extend(self._evaluator.admits_beside(request.cycle, kept, request.nominated))
        else:
            kept, own = await self._evaluate_for(request.cycle, context, watch)
        if request.prepare:
            return response
        chain = self._chains[request.cycle.profile]
        response.evaluated_plugins.extend(
            name for name in chain.order if name in kept.plugins and not kept.plugins[name].prefilter.skip
        )
        response.timings.extend(watch.messages())
        if kept.refusal is not None or kept.narrowed is not None:
            response.pre_filter.CopyFrom(_pre_filter(kept))
            response.narrowed_by.extend(kept.narrowed_by)
        if own is not None:
            response.columns.CopyFrom(self._answer_of_one(kept, own))
        elif kept.refusal is None and nominated is None:
            response.columns.CopyFrom(self._answer(kept, request.known_generation))
        said = [kept.plugins[plugin.name].prefilter for plugin in chain.local if plugin.name in kept.plugins]
        response.max_batch = min((answer.max_batch for answer in said if answer.max_batch), default=0)
        response.needs_pre_bind = any(answer.reserves for answer in said)
        response.needs_reserve = response.needs_pre_bind or self._always_reserve[request.cycle.profile]
        if request.preemptors and nominated is None:
            await self._add_ways_out(request, context, kept, response)
        if any(remote.depends_on == interfaces.Dependency.CLUSTER for remote in chain.remote):
            response.max_batch = 1
        elif kept.refusal is None and request.count > 1:
            pod_class = self._snap.classes[request.cycle.pod_class]
            stated = self._evaluator.constraints(request.cycle.profile, pod_class, kept)
            response.constraints.extend(domain_constraints.to_message(each) for each in stated)
        return response

    async def PostFilter(
        self, request: filter_pb2.PostFilterRequest, context: aio.ServicerContext[Any, Any]
    ) -> filter_pb2.PostFilterResponse:
        """The way out that the PostFilter plugins of the profile have, or why there is none."""
        pod_class = await self._class_of(request.cycle, context)
        kept = await self._evaluate(request.cycle, context)
        why = node_columns.unpack(request.columns)
        refused = request.HasField("pre_filter")
        question = preemption.Question(
            request.cycle,
            pod_class,
            self._chains[request.cycle.profile],
            kept,
            lambda: self._evaluate(request.cycle, context),
            why.statuses,
            None if refused else why.index,
            wire_status.from_message(request.pre_filter) if refused else None,
            request.offer_candidates,
            request.chosen if request.HasField("chosen") else None,
        )
        plugins = self._post_filters[request.cycle.profile]
        return await post_filtering.post_filter(plugins, request, question, self._snap)

    async def _add_ways_out(
        self,
        request: filter_pb2.FilterRequest,
        context: aio.ServicerContext[Any, Any],
        kept: columns.ClassColumns,
        response: filter_pb2.FilterResponse,
    ) -> None:
        cycle = request.cycle
        chain, plugins = self._chains[cycle.profile], self._post_filters[cycle.profile]
        ways = ways_out.WaysOut(cycle, chain, plugins, kept, lambda: self._evaluate(cycle, context), self._snap)
        async for way in ways.of(request.preemptors):
            response.ways_out.append(way)
        # What nodes said of pods that were nominated meanwhile may be new.
        statuses = response.columns.statuses
        if response.HasField("columns"):
            statuses.extend(wire_status.to_message(each) for each in kept.table.statuses[len(statuses) :])

    async def PodGroupPostFilter(
        self, request: filter_pb2.PodGroupPostFilterRequest, context: aio.ServicerContext[Any, Any]
    ) -> filter_pb2.PodGroupPostFilterResponse:
        """Who may go for a group; or, once it was placed, who of them has to. Or which claims it may give up."""
        await self._class_of(request.cycle, context)
        if not request.victims and not request.HasField("devices"):
            return group_preemption.who_may_go(request, self._snap)
        placed = set()
        for member in request.members:
            if member.pod_class not in self._snap.classes:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"members: no class {member.pod_class}")
            placed.add(member.pod_class)
        if request.HasField("devices"):
            try:
                return group_deallocation.post_filter(self._chains[request.cycle.profile], request, self._snap)
            except (ValueError, message.DecodeError) as error:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"members: {error}")
        for _ in range(preemption.TRIES):
            try:
                kept = await self._evaluate_all(request.cycle.profile, placed)
                chain = self._chains[request.cycle.profile]
                return await group_preemption.who_has_to_go(request, self._snap, chain, kept)
            except snapshot.OutOfStepError as error:
                moved = str(error)
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"cycle.generation: {moved}")
        raise AssertionError("abort does not return")

    async def _evaluate_all(self, profile: str, numbers: Iterable[int]) -> Mapping[int, columns.ClassColumns]:
        """The columns of these classes, of one generation unless the cluster changes each time. Raises:
        OutOfStepError.
        """
        for _ in range(preemption.TRIES):
            generation = self._snap.generation
            kept = {number: await self._evaluator.evaluate(profile, self._snap.classes[number]) for number in numbers}
            if self._snap.generation == generation:
                break
        return kept

    async def Reserve(
        self, request: filter_pb2.ReserveRequest, context: aio.ServicerContext[Any, Any]
    ) -> filter_pb2.ReserveResponse:
        """What the Reserve plugins of the profile assume."""
        pod_class = await self._class_of(request.cycle, context)
        plugins = self._reservers[request.cycle.profile]
        return filter_pb2.ReserveResponse(reservations=await reserving.reserve(plugins, request, pod_class, self._snap))

    async def Unreserve(
        self, request: filter_pb2.UnreserveRequest, context: aio.ServicerContext[Any, Any]
    ) -> filter_pb2.UnreserveResponse:
        """Nothing is kept here; remote plugins that keep something are told."""
        await self._class_of(request.cycle, context)
        await reserving.unreserve(self._reservers[request.cycle.profile], request)
        return filter_pb2.UnreserveResponse()

    def _answer(self, kept: columns.ClassColumns, known_generation: int) -> filter_pb2.NodeColumns:
        size = self._snap.nodes.size
        statuses = kept.table.statuses
        # These columns number their statuses by themselves: a patch holds only for an answer that was taken from them.
        if 0 <= kept.first_answered <= known_generation <= kept.generation:
            slots = kept.changed.since(known_generation, size)
            if slots.size * 2 < size:
                return node_columns.pack(
                    kept.generation, known_generation, size, slots, statuses, kept.index[slots], kept.capacity[slots]
                )
        if kept.first_answered < 0:
            kept.first_answered = kept.generation
        return node_columns.pack(kept.generation, 0, size, None, statuses, kept.index[:size], kept.capacity[:size])

    def _answer_of_one(self, kept: columns.ClassColumns, own: tuple[int, int, int]) -> filter_pb2.NodeColumns:
        """The complete answer about one pod of the class, for which one slot is another than for the others."""
        size = self._snap.nodes.size
        index, capacity = kept.index[:size].copy(), kept.capacity[:size].copy()
        index[own[0]], capacity[own[0]] = own[1:]
        return node_columns.pack(kept.generation, 0, size, None, kept.table.statuses, index, capacity)

    async def _evaluate(
        self, cycle: Any, context: aio.ServicerContext[Any, Any], watch: stopwatch.Stopwatch | None = None
    ) -> columns.ClassColumns:
        pod_class = await self._class_of(cycle, context)
        return await follower.in_step(self._evaluator.evaluate(cycle.profile, pod_class, watch), context)

    async def _evaluate_for(
        self, cycle: Any, context: aio.ServicerContext[Any, Any], watch: stopwatch.Stopwatch
    ) -> tuple[columns.ClassColumns, tuple[int, int, int] | None]:
        """The columns, and own_verdict; again while services have no answer about the pod's own node as it is."""
        for _ in range(evaluation.ATTEMPTS):
            kept = await self._evaluate(cycle, context, watch)
            own = self._evaluator.own_verdict(cycle, kept)
            if own is None or own[1] not in kept.unanswered_statuses:
                return kept, own
        text = "cycle.pod: the node that it is nominated to changes faster than plugins can be called about it"
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, text)
        raise AssertionError("abort does not return")

    async def _nominated(
        self, cycle: Any, context: aio.ServicerContext[Any, Any], watch: stopwatch.Stopwatch
    ) -> tuple[columns.ClassColumns, int] | None:
        pod_class = await self._class_of(cycle, context)
        return await follower.in_step(self._evaluator.admits_nominated(cycle, pod_class, watch), context)

    async def _class_of(self, cycle: Any, context: aio.ServicerContext[Any, Any]) -> classes.PodClass:
        return await self.follow.class_of(cycle, self._chains, context)


def _pre_filter(kept: columns.ClassColumns) -> filter_pb2.PreFilterResponse:
    response = filter_pb2.PreFilterResponse(status=wire_status.to_message(kept.refusal or status.SUCCESS))
    if kept.narrowed is not None:
        response.narrowed = True
        response.node_names.extend(sorted(kept.narrowed))
    return response
