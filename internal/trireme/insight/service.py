"""InsightService: explanations of pods, from one snapshot with the plugins of both filter and score.

Also change: docs/protocol.md.
Also change: protos/trireme/v1/insight.proto (the messages).

Tests: tests/unit/insight/test_service.py, tests/unit/insight/test_turns_of_callers.py.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
from grpc import aio

from trireme.evaluation import engine, filter_engine, request_errors, score_engine
from trireme.evaluation.filtering import filter_chain
from trireme.framework import amounts, status
from trireme.insight import (
    explanation,
    fitting_pods,
    http_metrics,
    observed_cluster,
    preemption_explanation,
    recorder,
    self_check,
    service_statistics,
    shortages,
)
from trireme.insight.console import console_state
from trireme.insight.history import decision_explainer, last_answers, memory
from trireme.insight.proposals import search, simulated_cluster
from trireme.insight.simulations import turns
from trireme.phases import release_skew
from trireme.recording import segment_writer
from trireme.registry import filter_profiles, remote_makers, score_profiles
from trireme.remote import recorded_plugins
from trireme.rpc import follower, grpc_server
from trireme.snapshot import arrays, snapshot
from trireme.v1 import (
    cycle_pb2,
    decision_explanation_pb2,
    filter_phase_pb2,
    insight_pb2,
    insight_pb2_grpc,
    scheduler_status_pb2,
    simulation_pb2,
    snapshot_pb2,
    status_pb2,
)
from trireme.wire import status as wire_status
from trireme_kube.componentbase import clocks
from trireme_kube.componentbase.logs import klog
from trireme_kube.componentbase.metrics.instruments import Instrument

if TYPE_CHECKING:
    from trireme.insight.simulations import setups, simulator


_AnswerT = TypeVar("_AnswerT")

# Explanations of waiting pods, a few milliseconds each unless remote plugins are called, which they wait for together.
EXPLANATIONS_AT_ONCE = 8
MAX_WAITING_EXPLANATIONS = 256
MAX_WAITING_EXPLANATIONS_OF_CALLER = 64
# What evaluates and schedules for an answer would log as for the scheduler, for each question: attempts that nobody
# made, and refusals as errors. They are in the answer. Remote plugins that fail are logged: this process calls them.
_EVALUATING = (
    "trireme.cache",
    "trireme.evaluation",
    "trireme.extenders",
    "trireme.plugins",
    "trireme.queueing",
    "trireme.scheduling",
)
# How long the search for waiting pods that fit may take, where the caller sets no deadline.
_FITTING_SECONDS = 5.0
# Explanations of past decisions, some 50 ms each.
MAX_WAITING_DECISIONS = 64
MAX_WAITING_DECISIONS_OF_CALLER = 16


@dataclass(frozen=True, slots=True)
class _Evaluated:
    """A waiting pod that was evaluated: the context of the calls about it, and of a recording the last answers."""

    queued: snapshot_pb2.QueuedPod
    cycle: cycle_pb2.Cycle
    last: last_answers.LastAnswers | None


class NotAnsweredError(Exception):
    """A request cannot be answered: the code of the call, and a text that says what the caller can do."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class InsightService(insight_pb2_grpc.InsightServiceServicer):
    """The gRPC service of insight: explains queued pods on a snapshot that `follow` keeps up to date."""

    def __init__(
        self,
        snap: snapshot.Snapshot,
        make_remote_filter: filter_profiles.MakeRemoteFilter = remote_makers.no_remote_plugin,
        make_remote_score: score_profiles.MakeRemoteScore = remote_makers.no_remote_plugin,
        *,
        now_ns: Callable[[], int] = clocks.wall_ns,
    ) -> None:
        """`now_ns` is the time of what is received, in nanoseconds since 1970."""
        self._snap = snap
        self._make_remote_filter = make_remote_filter
        self._make_remote_score = make_remote_score
        self._cluster = observed_cluster.ObservedCluster(snap)
        self._engine = engine.Engine(snap, filter_engine.FilterProfiles(), score_engine.ScoreProfiles())
        self._proposals = search.ProposalSearch()
        # Of explanations that fork the snapshot. Simulations have turns of their own, for they may take half a minute.
        self._turns = turns.Turns(what="explanations with proposals or preemption")
        self._explanation_turns = turns.Turns(
            MAX_WAITING_EXPLANATIONS,
            MAX_WAITING_EXPLANATIONS_OF_CALLER,
            at_once=EXPLANATIONS_AT_ONCE,
            what="explanations",
        )
        self._decision_turns = turns.Turns(
            MAX_WAITING_DECISIONS, MAX_WAITING_DECISIONS_OF_CALLER, what="explanations of decisions"
        )
        self._explained = 0
        self._simulated = 0
        self._configuration = snapshot_pb2.Configuration()
        self._calls_plugins = True
        self._simulator: simulator.Simulator | None = None
        self._recorder: recorder.Recorder | None = None
        #: Decides a sample of what is recorded again, once it runs; None: nothing is recorded.
        self.self_check: self_check.SelfCheck | None = None
        self._differences = self_check.differences_counter()
        #: What the HTTP API counts, where it is served.
        self.http_metrics = http_metrics.HttpMetrics()
        self._memory = memory.Memory(self._cluster, now_ns=now_ns)
        #: What the pages of the console are made from.
        self.console = console_state.ConsoleState(
            self._cluster, lambda: self.follow.disconnected_seconds, lambda: now_ns() / 1e9
        )
        self.follow = follower.Follower(
            self._cluster, release_skew.checked(self.configure), take_queue=self.take_queue, applied=self.take
        )
        self.follow.takes_decisions = True
        self._decisions = self._memory.explainer(self.follow.caller_identity)

    @property
    def chains(self) -> Mapping[str, filter_chain.FilterChain]:
        """The filter plugins that run, by profile."""
        return self._engine.filter.profiles.chains

    @property
    def waiting_explanations(self) -> int:
        """How many explanations with proposals or preemption wait for their turn."""
        return self._turns.waiting

    @property
    def cluster(self) -> observed_cluster.ObservedCluster:
        """The cluster and the queue that it explains."""
        return self._cluster

    def instruments(self) -> Sequence[Instrument]:
        """The metrics that are no numbers of `statistics`."""
        return *self.http_metrics.instruments(), self._differences

    def remembered_names(self) -> tuple[frozenset[str], frozenset[str]]:
        """The names of the nodes and of the placed pods that past decisions may be about."""
        return self._memory.clusters.names()

    def statistics(self) -> service_statistics.ServiceStatistics:
        """What it has done so far."""
        filters = self._engine.filter.evaluator.statistics()
        scores = self._engine.score.evaluator.statistics()
        cached = filters.column_bytes + scores.column_bytes
        recorded = recorder.NOTHING if self._recorder is None else self._recorder.statistics()
        checked = self_check.SelfCheckStatistics() if self.self_check is None else self.self_check.statistics()
        return service_statistics.ServiceStatistics(
            **asdict(recorded),
            explained=self._explained,
            remembered_decisions=len(self._memory.decisions),
            remembered_clusters=self._memory.clusters.span_count,
            memory_bytes=self._memory.clusters.nbytes,
            simulated=self._simulated,
            queued_pods=len(self._cluster.queue),
            classes=filters.classes,
            column_bytes=cached,
            self_checked_decisions=checked.made,
            self_check_failures=checked.failures,
            self_check_cpu_seconds=checked.cpu_seconds,
        )

    def take_queue(self, delta: snapshot_pb2.QueueDelta) -> None:
        """Take over what changed in the queue, for explanations and for the console.

        The frontend's own state comes in the same messages; of it preemptions and missed wake-ups are recorded.
        """
        if delta.HasField("scheduler_status"):
            self.console.history.take(delta.scheduler_status)
            status = delta.scheduler_status
            recorded = scheduler_status_pb2.SchedulerStatus(
                preemptions=status.preemptions, missed_wake_ups=status.missed_wake_ups
            )
            delta.ClearField("scheduler_status")
            if recorded.ByteSize():
                delta.scheduler_status.CopyFrom(recorded)
            return
        self._cluster.apply_queue(delta)
        self.console.apply_queue(delta)

    def record_to(self, writer: segment_writer.RecordingWriter) -> recorder.Recorder:
        """Record all streams from now on; return the recorder, which has yet to run."""
        # A recording begins with all of the cluster, whatever the plugins need.
        self._snap.store_node_objects(messages=True, json=True)
        recording = self._recorder = recorder.Recorder(self._cluster, writer, self.follow.instance)
        checking = self.self_check = self_check.SelfCheck(
            self._cluster,
            writer.folder,
            self.follow.instance,
            self._differences,
            lambda: klog.without_lines_of(*_EVALUATING),
        )
        self.follow.self_check = checking.status
        self.console.recording_failure = lambda: recording.failure
        return recording

    def take(self, request: snapshot_pb2.SyncRequest) -> None:
        """Remember what the cluster or the queue was updated by, and record it, if anything is recorded."""
        self._memory.take(request)
        if self._recorder is not None:
            self._recorder.record(request)
        if self.self_check is not None:
            self.self_check.take(request)

    def configure(
        self, configuration: snapshot_pb2.Configuration, *, recorded: snapshot_pb2.Configuration | None = None
    ) -> None:
        """Make the engine of a configuration. Raises: ValueError; then the one before stays in force.

        `recorded` is the scheduler's own, if that is another one: with the remote plugins that cannot be called here.
        """
        rules = amounts.rules_of(configuration.feature_gates)
        filters = filter_profiles.make_profiles(configuration, self._make_remote_filter)
        scores = score_profiles.make_profiles(configuration, self._make_remote_score)
        # From here on nothing fails: a configuration that is refused changes nothing.
        self._snap.amount_rules = rules
        self._engine = engine.Engine(self._snap, filters, scores)
        self._memory.configure(recorded or configuration)
        self._calls_plugins = recorded is None
        self._configuration = configuration

    async def Simulate(
        self, request: simulation_pb2.SimulateRequest, context: aio.ServicerContext[Any, Any]
    ) -> simulation_pb2.SimulateResponse:
        """What the scheduler would do."""
        return await _answered(self.simulate(request, grpc_server.caller_of(context)), context)

    async def simulate(self, request: simulation_pb2.SimulateRequest, caller: str) -> simulation_pb2.SimulateResponse:
        """What the scheduler would do. Raises: NotAnsweredError."""
        # The scheduler, which a replica that only explains does not need in its memory.
        from trireme.insight.simulations import simulator

        try:
            with klog.without_lines_of(*_EVALUATING):
                response = await self._shared_simulator().simulate(request, caller)
        except simulator.SimulationError as error:
            raise NotAnsweredError(error.code, str(error)) from error
        response.disconnected_ms = round(self.follow.disconnected_seconds * 1000)
        self._simulated += 1
        return response

    def _shared_simulator(self) -> "simulator.Simulator":
        """What answers simulations, made when it is first needed."""
        from trireme.insight.simulations import simulator

        if self._simulator is None:
            self._simulator = simulator.Simulator(self._cluster, self._make_simulation_setup)
        return self._simulator

    def _make_simulation_setup(self, request: simulation_pb2.SimulateRequest) -> "setups.Setup":
        """How pods are scheduled in a simulation. Raises: SetupError."""
        from trireme.insight.simulations import setups

        configuration = setups.wanted_configuration(request, self._configuration)
        caller = self.follow.caller_identity()
        return setups.make_setup(configuration, caller, self._make_remote_filter, self._make_remote_score)

    async def Explain(
        self, request: insight_pb2.ExplainRequest, context: aio.ServicerContext[Any, Any]
    ) -> insight_pb2.ExplainResponse:
        """Why the pod waits, node by node."""
        return await _answered(self.explain(request, grpc_server.caller_of(context)), context)

    async def explain(self, request: insight_pb2.ExplainRequest, caller: str) -> insight_pb2.ExplainResponse:
        """Why the pod waits, node by node. Raises: NotAnsweredError."""
        try:
            with klog.without_lines_of(*_EVALUATING):
                response = await self._explain(request, caller)
        except turns.TooManyWaitingError as error:
            raise NotAnsweredError(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error)) from error
        except (snapshot.OutOfStepError, request_errors.InvalidRequestError, request_errors.StaleRequestError) as error:
            text = f"the cluster changes while its nodes are evaluated; ask again: {error}"
            raise NotAnsweredError(grpc.StatusCode.UNAVAILABLE, text) from error
        self._explained += 1
        return response

    async def FindFittingPods(
        self, request: insight_pb2.FindFittingPodsRequest, context: aio.ServicerContext[Any, Any]
    ) -> insight_pb2.FindFittingPodsResponse:
        """Which of some waiting pods a node would take."""
        await self.follow.wait_until_synced(request.cycle, context)
        # The answer has to be there in time: half of it is for waits on remote plugins that had begun before.
        remaining = context.time_remaining()
        deadline = time.monotonic() + (_FITTING_SECONDS if remaining is None else remaining / 2)
        with klog.without_lines_of(*_EVALUATING):
            return await fitting_pods.find(self._engine, request, deadline)

    async def ExplainDecision(
        self, request: decision_explanation_pb2.ExplainDecisionRequest, context: aio.ServicerContext[Any, Any]
    ) -> decision_explanation_pb2.ExplainDecisionResponse:
        """By which decision the pod got its node."""
        return await _answered(self.explain_decision(request, grpc_server.caller_of(context)), context)

    async def explain_decision(
        self, request: decision_explanation_pb2.ExplainDecisionRequest, caller: str
    ) -> decision_explanation_pb2.ExplainDecisionResponse:
        """By which decision the pod got its node. Raises: NotAnsweredError."""
        pod = request.pod
        self._check_request(pod)
        row = self._cluster.row_of(pod.namespace, pod.name, pod.uid)
        uid = pod.uid if row is None else self._snap.pods.uids[row]
        if not uid:
            raise NotAnsweredError(grpc.StatusCode.NOT_FOUND, f"pod: {pod.namespace}/{pod.name} is on no node")
        try:
            async with self._decision_turns.turn_for(caller):
                with klog.without_lines_of(*_EVALUATING):
                    response = await self._decisions.explain(uid, request)
        except turns.TooManyWaitingError as error:
            raise NotAnsweredError(grpc.StatusCode.RESOURCE_EXHAUSTED, str(error)) from error
        except request_errors.InvalidRequestError as error:
            raise NotAnsweredError(grpc.StatusCode.UNAVAILABLE, f"the decision is not evaluated: {error}") from error
        except ValueError as error:
            raise NotAnsweredError(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from error
        except decision_explainer.DecisionForgotten as error:
            raise NotAnsweredError(grpc.StatusCode.NOT_FOUND, f"pod: {error}") from error
        self._explained += 1
        return response

    def _check_request(self, pod: cycle_pb2.PodIdentity) -> None:
        """Check that the pod has its names, and that there is a cluster. Raises: NotAnsweredError."""
        for name in ("namespace", "name"):
            if not getattr(pod, name):
                raise NotAnsweredError(grpc.StatusCode.INVALID_ARGUMENT, f"pod.{name}: must be given")
        if not self._cluster.synced:
            raise NotAnsweredError(grpc.StatusCode.UNAVAILABLE, observed_cluster.NOT_SYNCED)

    async def _explain(self, request: insight_pb2.ExplainRequest, caller: str) -> insight_pb2.ExplainResponse:
        """Explain a pod: its node if it has one, otherwise its state in the queue and each node's verdict.

        A pod without a class (its object is invalid) has no evaluation. Raises: NotAnsweredError, TooManyWaitingError,
        and what `explanation.explain` raises.
        """
        async with self._explanation_turns.turn_for(caller):
            response, evaluated = await self._evaluate(request)
        if evaluated is not None:
            # These have turns of their own.
            await self._add_proposals_and_preemption(evaluated, request, response, caller)
        return response

    async def _evaluate(
        self, request: insight_pb2.ExplainRequest
    ) -> tuple[insight_pb2.ExplainResponse, _Evaluated | None]:
        """Explain a pod without proposals and preemption; returns the response, and of a waiting pod what they need.

        Raises: NotAnsweredError, and what `explanation.explain` raises.
        """
        pod = request.pod
        self._check_request(pod)
        unknown = next((name for name in request.nodes if name not in self._snap.nodes.slot_of_name), None)
        if unknown is not None:
            raise NotAnsweredError(grpc.StatusCode.INVALID_ARGUMENT, f"nodes: there is no node {unknown}")
        response = insight_pb2.ExplainResponse(
            evaluated_generation=self._snap.generation,
            disconnected_ms=round(self.follow.disconnected_seconds * 1000),
            node_count=self._snap.nodes.count,
            pod=pod,
        )
        queued = self._cluster.queue.get(pod.namespace, pod.name)
        if queued is not None and pod.uid and queued.pod.uid != pod.uid:
            queued = None
        # After a successful attempt a pod is on its node a moment before the change of the queue is sent; that it is
        # tried is not sent before that takes long.
        if queued is None or queued.state in (
            snapshot_pb2.QUEUED_POD_STATE_ACTIVE,
            snapshot_pb2.QUEUED_POD_STATE_IN_FLIGHT,
        ):
            node_name = self._cluster.node_of(pod.namespace, pod.name, pod.uid)
            if node_name is not None:
                response.node_name = node_name
                return response, None
        if queued is None:
            raise NotAnsweredError(grpc.StatusCode.NOT_FOUND, _not_found_text(request))
        response.queued_pod.CopyFrom(queued)
        response.pod.CopyFrom(queued.pod)
        evaluated = await self._add_evaluation(queued, request, response) if queued.pod_class else None
        return response, evaluated

    async def _add_evaluation(
        self, queued: snapshot_pb2.QueuedPod, request: insight_pb2.ExplainRequest, response: insight_pb2.ExplainResponse
    ) -> _Evaluated:
        """Add to the response the answers of filter and, if requested, score about the pod on the present snapshot.

        Raises: NotAnsweredError: the pod's class has not arrived yet.
        """
        if queued.pod_class not in self._snap.classes:
            text = f"pod: its class {queued.pod_class} has not arrived on the stream yet; ask again"
            raise NotAnsweredError(grpc.StatusCode.UNAVAILABLE, text)
        cycle = self.follow.caller_identity()
        cycle.generation, cycle.profile, cycle.pod_class = self._snap.generation, queued.profile, queued.pod_class
        metadata = cycle.pod.metadata
        metadata.namespace, metadata.name, metadata.uid = queued.pod.namespace, queued.pod.name, queued.pod.uid
        last = None
        if not self._calls_plugins:
            last = await self._memory.last_answers(self._snap, queued.profile, queued.pod_class)
        evaluating = self._engine if last is None else last.engine
        found = await explanation.explain(evaluating, cycle, scores=request.scores)
        _write_explanation(found, self._snap.nodes.names, frozenset(request.nodes), response)
        if queued.pod_class in self._snap.classes:
            shortages.add_shortages(response, self._snap.classes[queued.pod_class], queued.pod.uid, self._snap)
        if last is not None:
            last.add_not_known(response, found.feasible)
        return _Evaluated(queued, cycle, last)

    async def _add_proposals_and_preemption(
        self,
        evaluated: _Evaluated,
        request: insight_pb2.ExplainRequest,
        response: insight_pb2.ExplainResponse,
        caller: str,
    ) -> None:
        """Add what else is requested where no node is feasible, or for a member of a group.

        That is whom the pod would preempt, and what would help.

        Raises: TooManyWaitingError.
        """
        queued, cycle, last = evaluated.queued, evaluated.cycle, evaluated.last
        if last is not None:
            if request.preemption:
                await self._add_recorded_preemption(queued, cycle, response, last, caller)
            return
        # A member may have feasible nodes, and its group none for all.
        if request.proposals and (queued.pod_group or not response.feasible_count):
            async with self._turns.turn_for(caller):
                works = self._shared_simulator().check_of_group(queued) if queued.pod_group else None
                result = await self._proposals.search(self._engine, cycle, works)
            response.proposals.extend(result.proposals)
            response.proposal_search_limits.extend(result.limits)
        if request.preemption and queued.pod_group:
            response.preemption.CopyFrom(await self._explain_group_preemption(queued, caller))
        elif request.preemption and not response.feasible_count:
            async with self._turns.turn_for(caller):
                response.preemption.CopyFrom(await self._explain_preemption(queued, cycle, self._engine))

    async def _add_recorded_preemption(
        self,
        queued: snapshot_pb2.QueuedPod,
        cycle: cycle_pb2.Cycle,
        response: insight_pb2.ExplainResponse,
        last: last_answers.LastAnswers,
        caller: str,
    ) -> None:
        """As far as it is known without calling remote plugins, add whom the pod would preempt."""
        if queued.pod_group:
            response.preemption.CopyFrom(await self._explain_group_preemption(queued, caller))
            response.not_known.extend(f"the answer of {name} about nodes for its group" for name in last.filters)
            return
        if response.feasible_count:
            return
        last.recorded.answer.filtering = False
        try:
            response.preemption.CopyFrom(
                await self._explain_preemption(queued, cycle, last.engine, last.recorded.filtering())
            )
        except recorded_plugins.MissingAnswerError as error:
            response.not_known.append(f"whom it would preempt: {error} is not recorded")

    async def _explain_group_preemption(
        self, queued: snapshot_pb2.QueuedPod, caller: str
    ) -> decision_explanation_pb2.PreemptionExplanation:
        """What preemption would do for the pod's group now. If too much is simulated already, the reason says so."""
        from trireme.insight.simulations import simulator

        try:
            return await self._shared_simulator().explain_group_preemption(queued, caller)
        except simulator.SimulationError as error:
            reason = f"it is not known, for the group is not simulated: {error}"
            return decision_explanation_pb2.PreemptionExplanation(
                pod_group=queued.pod_group, reason=reason, reasons=[status_pb2.Reason(code="notSimulated")]
            )

    async def _explain_preemption(
        self,
        queued: snapshot_pb2.QueuedPod,
        cycle: cycle_pb2.Cycle,
        evaluating: engine.Engine,
        filtering: contextlib.AbstractContextManager[None] | None = None,
    ) -> decision_explanation_pb2.PreemptionExplanation:
        """What preemption would do for the pod now. It runs on a fork, which changes no more.

        `filtering` is entered while Filter is evaluated.
        """
        # Other calls are answered first, as between the simulations of a search.
        await asyncio.sleep(0)
        copy = simulated_cluster.SimulatedCluster(self._snap, evaluating.filter.profiles, cycle)
        cycle = copy.cycle_of_class(cycle.pod_class)
        nominee = self._snap.nominations.get(queued.pod.uid)
        node = "" if nominee is None else self._snap.nodes.names[nominee.slot]
        cycle.pod.status.nominated_node_name = node
        preemptor = filter_phase_pb2.Preemptor(pod=queued.pod, nominated_node=node, seed=cycle.generation)
        with filtering or contextlib.nullcontext():
            answer = await copy.engine.filter(cycle)
        return await preemption_explanation.explain(copy.engine, copy.snap, cycle, preemptor, answer=answer)


async def _answered(answer: Awaitable[_AnswerT], context: aio.ServicerContext[Any, Any]) -> _AnswerT:
    """The answer; a call that has none is aborted with the code and the text of the error."""
    try:
        return await answer
    except NotAnsweredError as error:
        await grpc_server.abort(context, error.code, str(error))


def _write_explanation(
    found: explanation.Explanation,
    names: Sequence[str],
    nodes: Container[str],
    response: insight_pb2.ExplainResponse,
) -> None:
    """Convert an explanation; `nodes` are those that it is to name, none: all. `names` are the nodes' by slot."""

    def wanted_names(slots: arrays.SlotArray) -> list[tuple[int, str]]:
        """Position and name of the slots' nodes that are to be named."""
        listed = [(number, names[slot]) for number, slot in enumerate(slots.tolist())]
        return [entry for entry in listed if entry[1] in nodes] if nodes else listed

    response.evaluated_generation = found.generation
    response.feasible_count = found.feasible.size
    if found.pre_filter is not None:
        response.pre_filter.CopyFrom(wire_status.to_message(found.pre_filter))
    for refusals in found.refusals:
        refusing = [name for _, name in wanted_names(refusals.slots)]
        if refusing:
            message = wire_status.to_message(refusals.status)
            response.refusals.add(status=message, nodes=refusing, node_count=refusals.slots.size)
    scores = found.scores
    if not isinstance(scores, explanation.NodeScores):
        if isinstance(scores, status.Status):
            response.score_failure.CopyFrom(wire_status.to_message(scores))
        response.feasible_nodes.extend(insight_pb2.FeasibleNode(name=name) for _, name in wanted_names(found.feasible))
        return
    totals, columns = scores.totals.tolist(), []
    for plugin in scores.plugins:
        response.score_plugins.add(name=plugin.plugin, weight=plugin.weight, skipped=plugin.scores is None)
        columns.append([0] * len(totals) if plugin.scores is None else plugin.scores.tolist())
    for number, name in wanted_names(scores.slots):
        of_node = [column[number] for column in columns]
        response.feasible_nodes.add(name=name, total=totals[number], scores=of_node)


def _not_found_text(request: insight_pb2.ExplainRequest) -> str:
    """The error text about a pod that is neither in the queue nor on a node, with what the caller may do."""
    pod = request.pod
    which = f"{pod.namespace}/{pod.name}" + (f" with UID {pod.uid}" if pod.uid else "")
    return (
        f"pod: {which} is neither in the queue nor on a node; check the name, and that spec.schedulerName is a profile "
        "of this scheduler; ask again if it was created a moment ago, or if hundreds wait for their turn: insight "
        "hears first of those that wait longest"
    )
