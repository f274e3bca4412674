"""FilterPhase of the filter phase: calls, answered by an engine.

A phase answers all that its plugins say as one plugin would: PreFilter and Filter in one call, the first refusal per
node.

Also change: docs/protocol.md.
Also change: internal/trireme/score/service.py,
internal/trireme/in_process/in_process_evaluators.py (the servers are alike; in one process).
Also change: protos/trireme/v1/filter_phase.proto (the messages).
Also change: internal/trireme/evaluation/filter_engine.py,
internal/trireme/evaluation/score_engine.py (filter and score are alike here).
Also change: internal/trireme/replay/decision_calls.py (the calls).

Tests: tests/unit/filter/test_service.py, tests/unit/replay/test_decision_replay.py.
"""

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from grpc import aio

from trireme.evaluation import filter_engine, request_errors, reserving
from trireme.evaluation.filtering import class_verdicts, filter_chain, filter_evaluator
from trireme.filter import node_metrics
from trireme.framework import amounts, status
from trireme.phases import answering, configuring
from trireme.registry import compared_plugins, filter_profiles
from trireme.remote import answer_recording, compared_filters, remote_filter
from trireme.rpc import follower
from trireme.snapshot import snapshot
from trireme.v1 import cycle_pb2, filter_pb2, filter_phase_pb2, filter_phase_pb2_grpc, plugin_pb2, snapshot_pb2
from trireme.wire import node_columns, phase_answers
from trireme.wire import status as wire_status
from trireme_kube.componentbase.metrics.instruments import Instrument

Request = TypeVar("Request")
Answer = TypeVar("Answer")
Recorded = TypeVar(
    "Recorded",
    filter_phase_pb2.RunPostFilterResponse,
    filter_phase_pb2.ListPreemptionCandidatesResponse,
    filter_phase_pb2.SelectPreemptionCandidateResponse,
    filter_phase_pb2.ReprievePodGroupVictimsResponse,
    filter_pb2.ReserveResponse,
)


class FilterPhase(filter_phase_pb2_grpc.FilterPhaseServicer):
    """The gRPC service of filter: converts messages for the FilterEngine, on a snapshot that `follow` updates."""

    def __init__(
        self,
        snap: snapshot.Snapshot,
        make_remote: filter_profiles.MakeRemoteFilter,
        make_remote_reserver: reserving.MakeRemoteReserver | None = None,
        make_remote_post_filter: filter_profiles.MakeRemotePostFilter | None = None,
        make_compared: Callable[[snapshot_pb2.RemotePlugin, str], remote_filter.RemoteFilterPlugin] | None = None,
        *,
        follow: follower.Follower | None = None,
    ) -> None:
        """`make_compared` makes remote plugins in mode Shadow; without it they are left out.

        `follow` updates the snapshot for score too, and has both `prepare` configurations; None: for this service
        alone.
        """
        self._snap = snap
        self._make_remote = make_remote
        self._make_remote_reserver = make_remote_reserver
        self._make_remote_post_filter = make_remote_post_filter
        self._engine = filter_engine.FilterEngine(snap, filter_engine.FilterProfiles())
        self._make_compared = make_compared
        self.compared = compared_filters.ComparedFilters(snap, {}, self._evaluate_class)
        self.follow = follow or follower.Follower(snap, functools.partial(configuring.configure, [self]))

    @property
    def chains(self) -> Mapping[str, filter_chain.FilterChain]:
        """The plugins that run, by profile."""
        return self._engine.profiles.chains

    def statistics(self) -> filter_evaluator.FilterEvaluatorStatistics:
        """What has been evaluated since the configuration came."""
        return self._engine.evaluator.statistics()

    def instruments(self) -> Iterable[Instrument]:
        """The metrics that are no numbers of these statistics."""
        return node_metrics.instruments(self._snap)

    def prepare(self, configuration: snapshot_pb2.Configuration) -> Callable[[], None]:
        """Make the engine of a configuration; what this returns puts it in force, and does not fail.

        Raises: ValueError.
        """
        rules = amounts.rules_of(configuration.feature_gates)
        profiles = filter_profiles.make_profiles(
            configuration, self._make_remote, self._make_remote_reserver, self._make_remote_post_filter
        )
        compared = self._make_compared_plugins(configuration)
        engine = filter_engine.FilterEngine(self._snap, profiles)

        def put_in_force() -> None:
            self.compared.queue.close()
            self.compared = compared_filters.ComparedFilters(self._snap, compared, self._evaluate_class)
            self._snap.amount_rules = rules
            self._engine = engine

        return put_in_force

    def _make_compared_plugins(
        self, configuration: snapshot_pb2.Configuration
    ) -> Mapping[str, Sequence[remote_filter.RemoteFilterPlugin]]:
        """By profile the filter plugins in mode Shadow. Raises: ValueError."""
        make = self._make_compared
        if make is None:
            return {}
        found = compared_plugins.compared_plugins(configuration, plugin_pb2.EXTENSION_POINT_FILTER)
        return {profile: [make(remote, profile) for remote, _ in plugins] for profile, plugins in found.items()}

    async def _evaluate_class(self, profile: str, class_id: int) -> class_verdicts.ClassVerdicts:
        return await self._engine.evaluate(cycle_pb2.Cycle(profile=profile, pod_class=class_id))

    async def Prepare(
        self, request: filter_phase_pb2.FilterPhasePrepareRequest, context: aio.ServicerContext[Any, Any]
    ) -> filter_phase_pb2.FilterPhasePrepareResponse:
        """Bring the class's columns up to date, so that the next call about it is answered sooner."""
        engine = await self._engine_when_synced(request.cycle, context)
        await answering.answer_or_abort(engine.prepare(request.cycle), context)
        return filter_phase_pb2.FilterPhasePrepareResponse(evaluated_generation=self._snap.generation)

    async def Filter(
        self, request: filter_phase_pb2.FilterPhaseFilterRequest, context: aio.ServicerContext[Any, Any]
    ) -> filter_phase_pb2.FilterPhaseFilterResponse:
        """Say where the class may run: all nodes, or a patch to what the caller has."""
        engine = await self._engine_when_synced(request.cycle, context)
        filtering = engine.filter(request.cycle, request.count, request.base_generation, request.preemptors)
        response = phase_answers.filter_response(await answering.answer_or_abort(filtering, context))
        response.evaluated_generation = self._snap.generation
        self.compared.observe(request.cycle.profile, request.cycle.pod_class)
        return response

    async def FilterClasses(
        self, request: filter_phase_pb2.FilterClassesRequest, context: aio.ServicerContext[Any, Any]
    ) -> filter_phase_pb2.FilterClassesResponse:
        """Filter the first classes, up to one whose placed pods change more than resources."""
        engine = await self._engine_when_synced(request.cycle, context)
        answers = await answering.answer_or_abort(engine.filter_classes(request.cycle, request.classes), context)
        for each, _ in zip(request.classes, answers, strict=False):
            self.compared.observe(request.cycle.profile, each.pod_class)
        response = filter_phase_pb2.FilterClassesResponse(evaluated_generation=self._snap.generation)
        for answer in answers:
            phase_answers.write_filter_response(answer, response.answers.add())
        return response

    async def FilterNominated(
        self, request: filter_phase_pb2.FilterNominatedRequest, context: aio.ServicerContext[Any, Any]
    ) -> filter_phase_pb2.FilterNominatedResponse:
        """How many of the pods may run where they are nominated to."""
        engine = await self._engine_when_synced(request.cycle, context)
        answer = await answering.answer_or_abort(engine.filter_nominated(request.cycle, request.nominees), context)
        response = phase_answers.nominated_response(answer)
        response.evaluated_generation = self._snap.generation
        return response

    async def RunPostFilter(
        self, request: filter_phase_pb2.RunPostFilterRequest, context: aio.ServicerContext[Any, Any]
    ) -> filter_phase_pb2.RunPostFilterResponse:
        """What the PostFilter plugins of the profile answer."""
        engine = await self._engine_when_synced(request.cycle, context)
        with answer_recording.recording(request.cycle.wants_remote_answers) as recorded:
            response = await answering.answer_or_abort(_run_post_filter(engine, request), context)
        self._add_skips(engine, request.cycle.profile, (request.cycle.pod_class,), recorded)
        return _with_remote_answers(response, recorded)

    async def ListPreemptionCandidates(
        self, request: filter_phase_pb2.ListPreemptionCandidatesRequest, context: aio.ServicerContext[Any, Any]
    ) -> filter_phase_pb2.ListPreemptionCandidatesResponse:
        """The nodes that preemption has to choose from."""
        engine = await self._engine_when_synced(request.cycle, context)
        with answer_recording.recording(request.cycle.wants_remote_answers) as recorded:
            response = await answering.answer_or_abort(_list_candidates(engine, request), context)
        self._add_skips(engine, request.cycle.profile, (request.cycle.pod_class,), recorded)
        return _with_remote_answers(response, recorded)

    async def SelectPreemptionCandidate(
        self, request: filter_phase_pb2.SelectPreemptionCandidateRequest, context: aio.ServicerContext[Any, Any]
    ) -> filter_phase_pb2.SelectPreemptionCandidateResponse:
        """What the PostFilter plugins answer where preemption chooses among these nodes."""
        engine = await self._engine_when_synced(request.cycle, context)
        with answer_recording.recording(request.cycle.wants_remote_answers) as recorded:
            response = await answering.answer_or_abort(_select_candidate(engine, request), context)
        return _with_remote_answers(response, recorded)

    async def ListPodGroupVictims(
        self, request: filter_phase_pb2.ListPodGroupVictimsRequest, context: aio.ServicerContext[Any, Any]
    ) -> filter_phase_pb2.ListPodGroupVictimsResponse:
        """List the pods and groups that may be evicted for a group."""
        engine = await self._engine_when_synced(request.cycle, context)
        return await answering.answer_or_abort(_call_as_coroutine(engine.list_pod_group_victims, request), context)

    async def ReprievePodGroupVictims(
        self, request: filter_phase_pb2.ReprievePodGroupVictimsRequest, context: aio.ServicerContext[Any, Any]
    ) -> filter_phase_pb2.ReprievePodGroupVictimsResponse:
        """List the victims that have to be evicted for a group that was placed."""
        engine = await self._engine_when_synced(request.cycle, context)
        with answer_recording.recording(request.cycle.wants_remote_answers) as recorded:
            response = await answering.answer_or_abort(engine.reprieve_pod_group_victims(request), context)
        classes = {member.pod_class for member in request.placed}
        self._add_skips(engine, request.cycle.profile, classes, recorded)
        return _with_remote_answers(response, recorded)

    async def ListReleasableClaims(
        self, request: filter_phase_pb2.ListReleasableClaimsRequest, context: aio.ServicerContext[Any, Any]
    ) -> filter_phase_pb2.ListReleasableClaimsResponse:
        """Which claims a group may give up."""
        engine = await self._engine_when_synced(request.cycle, context)
        return await answering.answer_or_abort(_call_as_coroutine(engine.list_releasable_claims, request), context)

    async def Reserve(
        self, request: filter_pb2.ReserveRequest, context: aio.ServicerContext[Any, Any]
    ) -> filter_pb2.ReserveResponse:
        """What the Reserve plugins of the profile assume."""
        engine = await self._engine_when_synced(request.cycle, context)
        with answer_recording.recording(request.cycle.wants_remote_answers) as recorded:
            response = await answering.answer_or_abort(engine.reserve(request.cycle, request.placements), context)
        return _with_remote_answers(response, recorded)

    async def Unreserve(
        self, request: filter_pb2.UnreserveRequest, context: aio.ServicerContext[Any, Any]
    ) -> filter_pb2.UnreserveResponse:
        """Nothing is stored here; remote plugins that store something are notified."""
        engine = await self._engine_when_synced(request.cycle, context)
        await answering.answer_or_abort(engine.unreserve(request.cycle, request.placements), context)
        return filter_pb2.UnreserveResponse()

    def _add_skips(
        self,
        engine: filter_engine.FilterEngine,
        profile: str,
        classes: Collection[int],
        recorded: answer_recording.CollectedAnswers | None,
    ) -> None:
        """Record which remote plugins skip the classes that dry runs were made for: those are not called about them."""
        if recorded is None:
            return
        for number in classes:
            if number in self._snap.classes:
                for name in engine.evaluator.skipping_plugins(profile, number):
                    recorded.verdicts_of(name, number).skip()

    async def _engine_when_synced(
        self, cycle: cycle_pb2.Cycle, context: aio.ServicerContext[Any, Any]
    ) -> filter_engine.FilterEngine:
        """The engine, once the snapshot is what the cycle needs."""
        await self.follow.wait_until_synced(cycle, context)
        return self._engine


def _with_remote_answers(response: Recorded, recorded: answer_recording.CollectedAnswers | None) -> Recorded:
    """The response, with what remote plugins answered if that is recorded."""
    if recorded is not None:
        response.remote_answers = recorded.content()
    return response


async def _run_post_filter(
    engine: filter_engine.FilterEngine, request: filter_phase_pb2.RunPostFilterRequest
) -> filter_phase_pb2.RunPostFilterResponse:
    """Run PostFilter by the engine. Raises: InvalidRequestError, as the next ones."""
    return await engine.run_post_filter(request.cycle, *_read_refusal(request), request.preemptors)


async def _list_candidates(
    engine: filter_engine.FilterEngine, request: filter_phase_pb2.ListPreemptionCandidatesRequest
) -> filter_phase_pb2.ListPreemptionCandidatesResponse:
    return await engine.list_preemption_candidates(request.cycle, *_read_refusal(request), request.preemptor)


async def _select_candidate(
    engine: filter_engine.FilterEngine, request: filter_phase_pb2.SelectPreemptionCandidateRequest
) -> filter_phase_pb2.SelectPreemptionCandidateResponse:
    refusal = _read_refusal(request)
    return await engine.select_preemption_candidate(request.cycle, *refusal, request.preemptor, request.candidates)


async def _call_as_coroutine(call: Callable[[Request], Answer], request: Request) -> Answer:
    """Call a function that answers at once, as the coroutine that `answer_or_abort` takes."""
    return call(request)


def _read_refusal(
    request: filter_phase_pb2.RunPostFilterRequest
    | filter_phase_pb2.ListPreemptionCandidatesRequest
    | filter_phase_pb2.SelectPreemptionCandidateRequest,
) -> tuple[node_columns.NodeColumns, status.Status | None]:
    """Why the class runs nowhere: by node, or by PreFilter. Raises: InvalidRequestError."""
    try:
        columns = node_columns.from_message(request.columns)
    except ValueError as error:
        raise request_errors.InvalidRequestError(str(error)) from error
    return columns, wire_status.from_message(request.pre_filter) if request.HasField("pre_filter") else None
