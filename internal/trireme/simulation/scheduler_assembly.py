"""Puts the scheduler together for a simulation: queue, cycles and event handlers, with nothing outside the process.

The parts are those of the frontend. What differs is what they are given: evaluators in this process, writes that are
kept in memory, a clock that is moved by hand.
"""

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from trireme.cache import cluster_cache, object_waits
from trireme.config import gates, model
from trireme.plugin_api.pre_enqueue import PodToEnqueue, PreEnqueueContext
from trireme.queueing import assembly, backoff, nominator, pre_enqueue, queued_pod, scheduling_queue
from trireme.queueing.groups import queued_group
from trireme.queueing.hints import cluster_view, hint_evaluation, queueing_hint_map, registrations
from trireme.scheduling import (
    attempt,
    attempt_reporter,
    batch_limit,
    binding_cycle,
    cycle_roles,
    event_handlers,
    no_longer_pending,
    pods_in_pre_bind,
    ports,
    post_filtering,
    pre_binding,
    preemption_executor,
    preemption_retries,
    reserve_calls,
    scheduling_cycle,
    speculation,
    status_outbox,
    waiting_pods,
)
from trireme.scheduling.groups import pod_group_assembly
from trireme.simulation import silent_observer
from trireme.v1 import cycle_pb2, snapshot_pb2

# Pods of one batch, at most.
MAX_PODS = 100

# By how much the clock moves with a reading. Units: seconds.
_STEP = 1e-6


class SteppedClock:
    """A clock that is moved by hand, in Unix seconds, and a little with each reading: what is later has a later time.

    The queue orders pods by when their attempts ended, and by when they may be tried again.
    """

    def __init__(self, now: float) -> None:
        self.time = now

    def now(self) -> float:
        """The time, later than the time before."""
        self.time += _STEP
        return self.time


@dataclass(frozen=True, slots=True)
class SimulatedScheduler:
    """The parts of the scheduler that a simulation drives."""

    queue: scheduling_queue.SchedulingQueue
    handlers: event_handlers.EventHandlers
    cycle: scheduling_cycle.SchedulingCycle
    run_group: Callable[[queued_group.PodGroupBatch], Awaitable[None]] | None
    attempts: attempt.AttemptRunner
    binding: binding_cycle.BindingCycle
    preemptions: preemption_executor.PreemptionExecutor
    reserved: reserve_calls.ReserveCalls
    waiting: waiting_pods.WaitingPods
    outbox: status_outbox.StatusOutbox

    @property
    def busy(self) -> bool:
        """Whether something goes on beside the scheduling cycle that does not wait for other pods."""
        waiting = len(self.waiting.pods())
        tasks = self.binding.background.running + self.preemptions.background.running + self.reserved.background.running
        return tasks > waiting or len(self.outbox) > 0

    async def close(self) -> None:
        """Cancel what waits."""
        await self.preemptions.close()
        await self.binding.close()


class _Assembly:
    """Builds the parts; those that are built later are looked up when callbacks run."""

    def __init__(
        self,
        cache: cluster_cache.ClusterCache,
        publish: Callable[[], int],
        evaluators: ports.Evaluators,
        effects: ports.Effects,
        *,
        profiles: Sequence[model.CompletedProfile],
        features: gates.FeatureGates,
        clock: SteppedClock,
    ) -> None:
        self._cache = cache
        self._publish = publish
        self._evaluators = evaluators
        self._effects = effects
        self._profiles = profiles
        self._features = features
        self._roles = cycle_roles.cycle_roles(profiles, features)
        self._clocks = ports.Clocks(clock.now, clock.now, clock.now)
        self._observer = silent_observer.make()
        self._limit = batch_limit.BatchLimit(MAX_PODS)
        self._outbox = status_outbox.StatusOutbox(effects.binder.apply)
        self._waiting = waiting_pods.WaitingPods()
        self._view = cluster_view.CacheView(cache)
        self._groups = self._build_groups()
        self._queue = self._build_queue()
        self._handlers = self._build_handlers()
        self._reporter = attempt_reporter.AttemptReporter(
            self._queue,
            effects.events,
            pending=self._handlers.pods.pending,
            execute=_execute_nothing,
            outbox=self._outbox,
            now=clock.now,
            wall=clock.now,
            observer=self._observer,
        )
        self._reserved = reserve_calls.ReserveCalls(cache, evaluators, self._handlers.notifier.notify_of_assumed)
        self._in_pre_bind = pods_in_pre_bind.PodsInPreBind()
        self._waits = object_waits.ObjectWaits()
        self._binding = self._build_binding()
        self._preemptions = self._build_preemptions()
        self._gone = no_longer_pending.NoLongerPendingHandlers(
            cache, self._reporter, self._waiting, self._preemptions, self._in_pre_bind, self._waits
        )

    def scheduler(self) -> SimulatedScheduler:
        """All parts."""
        attempts = attempt.AttemptRunner(
            cache=self._cache,
            nominations=self._queue.nominator,
            evaluators=self._evaluators,
            reserved=self._reserved,
            observer=self._observer,
            log=silent_observer.make_log(),
            http_extenders=None,
            limit=self._limit,
            publish=self._publish,
        )
        cycle = scheduling_cycle.SchedulingCycle(
            cache=self._cache,
            queue=self._queue,
            attempts=attempts,
            speculations=speculation.Speculation(self._cache, self._evaluators, self._limit, self._publish),
            post_filters=self._build_post_filters(),
            reporter=self._reporter,
            observer=self._observer,
            now=self._clocks.now,
            binding=self._binding,
        )
        return SimulatedScheduler(
            self._queue,
            self._handlers,
            cycle,
            self._build_group_cycle(attempts),
            attempts,
            self._binding,
            self._preemptions,
            self._reserved,
            self._waiting,
            self._outbox,
        )

    def _build_groups(self) -> pod_group_assembly.PodGroupAssembly | None:
        """What makes the parts for pod groups; None: the gate is off."""
        if not self._features.enabled("GenericWorkload"):
            return None
        return pod_group_assembly.PodGroupAssembly(
            self._features,
            self._effects.events,
            self._outbox.send,
            self._preempting_for,
            self._clocks,
            random.Random(self._cache.generation).random,
            roles=self._roles,
        )

    def _build_queue(self) -> scheduling_queue.SchedulingQueue:
        """The queue, with the hints and PreEnqueue plugins of this process."""
        registered = {
            profile.scheduler_name: registrations.of_in_tree_plugins(profile, self._features, self._view)
            for profile in self._profiles
        }
        local = pre_enqueue.LocalPreEnqueuePlugins(
            self._profiles,
            PreEnqueueContext(self._features, self._view, self._preempting_for),
            self._pod_to_enqueue,
            lambda profile: False,
            lambda profile: "",
        )
        return assembly.build_queue(
            hint_evaluation.HintEvaluator(queueing_hint_map.QueueingHintMap(registered)),
            local.pre_enqueue,
            policy=backoff.BackoffPolicy(pop_early=self._features.enabled("SchedulerPopFromBackoffQ")),
            nominator=nominator.Nominator(self._still_pending, self._mirror_nomination),
            groups=None if self._groups is None else self._groups.queue_settings(),
        )

    def _build_handlers(self) -> event_handlers.EventHandlers:
        """What applies events to the cache and the queue."""
        return event_handlers.EventHandlers(
            self._cache,
            self._queue,
            frozenset(profile.scheduler_name for profile in self._profiles),
            now=self._clocks.now,
            execute=_execute_nothing,
            deleted=self._on_deleted,
            bound=self._on_bound,
            observer=self._observer,
            groups=self._queue.groups,
        )

    def _build_binding(self) -> binding_cycle.BindingCycle:
        """The binding cycle. Plugins of others at its points take no part."""
        return binding_cycle.BindingCycle(
            cache=self._cache,
            queue=self._queue,
            reporter=self._reporter,
            reserved=self._reserved,
            observer=self._observer,
            http_extenders=None,
            execute=_execute_nothing,
            now=self._clocks.now,
            log=silent_observer.make_log(),
            binder=self._effects.binder,
            waiting=self._waiting,
            pre_binding=pre_binding.PreBinding(self._effects.binder, self._waits, self._clocks.monotonic, False),
            in_pre_bind=self._in_pre_bind,
            roles=self._roles,
        )

    def _build_preemptions(self) -> preemption_executor.PreemptionExecutor:
        """What evicts victims."""
        return preemption_executor.PreemptionExecutor(
            cache=self._cache,
            nominations=self._queue.nominator,
            waiting=self._waiting,
            reporter=self._reporter,
            apply=self._effects.binder.apply,
            activate=self._activate,
            observer=self._observer,
            pre_binding=self._in_pre_bind,
            version_of=self._handlers.pods.version_of,
            held_preemptors=self._queue.held_preemptors,
            retries=preemption_retries.PreemptionRetries(lambda failures: 0.0, self._activate, self._clocks.now),
        )

    def _build_post_filters(self) -> post_filtering.PostFilters:
        """PostFilter of the profiles that have plugins there."""
        return post_filtering.PostFilters(
            cache=self._cache,
            nominations=self._queue.nominator,
            evaluators=self._evaluators,
            reporter=self._reporter,
            observer=self._observer,
            http_extenders=None,
            limit=self._limit,
            preemptions=self._preemptions,
            asynchronous=self._roles.post_filter,
        )

    def _build_group_cycle(
        self, attempts: attempt.AttemptRunner
    ) -> Callable[[queued_group.PodGroupBatch], Awaitable[None]] | None:
        """What runs the cycle of a pod group; None: there are no groups."""
        if self._groups is None or self._queue.groups is None:
            return None
        return self._groups.make_cycle(
            cache=self._cache,
            queue=self._queue,
            groups=self._queue.groups,
            evaluators=self._evaluators,
            attempts=attempts,
            reporter=self._reporter,
            reserved=self._reserved,
            observer=self._observer,
            limit=self._limit,
            publish=self._publish,
            execute=_execute_nothing,
            preemptions=self._preemptions,
            binding=self._binding,
        )

    def _preempting_for(self, uid: str) -> bool:
        """Whether victims of the pod are still to be deleted."""
        return self._preemptions.still_gates(uid)

    def _still_pending(self, _: str, uid: str) -> bool:
        """Whether the pod is known and has no node."""
        return self._handlers.pods.pending(uid) is not None and self._cache.pod(uid) is None

    def _activate(self, pods: Sequence[tuple[str, str]]) -> None:
        """Move these pods to the active queue."""
        self._queue.activate(pods, self._clocks.now())

    def _mirror_nomination(self, pod: nominator.NominatedPod, before: str, after: str) -> None:
        """Set or clear the pod's nomination in the cache."""
        namespace, _, name = pod.key.partition("/")
        identity = cycle_pb2.PodIdentity(namespace=namespace, name=name, uid=pod.uid)
        self._cache.nominate_node(snapshot_pb2.Nomination(pod=identity, pod_class=pod.class_id), after)

    def _pod_to_enqueue(self, pod: queued_pod.QueuedPodInfo) -> PodToEnqueue:
        """The pod as PreEnqueue plugins see it."""
        record = pod.record
        of_class = self._cache.registry[record.class_id].pod if record.class_id > 0 else None
        return PodToEnqueue(record.uid, record.pod.parsed.gates, of_class)

    def _on_deleted(self, uid: str) -> None:
        """A pending pod is gone; what forgets it is built after the handlers."""
        self._gone.on_deleted(uid)

    def _on_bound(self, uid: str) -> None:
        """A pending pod has a node."""
        self._gone.on_bound(uid)


def assemble(
    cache: cluster_cache.ClusterCache,
    publish: Callable[[], int],
    evaluators: ports.Evaluators,
    effects: ports.Effects,
    *,
    profiles: Sequence[model.CompletedProfile],
    features: gates.FeatureGates,
    clock: SteppedClock,
) -> SimulatedScheduler:
    """The scheduler over this cache. `publish` brings what the evaluators see up to date; returns its generation."""
    made = _Assembly(cache, publish, evaluators, effects, profiles=profiles, features=features, clock=clock)
    return made.scheduler()


def _execute_nothing(_: object) -> None:
    """Execute the queue's instructions, which are calls of remote plugins: none takes part in the queue."""
