"""Ports: the interfaces that the scheduler needs from outside.

`Evaluators` decide where pods may go and where they go best; `Effects` are all writes; `Clocks` and `Random` are
the other differences between runs; `Observer` measures.

Scheduling knows these interfaces alone, so that the same algorithm runs against replicas behind gRPC
(`frontend/phase_clients`), or against anything else that answers.

Tests: tests/unit/scheduling/test_in_memory.py.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from trireme.framework import status
from trireme.queueing import pre_enqueue, queued_pod
from trireme.queueing.hints import queueing_hint_map
from trireme.v1 import bind_pb2, core_pb2, cycle_pb2, filter_pb2, filter_phase_pb2, score_phase_pb2, status_pb2
from trireme.wire.phase_answers import FilterAnswer, PlaceAnswer
from trireme.wire.post_filter_result import PostFilterResult
from trireme_kube.client.events import event_series

# A profile's name and a class of pods.
ClassKey = tuple[str, int]


class PhaseFault(Exception):
    """A phase returned an invalid answer: the attempts of the pods end by error, with this text.

    Subclasses: trireme.in_process.in_process_evaluators.OtherChangesError.
    """


class PhaseUnavailable(Exception):
    """No replica of the phase could answer."""


class Evaluators(Protocol):
    """Filters, scores and reserves. A generation is one that the caller has published.

    Each call raises PhaseUnavailable if no replica can answer now, and PhaseFault if the answer is invalid.

    Implementers: trireme.in_process.in_process_evaluators.InProcessEvaluators,
    trireme.frontend.phase_clients.remote_evaluators.RemoteEvaluators,
    trireme.frontend.phase_clients.recording_evaluators.RecordingEvaluators,
    trireme.simulation.yielding_evaluators.YieldingEvaluators, tests.helpers.pod_group_cluster.Cluster.
    """

    @property
    def answers(self) -> Container[ClassKey]:
        """The classes about which filter has answered, as far as that is known: these need not be prepared."""
        ...

    def cycle(self, profile: str, class_id: int, generation: int) -> cycle_pb2.Cycle:
        """Make the context of a call about the class, at this generation of the snapshot or a later one."""
        ...

    async def filter(
        self,
        profile: str,
        class_id: int,
        count: int,
        generation: int,
        nominee: core_pb2.Pod | None = None,
        preemptors: Sequence[core_pb2.Pod] = (),
    ) -> FilterAnswer:
        """On which nodes pods of the class may run, how many on each, and why not on others.

        `nominee` is the pod that is nominated for a node, by name and UID, which counts there for itself alone.
        `preemptors` are the first pods by name, UID and nomination, where they most likely fit nowhere: the nominee, or
        pods that are not nominated. PostFilter's results for them may come with the answer.
        """
        ...

    async def filter_nominated(
        self, profile: str, class_id: int, generation: int, nominees: Sequence[core_pb2.Pod], slots: Sequence[int]
    ) -> FilterAnswer:
        """How many of these pods, from the first, may all run where they are nominated, each at another slot.

        The answer knows of no other nodes.
        """
        ...

    async def run_post_filter(
        self, profile: str, class_id: int, generation: int, pods: Sequence[core_pb2.Pod], filtered: FilterAnswer
    ) -> filter_phase_pb2.RunPostFilterResponse:
        """How room can be made for the first of these pods, at least for one, in order.

        Each result holds if the pods before are nominated as their results say. `pods` fit nowhere: their names, UIDs
        and nominations.
        """
        ...

    async def list_preemption_candidates(
        self, profile: str, class_id: int, generation: int, pod: core_pb2.Pod, filtered: FilterAnswer
    ) -> filter_phase_pb2.ListPreemptionCandidatesResponse:
        """The nodes that preemption has to choose from; otherwise what PostFilter answers."""
        ...

    async def select_preemption_candidate(
        self,
        profile: str,
        class_id: int,
        generation: int,
        pod: core_pb2.Pod,
        filtered: FilterAnswer,
        candidates: Sequence[filter_phase_pb2.PreemptionCandidate],
    ) -> filter_phase_pb2.SelectPreemptionCandidateResponse:
        """Run PostFilter for this pod, where preemption may choose among these nodes alone."""
        ...

    async def list_pod_group_victims(
        self, request: filter_phase_pb2.ListPodGroupVictimsRequest
    ) -> filter_phase_pb2.ListPodGroupVictimsResponse:
        """The potential victims of a group."""
        ...

    async def reprieve_pod_group_victims(
        self, request: filter_phase_pb2.ReprievePodGroupVictimsRequest
    ) -> filter_phase_pb2.ReprievePodGroupVictimsResponse:
        """The victims that have to be evicted for a group that was placed without them."""
        ...

    async def list_releasable_claims(
        self, request: filter_phase_pb2.ListReleasableClaimsRequest
    ) -> filter_phase_pb2.ListReleasableClaimsResponse:
        """Which claims of a group may be released, as no node can use them as they are."""
        ...

    async def score_pod_group_placements(
        self, request: score_phase_pb2.ScorePodGroupPlacementsRequest
    ) -> score_phase_pb2.ScorePodGroupPlacementsResponse:
        """The total score of each placement of a group, or the status of the plugin that failed."""
        ...

    async def place(
        self, profile: str, class_id: int, count: int, filtered: FilterAnswer, extra_scores: Sequence[int] = ()
    ) -> PlaceAnswer:
        """The slots of the next pods, in order; `extra_scores` are added to the plugins', by slot."""
        ...

    async def place_in_turn(
        self, profile: str, wanted: Sequence[tuple[int, int]], generation: int
    ) -> Sequence[tuple[FilterAnswer, PlaceAnswer]]:
        """Filter and place pods of several classes (number, count), each as if the pods before were on their nodes.

        No class is named twice. The answers are about the first classes: as long as a placed pod changes only what is
        left of its node's resources, and up to the first class whose pods were not all placed. There may be none.
        """
        ...

    async def reserve(
        self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement]
    ) -> filter_pb2.ReserveResponse:
        """Run the Reserve plugins: for each placement what is to be assumed beside it, or why it failed."""
        ...

    async def unreserve(self, cycle: cycle_pb2.Cycle, placements: Sequence[filter_pb2.Placement]) -> None:
        """Notify the Reserve plugins that these pods will not be bound where they were placed."""
        ...

    async def prepare(self, profile: str, class_id: int, generation: int) -> None:
        """Have the class evaluated ahead of its turn, so that the calls about it are answered sooner."""
        ...


@dataclass(slots=True)
class PreBindItem:
    """A pod to prepare for binding. Once nobody waits for that (`cancelled`), it is not sent any more."""

    cycle: cycle_pb2.Cycle
    item: bind_pb2.BindItem
    cancelled: bool = False


#: The fault of an answer of bind that has not one result for each pod.
OTHER_PODS = "bind answered about other pods than these"


class Binder(Protocol):
    """Binds pods, and does every other write to the cluster: conditions, nominations, evictions, claims.

    Calls with an uncertain result are repeated until it is known, so only `permit` and `post_bind` may fail.

    Implementers: trireme.scheduling.in_memory.Binder, trireme.frontend.phase_clients.bind_phase_client.BindPhaseClient,
    trireme.frontend.tracing.traced_binder.TracedBinder,
    tests.helpers.fake_binder.FakeBinder, tests.helpers.frontend_world_services.FakeBinders.
    """

    async def permit(self, request: bind_pb2.PermitRequest) -> bind_pb2.PermitResponse:
        """The Permit plugins' answers about placed pods. Raises: PhaseFault."""
        ...

    async def pre_bind_pre_flight(
        self, items: Sequence[PreBindItem], on_result: Callable[[int, status_pb2.Status], None]
    ) -> None:
        """Find out whether the PreBind plugins have work for the items, and write nothing.

        `on_result` receives each result, by index, as it is known.
        """
        ...

    async def pre_bind(
        self,
        items: Sequence[PreBindItem],
        on_result: Callable[[int, bind_pb2.PreBindResult], None],
        on_start: Callable[[int, str], None],
    ) -> None:
        """Run the PreBind plugins for all items.

        `on_result` receives each result, by index, as it is known. `on_start` receives for each item the address of the
        replica that runs it, for `apply`.
        """
        ...

    def bind(self, request: bind_pb2.BindRequest) -> AsyncIterator[bind_pb2.BindResult]:
        """Bind all items; each result once, as it is known. Does not end before every item has one."""
        ...

    async def post_bind(self, request: bind_pb2.PostBindRequest) -> None:
        """Notify the PostBind plugins of bound pods. Raises: PhaseFault."""
        ...

    async def apply(
        self,
        actions: Sequence[bind_pb2.Action],
        on_result: Callable[[int, bind_pb2.BindResult], None] | None = None,
        address: str = "",
    ) -> list[bind_pb2.BindResult]:
        """Execute all actions; returns a result for each, in order.

        `on_result` receives each, by index, as it is known. `address`: the replica to prefer.
        """
        ...


class Events(Protocol):
    """Records events; returns at once.

    Implementers: trireme.scheduling.in_memory.Events, trireme_kube.client.events.event_recorder.EventRecorder.
    """

    def record(
        self,
        regarding: event_series.ObjectReference,
        event_type: str,
        reason: str,
        action: str,
        message: str,
        controller: str,
    ) -> None:
        """Something happened to an object; `controller` is the profile's scheduler name."""

    def record_scheduled(self, pod: event_series.ObjectReference, node: str, controller: str) -> None:
        """The pod was bound to the node."""


async def _shown_at_once(namespace: str, name: str) -> None:
    """Return: what is written shows at once."""


@dataclass(frozen=True, slots=True)
class Effects:
    """Everything that scheduling writes goes through these."""

    binder: Binder
    events: Events
    #: Returns once the cache has the ResourceClaim (namespace, name) as the API server has it.
    until_claim_shown: Callable[[str, str], Awaitable[None]] = _shown_at_once


@dataclass(frozen=True, slots=True)
class Clocks:
    """Where times come from, each a function that answers seconds."""

    now: Callable[[], float]  # Unix seconds that never run backwards: back-offs, and all times in the queue
    monotonic: Callable[[], float]  # deadlines
    wall: Callable[[], float]  # Unix seconds as they are written


# Answers a number in [0, 1).
# Implementers: trireme.simulation.simulated_scheduler.assemble.
Random = Callable[[], float]

# How a pod's attempt without a node ended, for `Observer.on_attempt_failed`.
RESULT_UNSCHEDULABLE = "unschedulable"
RESULT_ERROR = "error"

# What makes room for itself, where it is no group.
POD = "pod"


class BindingLog(Protocol):
    """Takes down which pods took the nodes of an answer, and how long binding took, to explain decisions later.

    Implementers: trireme.scheduling.in_memory.BindingLog, trireme.frontend.phase_clients.decision_log.DecisionLog,
    trireme.frontend.tracing.traced_metrics.TracedBindingLog.
    """

    def add_placed(self, class_key: ClassKey, generation: int, pods: Sequence[tuple[str, int]]) -> None:
        """These pods (UID, slot) are assumed by the last answer about the class. AttemptRunner calls it."""

    def add_bound(
        self,
        pod: queued_pod.QueuedPodInfo,
        now: float,
        *,
        permit_seconds: float,
        pre_bind_seconds: float,
        bind_seconds: float,
    ) -> None:
        """The pod is bound. `now` by the queue's clock. BindingCycle calls it, once for each pod."""


class Observer(Protocol):
    """Measures each step. Units: seconds, of the observer's own clock unless stated otherwise.

    A batch is pods of one class that are scheduled by themselves; pod groups come in batches of their own.

    Implementers: trireme.scheduling.in_memory._Observer, trireme.frontend.scheduler_metrics.SchedulerMetrics.
    """

    @property
    def clock(self) -> Callable[[], float]:
        """The clock by which steps are timed."""
        ...

    # Attempts

    def on_batch_popped(self, profile: str, pods: Sequence[queued_pod.QueuedPodInfo]) -> None:
        """A batch of pods was taken from the queue. SchedulingCycle alone calls it: batches of groups do not count."""

    def on_group_popped(self, pods: Sequence[queued_pod.QueuedPodInfo]) -> None:
        """The members of a group are going to be tried. PodGroupCycle calls it."""

    def on_pods_placed(
        self,
        profile: str,
        pods: int,
        seconds: float,
        filtered: FilterAnswer,
        placed: PlaceAnswer,
        again: bool = False,
    ) -> None:
        """One answer of filter and score placed so many pods, at least one; `again`: it had placed others before.

        AttemptRunner calls it, also for members of groups; SchedulingCycle for speculative placements.
        """

    def on_pods_refused(self, profile: str, pods: int, seconds: float, filtered: FilterAnswer) -> None:
        """One answer of filter refused so many pods, at least one, on every node.

        SchedulingCycle calls it after PostFilter, PodGroupTrials for a member that fits nowhere.
        """

    def on_attempt_failed(self, pod: queued_pod.QueuedPodInfo, result: str, message: str, now: float) -> None:
        """The pod's attempt ended without a node: RESULT_UNSCHEDULABLE or RESULT_ERROR. `now` by the queue's clock.

        AttemptReporter calls it, for pods and for members of groups; `message` is that of the pod's condition.
        """

    def on_pod_bound(self, pod: queued_pod.QueuedPodInfo, now: float) -> None:
        """The pod is bound. `now` by the queue's clock. AttemptReporter calls it, once for each bound pod."""

    # Groups of pods

    def on_group_attempted(self, profile: str, kind: str, result: str, seconds: float) -> None:
        """A group of this kind was tried, with this result. PodGroupCycle calls it, however the attempt ended."""

    def on_group_evaluated(self, profile: str, kind: str, seconds: float) -> None:
        """The trial of a group took so long, without PodGroupPostFilter. PodGroupCycle calls it."""

    def on_placements_generated(self, profile: str, kind: str, placements: int) -> None:
        """A group is going to be tried in so many placements. PodGroupPlacements calls it."""

    def on_placement_evaluated(self, profile: str, kind: str, feasible: bool, seconds: float) -> None:
        """A group was tried in a placement. PodGroupPlacements calls it for each."""

    # Preemption

    def on_post_filter_run(self, profile: str, result: PostFilterResult, pods: int, seconds: float) -> None:
        """PostFilter answered, and its answer holds for so many pods. PostFilters calls it; not for groups."""

    def on_group_preemption_evaluated(self, kind: str, code: status.Code, seconds: float) -> None:
        """Preemption was evaluated for a group. PodGroupPostFilters calls it, unless a phase failed."""

    def on_group_preemption_attempted(self, kind: str, code: status.Code) -> None:
        """A group tried to make room for itself, with this result. PodGroupPostFilters calls it."""

    def on_group_disruption(self, kind: str, cost: filter_pb2.Disruption) -> None:
        """Room is made for a group of this kind, at this cost. PodGroupPostFilters calls it."""

    def on_evictions_ended(self, kind: str, succeeded: bool, seconds: float) -> None:
        """The evictions for a pod, or a group of this kind, succeeded or failed, while scheduling waited for them.

        PreemptionExecutor calls it.
        """

    def on_background_evictions_ended(self, kind: str, succeeded: bool, seconds: float) -> None:
        """The evictions for a pod, or a group of this kind, succeeded or failed, while others were scheduled.

        PreemptionExecutor calls it instead of `on_evictions_ended`.
        """

    # Extension points

    def on_extension_point_run(
        self, point: str, code: status.Code, profile: str, seconds: float, pods: int = 1
    ) -> None:
        """An extension point was run for so many pods at once: Reserve and all that follow, and those of groups.

        AttemptRunner, BindingCycle, PostBinding, PodGroupCycle, PodGroupPlacements and PlacementFeasibility call it;
        Filter and Score report their own timings.
        """

    def on_plugin_run(self, point: str, plugin: str, code: status.Code, seconds: float) -> None:
        """A plugin ran at an extension point: PodGroupPlacements, PodGroupPostFilters and AttemptRunner call it."""

    def record_skipped_extension_points(
        self, points: Iterable[str], code: status.Code, profile: str, pods: int
    ) -> None:
        """Record runs that took no time: at these extension points no plugin has anything to do for so many pods.

        BindingCycle and PostBinding call it.
        """

    def on_permit_wait_ended(self, code: status.Code, seconds: float) -> None:
        """A pod no longer waits on Permit. BindingCycle calls it, however the wait ended."""

    def on_volume_stage_ended(self, operation: str, result: status.Status) -> None:
        """A stage of a pod ended so: Filter with an error (`predicate`), Reserve (`assume`) or PreBind (`bind`).

        PostFilters, AttemptRunner and BindingCycle call it; only errors of VolumeBinding count.
        """

    def on_devices_prepared(self, profile: str, drivers: Iterable[str], result: status.Status, seconds: float) -> None:
        """PreBind waited for devices of these drivers. BindingCycle calls it."""

    # Changes in the cluster

    def on_event_handled(self, label: str, started: float) -> None:
        """The queue took in a change in the cluster, beginning at `started`.

        QueueNotifier, PodEventHandlers and BindingCycle call it, and the frontend for events with remote hints.
        """

    def on_event_ignored(self, label: str) -> None:
        """Something changed that can help no pod, so the queue did not look at it. QueueNotifier calls it."""

    # Wrappers, so that the queue and its hints need no clock

    def with_timing_of_pre_enqueue(self, gate: pre_enqueue.PreEnqueue) -> pre_enqueue.PreEnqueue:
        """Wrap PreEnqueue so that its duration is measured. QueueExecutor calls it once."""
        ...

    def with_timing_of_hints(
        self, registrations: Sequence[queueing_hint_map.EventRegistration]
    ) -> Sequence[queueing_hint_map.EventRegistration]:
        """Wrap the hints of in-tree plugins so that their duration is measured. QueueExecutor calls it."""
        ...
