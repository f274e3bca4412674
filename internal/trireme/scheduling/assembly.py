"""Puts the scheduler together: queue, event handlers, cycles, binding, preemption and pod groups, from ports.

This is the one place that does. The frontend gives it clients of the phases, shadow and simulations evaluators in this
process and effects in memory (`in_memory.py`); the parts, and how they are connected, are the same.

Each part gets the ones before it. State that an early part reads and a late one writes is an object of its own, made
first: the pending pods (read by the queue, written by the event handlers) and the preemptions under way (read by
PreEnqueue, written by the executor of preemptions).
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Generic

from trireme.queueing.groups import queued_group
from trireme.scheduling import (
    attempt,
    attempt_reporter,
    batch_limit,
    batches_in_turn,
    binding_cycle,
    event_handlers,
    pacing,
    pending_pod_removal,
    pending_pods,
    pods_in_pre_bind,
    post_filtering,
    pre_binding,
    preemption_executor,
    preemption_history,
    preemption_retries,
    preemptions_under_way,
    queue_executor,
    reserve_calls,
    scheduler,
    scheduler_parts,
    scheduler_ports,
    scheduler_settings,
    scheduling_cycle,
    speculation,
    status_outbox,
    waiting_pods,
)
from trireme.scheduling.queue_ports import QueueCallerT

if TYPE_CHECKING:
    from trireme.scheduling.groups import pod_group_assembly


def assemble(
    settings: scheduler_settings.SchedulerSettings, outside: scheduler_ports.SchedulerPorts[QueueCallerT]
) -> scheduler_parts.Scheduling[QueueCallerT]:
    """Put the scheduler together; nothing runs yet."""
    return _Assembly(settings, outside).scheduling()


class _Assembly(Generic[QueueCallerT]):
    """Makes the parts, each of those before it."""

    def __init__(
        self, settings: scheduler_settings.SchedulerSettings, outside: scheduler_ports.SchedulerPorts[QueueCallerT]
    ) -> None:
        self._settings = settings
        self._outside = outside
        self._cache = outside.cache
        self._now = outside.clocks.now
        # State that several parts share.
        self._pending = pending_pods.PendingPods(self._cache)
        self._under_way = preemptions_under_way.PreemptionsUnderWay(self._cache)
        self._waiting = waiting_pods.WaitingPods()
        self._in_pre_bind = pods_in_pre_bind.PodsInPreBind()
        self._outbox = status_outbox.StatusOutbox(outside.effects.binder.apply)
        self._limit = batch_limit.BatchLimit(settings.max_pods)
        if outside.http_extenders is not None:
            self._limit.one_by_one = outside.http_extenders.schedules_one_by_one
        self._pacer = pacing.Pacer(outside.clocks.monotonic, settings.linger, self._limit)
        # The parts.
        self._groups = self._make_groups()
        self._executor = self._make_queue()
        self._queue = self._executor.queue
        self._reporter = self._make_reporter()
        self._preemptions = self._make_preemptions()
        self._handlers = self._make_handlers()
        self._reserved = reserve_calls.ReserveCalls(
            self._cache, outside.evaluation.evaluators, self._handlers.notifier.notify_of_assumed
        )
        self._binding = self._make_binding()
        self._attempts = self._make_attempts()
        self._in_turn = batches_in_turn.BatchesInTurn(self._cache, settings.roles.speculating)
        self._speculations = speculation.Speculation(
            self._cache, outside.evaluation.evaluators, self._limit, outside.evaluation.publish
        )
        self._cycle = self._make_cycle()
        self._scheduler = self._make_scheduler()

    def scheduling(self) -> scheduler_parts.Scheduling[QueueCallerT]:
        """All parts."""
        return scheduler_parts.Scheduling(
            roles=self._settings.roles,
            queue_executor=self._executor,
            queue=self._queue,
            pending=self._pending,
            handlers=self._handlers,
            waiting=self._waiting,
            reporter=self._reporter,
            outbox=self._outbox,
            reserved=self._reserved,
            binding=self._binding,
            preemptions=self._preemptions,
            pacer=self._pacer,
            limit=self._limit,
            scheduler=self._scheduler,
        )

    def _make_groups(self) -> "pod_group_assembly.PodGroupAssembly | None":
        """Make what makes the parts for pod groups; None: the gate is off."""
        if not self._settings.features.enabled("GenericWorkload"):
            return None
        # A dozen modules that are needed only with the gate.
        from trireme.scheduling.groups import pod_group_assembly

        return pod_group_assembly.PodGroupAssembly(
            self._settings.features,
            self._outside.effects.events,
            self._outbox.send,
            self._under_way.still_gates,
            self._outside.clocks,
            self._outside.randomness,
            roles=self._settings.roles,
            json_conditions=self._settings.json_conditions,
        )

    def _make_queue(self) -> queue_executor.QueueExecutor[QueueCallerT]:
        """Make the queue with its plugins."""
        return queue_executor.QueueExecutor(
            self._settings,
            self._cache,
            self._outside.queue_plugins,
            self._pending,
            observer=self._outside.observer,
            now=self._now,
            wake=self._outside.wakeup.set,
            still_gates=self._under_way.still_gates,
            groups=None if self._groups is None else self._groups.queue_settings(),
        )

    def _make_reporter(self) -> attempt_reporter.AttemptReporter:
        """Make what reports how attempts end."""
        return attempt_reporter.AttemptReporter(
            self._queue,
            self._outside.effects.events,
            pending=self._pending.get,
            execute=self._executor.execute,
            outbox=self._outbox,
            now=self._now,
            wall=self._outside.clocks.wall,
            observer=self._outside.observer,
            json_conditions=self._settings.json_conditions,
        )

    def _make_preemptions(self) -> preemption_executor.PreemptionExecutor:
        """Make what evicts victims."""
        activate = self._executor.activate
        return preemption_executor.PreemptionExecutor(
            cache=self._cache,
            nominations=self._queue.nominator,
            waiting=self._waiting,
            reporter=self._reporter,
            apply=self._outside.effects.binder.apply,
            activate=activate,
            observer=self._outside.observer,
            pre_binding=self._in_pre_bind,
            version_of=self._pending.version_of,
            held_preemptors=self._queue.held_preemptors,
            retries=preemption_retries.PreemptionRetries(self._executor.backoff.duration, activate, self._now),
            under_way=self._under_way,
            history=preemption_history.PreemptionHistory(self._outside.clocks.wall),
        )

    def _make_handlers(self) -> event_handlers.EventHandlers:
        """Make what applies events to the cache and the queue."""
        gone = pending_pod_removal.PendingPodRemoval(
            self._reporter, self._waiting, self._preemptions, self._in_pre_bind
        )
        return event_handlers.EventHandlers(
            self._cache,
            self._queue,
            self._pending,
            self._settings.scheduler_names,
            now=self._now,
            execute=self._executor.execute,
            deleted=gone.on_deleted,
            bound=gone.on_bound,
            observer=self._outside.observer,
            groups=self._queue.groups,
            json_of=self._outside.json_of,
        )

    def _make_binding(self) -> binding_cycle.BindingCycle:
        effects, roles = self._outside.effects, self._settings.roles
        return binding_cycle.BindingCycle(
            cache=self._cache,
            queue=self._queue,
            reporter=self._reporter,
            reserved=self._reserved,
            observer=self._outside.observer,
            http_extenders=self._outside.http_extenders,
            execute=self._executor.execute,
            now=self._now,
            log=self._outside.evaluation.decisions,
            binder=effects.binder,
            waiting=self._waiting,
            pre_binding=pre_binding.PreBinding(
                effects.binder,
                self._outside.waits,
                self._outside.clocks.monotonic,
                self._settings.features.enabled("NominatedNodeNameForExpectation"),
                remote=roles.pre_bind,
                until_published=self._outside.evaluation.until_published,
            ),
            in_pre_bind=self._in_pre_bind,
            roles=roles,
            until_claim_shown=effects.until_claim_shown,
        )

    def _make_attempts(self) -> attempt.AttemptRunner:
        """Make what filters, places, assumes and reserves pods; the cycles of batches and of groups share it."""
        return attempt.AttemptRunner(
            cache=self._cache,
            nominations=self._queue.nominator,
            evaluators=self._outside.evaluation.evaluators,
            reserved=self._reserved,
            observer=self._outside.observer,
            log=self._outside.evaluation.decisions,
            http_extenders=self._outside.http_extenders,
            limit=self._limit,
            publish=self._outside.evaluation.publish,
        )

    def _make_cycle(self) -> scheduling_cycle.SchedulingCycle:
        """Make the cycle of a batch, with PostFilter for the profiles that have plugins there."""
        return scheduling_cycle.SchedulingCycle(
            cache=self._cache,
            queue=self._queue,
            attempts=self._attempts,
            speculations=self._speculations,
            post_filters=post_filtering.PostFilters(
                cache=self._cache,
                nominations=self._queue.nominator,
                evaluators=self._outside.evaluation.evaluators,
                reporter=self._reporter,
                observer=self._outside.observer,
                http_extenders=self._outside.http_extenders,
                limit=self._limit,
                preemptions=self._preemptions,
                asynchronous=self._settings.roles.post_filter,
            ),
            reporter=self._reporter,
            observer=self._outside.observer,
            now=self._now,
            binding=self._binding,
            in_turn=self._in_turn,
        )

    def _make_group_cycle(self) -> Callable[[queued_group.PodGroupBatch], Awaitable[None]] | None:
        """Make what runs the cycle of a pod group; None: there are no groups."""
        if self._groups is None:
            return None
        assert self._queue.groups is not None  # it was made with their settings
        return self._groups.make_cycle(
            cache=self._cache,
            queue=self._queue,
            groups=self._queue.groups,
            evaluators=self._outside.evaluation.evaluators,
            attempts=self._attempts,
            reporter=self._reporter,
            reserved=self._reserved,
            observer=self._outside.observer,
            limit=self._limit,
            publish=self._outside.evaluation.publish,
            execute=self._executor.execute,
            preemptions=self._preemptions,
            binding=self._binding,
            remote_plugins=self._executor.remote.placement_feasible_plugins,
        )

    def _make_scheduler(self) -> scheduler.Scheduler:
        """Make the loop that takes batches and groups from the queue and runs their cycles."""
        return scheduler.Scheduler(
            queue=self._queue,
            evaluators=self._outside.evaluation.evaluators,
            publish=self._outside.evaluation.publish,
            execute=self._executor.execute,
            now=self._now,
            cycle=self._cycle,
            speculations=self._speculations,
            binding=self._binding,
            preemptions=self._preemptions,
            pacer=self._pacer,
            available=self._outside.evaluation.available,
            wakeup=self._outside.wakeup,
            limit=self._limit,
            speculating=self._settings.roles.speculating,
            prepares_ahead=self._settings.prepares_ahead,
            in_turn=self._in_turn,
            run_group=self._make_group_cycle(),
        )
