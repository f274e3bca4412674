"""Builds the queue and the cycles, of the cluster's state and the clients of the phases."""

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from trireme.frontend import queue_executor
from trireme.frontend.frontend_parts import ClusterState, EvaluationPorts, FrontendContext, Scheduling
from trireme.scheduling import (
    attempt,
    attempt_reporter,
    batch_limit,
    binding_cycle,
    event_handlers,
    no_longer_pending,
    pacing,
    pods_in_pre_bind,
    ports,
    post_filtering,
    pre_binding,
    preemption_executor,
    preemption_history,
    preemption_retries,
    reserve_calls,
    scheduler,
    scheduling_cycle,
    speculation,
    status_outbox,
    waiting_pods,
)

if TYPE_CHECKING:
    from trireme.scheduling.groups import pod_group_assembly


def build_scheduling(
    context: FrontendContext, cluster: ClusterState, phases: EvaluationPorts, effects: ports.Effects
) -> Scheduling:
    """The queue and the cycles, over any evaluators and effects.

    The queue's callbacks look up the parts that are built after it when they run.
    """
    completed, cache, now = context.completed, cluster.cache, context.clocks.now
    waiting, outbox = waiting_pods.WaitingPods(), status_outbox.StatusOutbox(effects.binder.apply)

    def preempting_for(uid: str) -> bool:
        return preemptions.still_gates(uid)

    def pod_deleted(uid: str) -> None:
        gone.on_deleted(uid)

    def pod_bound(uid: str) -> None:
        gone.on_bound(uid)

    groups = _build_group_assembly(context, effects, outbox, preempting_for)
    executor = queue_executor.QueueExecutor(
        completed=completed,
        cache=cache,
        settings=context.settings,
        membership=context.membership,
        metrics=context.metrics,
        clocks=context.clocks,
        wake=context.wakeup.set,
        still_pending=lambda uid: handlers.pods.pending(uid) is not None and cache.pod(uid) is None,
        preempting_for=preempting_for,
        groups=None if groups is None else groups.queue_settings(),
    )
    handlers = event_handlers.EventHandlers(
        cache,
        executor.queue,
        completed.scheduler_names,
        now=now,
        execute=executor.execute,
        deleted=pod_deleted,
        bound=pod_bound,
        observer=context.metrics,
        groups=executor.queue.groups,
        json_of=cluster.node_json.take,
    )
    reporter = attempt_reporter.AttemptReporter(
        executor.queue,
        effects.events,
        pending=handlers.pods.pending,
        execute=executor.execute,
        outbox=outbox,
        now=now,
        wall=context.clocks.wall,
        observer=context.metrics,
    )
    reserved = reserve_calls.ReserveCalls(cache, phases.evaluators, handlers.notifier.notify_of_assumed)
    in_pre_bind = pods_in_pre_bind.PodsInPreBind()
    binding = _build_binding_cycle(
        context,
        cluster,
        executor,
        phases,
        binder=effects.binder,
        waiting=waiting,
        reporter=reporter,
        reserved=reserved,
        in_pre_bind=in_pre_bind,
    )
    preemptions = preemption_executor.PreemptionExecutor(
        cache=cache,
        nominations=executor.queue.nominator,
        waiting=waiting,
        reporter=reporter,
        apply=effects.binder.apply,
        activate=executor.activate,
        observer=context.metrics,
        pre_binding=in_pre_bind,
        version_of=handlers.pods.version_of,
        held_preemptors=executor.queue.held_preemptors,
        retries=preemption_retries.PreemptionRetries(executor.backoff.duration, executor.activate, now),
        history=preemption_history.PreemptionHistory(context.clocks.wall),
    )
    gone = no_longer_pending.NoLongerPendingHandlers(cache, reporter, waiting, preemptions, in_pre_bind, cluster.waits)
    limit = _batch_limit(context, cluster)
    pacer = pacing.Pacer(context.clocks.monotonic, completed.trireme.batch.linger.seconds, limit)
    loop = _build_scheduler(
        context,
        cluster,
        phases,
        executor,
        reporter=reporter,
        reserved=reserved,
        binding=binding,
        preemptions=preemptions,
        limit=limit,
        pacer=pacer,
        groups=groups,
    )
    return Scheduling(
        executor,
        executor.queue,
        handlers,
        waiting,
        reporter,
        outbox,
        reserved,
        binding,
        preemptions,
        pacer,
        limit,
        loop,
    )


def _batch_limit(context: FrontendContext, cluster: ClusterState) -> batch_limit.BatchLimit:
    """The limits of batches; with HTTP extenders pods of some classes are filtered one at a time."""
    max_pods = context.completed.trireme.batch.max_pods
    if cluster.extenders is None:
        return batch_limit.BatchLimit(max_pods)
    return batch_limit.BatchLimit(max_pods, cluster.extenders.schedules_one_by_one)


def _build_group_assembly(
    context: FrontendContext,
    effects: ports.Effects,
    outbox: status_outbox.StatusOutbox,
    preempting_for: Callable[[str], bool],
) -> "pod_group_assembly.PodGroupAssembly | None":
    """What makes the parts for pod groups; None: the gate is off."""
    if not context.completed.gates.enabled("GenericWorkload"):
        return None
    # A dozen modules that are needed only with the gate.
    from trireme.scheduling.groups import pod_group_assembly

    return pod_group_assembly.PodGroupAssembly(
        context.completed.gates,
        effects.events,
        outbox.send,
        preempting_for,
        context.clocks,
        random.random,
        roles=context.roles,
    )


def _build_binding_cycle(
    context: FrontendContext,
    cluster: ClusterState,
    executor: queue_executor.QueueExecutor,
    phases: EvaluationPorts,
    *,
    binder: ports.Binder,
    waiting: waiting_pods.WaitingPods,
    reporter: attempt_reporter.AttemptReporter,
    reserved: reserve_calls.ReserveCalls,
    in_pre_bind: pods_in_pre_bind.PodsInPreBind,
) -> binding_cycle.BindingCycle:
    """The binding cycle, with the profiles that have plugins at each of its points."""
    expecting = context.completed.gates.enabled("NominatedNodeNameForExpectation")
    return binding_cycle.BindingCycle(
        cache=cluster.cache,
        queue=executor.queue,
        reporter=reporter,
        reserved=reserved,
        observer=context.metrics,
        http_extenders=cluster.extenders,
        execute=executor.execute,
        now=context.clocks.now,
        log=phases.decisions,
        binder=binder,
        waiting=waiting,
        pre_binding=pre_binding.PreBinding(
            binder,
            cluster.waits,
            context.clocks.monotonic,
            expecting,
            remote=context.roles.pre_bind,
            until_published=phases.until_published,
        ),
        in_pre_bind=in_pre_bind,
        roles=context.roles,
    )


def _build_scheduler(
    context: FrontendContext,
    cluster: ClusterState,
    phases: EvaluationPorts,
    executor: queue_executor.QueueExecutor,
    *,
    reporter: attempt_reporter.AttemptReporter,
    reserved: reserve_calls.ReserveCalls,
    binding: binding_cycle.BindingCycle,
    preemptions: preemption_executor.PreemptionExecutor,
    limit: batch_limit.BatchLimit,
    pacer: pacing.Pacer,
    groups: "pod_group_assembly.PodGroupAssembly | None",
) -> scheduler.Scheduler:
    """Build the loop that takes batches and groups from the queue, with the cycles that it runs them through.

    Without `groups` there is no cycle of pod groups; with extenders nothing is speculated.
    """
    publish = phases.publish
    attempts = _build_attempt_runner(context, cluster, phases, executor, reserved, limit)
    post_filters = _build_post_filters(
        context, cluster, phases, executor, reporter=reporter, preemptions=preemptions, limit=limit
    )
    speculations = speculation.Speculation(cluster.cache, phases.evaluators, limit, publish)
    cycle = scheduling_cycle.SchedulingCycle(
        cache=cluster.cache,
        queue=executor.queue,
        attempts=attempts,
        speculations=speculations,
        post_filters=post_filters,
        reporter=reporter,
        observer=context.metrics,
        now=context.clocks.now,
        binding=binding,
    )
    run_group = None
    if groups is not None and executor.queue.groups is not None:
        run_group = groups.make_cycle(
            cache=cluster.cache,
            queue=executor.queue,
            groups=executor.queue.groups,
            evaluators=phases.evaluators,
            attempts=attempts,
            reporter=reporter,
            reserved=reserved,
            observer=context.metrics,
            limit=limit,
            publish=publish,
            execute=executor.execute,
            preemptions=preemptions,
            binding=binding,
        )
    return scheduler.Scheduler(
        queue=executor.queue,
        evaluators=phases.evaluators,
        publish=publish,
        execute=executor.execute,
        now=context.clocks.now,
        cycle=cycle,
        speculations=speculations,
        binding=binding,
        completed_actions=lambda: preemptions.completed_actions,
        pacer=pacer,
        available=phases.available,
        wakeup=context.wakeup,
        limit=limit,
        speculating=context.roles.speculating,
        run_group=run_group,
    )


def _build_attempt_runner(
    context: FrontendContext,
    cluster: ClusterState,
    phases: EvaluationPorts,
    executor: queue_executor.QueueExecutor,
    reserved: reserve_calls.ReserveCalls,
    limit: batch_limit.BatchLimit,
) -> attempt.AttemptRunner:
    """Build what filters, places, assumes and reserves pods; the cycles of batches and of groups share it."""
    return attempt.AttemptRunner(
        cache=cluster.cache,
        nominations=executor.queue.nominator,
        evaluators=phases.evaluators,
        reserved=reserved,
        observer=context.metrics,
        log=phases.decisions,
        http_extenders=cluster.extenders,
        limit=limit,
        publish=phases.publish,
    )


def _build_post_filters(
    context: FrontendContext,
    cluster: ClusterState,
    phases: EvaluationPorts,
    executor: queue_executor.QueueExecutor,
    *,
    reporter: attempt_reporter.AttemptReporter,
    preemptions: preemption_executor.PreemptionExecutor,
    limit: batch_limit.BatchLimit,
) -> post_filtering.PostFilters:
    """Build PostFilter; profiles that enable no plugin there are not in `asynchronous`, and never preempt."""
    return post_filtering.PostFilters(
        cache=cluster.cache,
        nominations=executor.queue.nominator,
        evaluators=phases.evaluators,
        reporter=reporter,
        observer=context.metrics,
        http_extenders=cluster.extenders,
        limit=limit,
        preemptions=preemptions,
        asynchronous=context.roles.post_filter,
    )
