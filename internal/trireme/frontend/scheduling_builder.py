"""Builds the queue and the cycles, of the cluster's state and the clients of the phases."""

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from trireme.config import commandline
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.frontend import inbox, phase_configuration, queue_shell
from trireme.frontend.records import ClusterState, PhaseClients, Scheduling, Site
from trireme.scheduling import (
    attempt,
    attempt_reporter,
    batch_limit,
    binding_cycle,
    event_handlers,
    pacing,
    pods_in_pre_bind,
    ports,
    post_filtering,
    pre_binding,
    preemption_executor,
    preemption_retries,
    reservations,
    scheduler,
    scheduling_cycle,
    speculation,
    status_outbox,
    waiting_pods,
)

if TYPE_CHECKING:
    from trireme.scheduling.groups import pod_group_assembly


def build_scheduling(site: Site, cluster: ClusterState, phases: PhaseClients, effects: ports.Effects) -> Scheduling:
    """The queue and the cycles. The queue's callbacks look up the parts that are built after it when they run."""
    completed, cache, now = site.completed, cluster.cache, site.clocks.now
    waiting, outbox = waiting_pods.WaitingPods(), status_outbox.StatusOutbox(effects.binder.apply)

    def preempting_for(uid: str) -> bool:
        return preemptions.holds(uid)

    def pod_deleted(uid: str) -> None:
        gone.deleted(uid)

    groups = _groups(site, effects, outbox, preempting_for)
    shell = queue_shell.QueueShell(
        completed=completed,
        cache=cache,
        settings=site.settings,
        membership=site.membership,
        metrics=site.metrics,
        clocks=site.clocks,
        wake=site.wakeup.set,
        still_pending=lambda uid: handlers.pending(uid) is not None and cache.pod(uid) is None,
        preempting_for=preempting_for,
        groups=None if groups is None else groups.queue_settings(),
    )
    handlers = event_handlers.EventHandlers(
        cache,
        shell.queue,
        frozenset(profile.scheduler_name for profile in completed.profiles),
        now=now,
        execute=shell.execute,
        deleted=pod_deleted,
        observer=site.metrics,
        groups=shell.queue.groups,
        json_of=cluster.node_json.take,
    )
    reporter = attempt_reporter.AttemptReporter(
        shell.queue,
        effects.events,
        pending=handlers.pending,
        execute=shell.execute,
        outbox=outbox,
        now=now,
        wall=site.clocks.wall,
        observer=site.metrics,
    )
    reserved = reservations.Reservations(cache, phases.evaluators, handlers.on_assumed)
    in_pre_bind = pods_in_pre_bind.PodsInPreBind()
    binding = _binding(
        site,
        cluster,
        shell,
        binder=effects.binder,
        waiting=waiting,
        reporter=reporter,
        reserved=reserved,
        in_pre_bind=in_pre_bind,
    )
    preemptions = preemption_executor.PreemptionExecutor(
        cache,
        shell.queue.nominator,
        waiting,
        reporter,
        effects.binder.apply,
        shell.activate,
        site.metrics,
        in_pre_bind,
        handlers.version_of,
        shell.queue.held_preemptors,
        preemption_retries.Retries(shell.backoff.duration, shell.activate, now),
    )
    gone = inbox.DeletedPods(cache, reporter, waiting, preemptions, cluster.waits)
    limit = _batch_limit(site, cluster)
    pacer = pacing.Pacer(site.clocks.monotonic, completed.trireme.batch.linger.seconds, limit)
    loop = _scheduler(
        site,
        cluster,
        phases,
        shell,
        reporter=reporter,
        reserved=reserved,
        binding=binding,
        preemptions=preemptions,
        limit=limit,
        pacer=pacer,
        groups=groups,
    )
    return Scheduling(
        shell, shell.queue, handlers, waiting, reporter, outbox, reserved, binding, preemptions, pacer, loop
    )


def _batch_limit(site: Site, cluster: ClusterState) -> batch_limit.BatchLimit:
    max_pods = site.completed.trireme.batch.max_pods
    if cluster.extension is None:
        return batch_limit.BatchLimit(max_pods)
    return batch_limit.BatchLimit(max_pods, cluster.extension.one_by_one)


def _groups(
    site: Site,
    effects: ports.Effects,
    outbox: status_outbox.StatusOutbox,
    preempting_for: Callable[[str], bool],
) -> "pod_group_assembly.PodGroupAssembly | None":
    if not site.completed.gates.enabled("GenericWorkload"):
        return None
    # A dozen modules that are needed only with the gate.
    from trireme.scheduling.groups import pod_group_assembly

    return pod_group_assembly.PodGroupAssembly(
        site.completed, effects.events, outbox.send, preempting_for, site.clocks, random.random
    )


def _binding(
    site: Site,
    cluster: ClusterState,
    shell: queue_shell.QueueShell,
    *,
    binder: ports.Binder,
    waiting: waiting_pods.WaitingPods,
    reporter: attempt_reporter.AttemptReporter,
    reserved: reservations.Reservations,
    in_pre_bind: pods_in_pre_bind.PodsInPreBind,
) -> binding_cycle.BindingCycle:
    completed = site.completed
    expecting = completed.gates.enabled("NominatedNodeNameForExpectation")
    remote = _remote_plugins(completed)
    return binding_cycle.BindingCycle(
        cache=cluster.cache,
        queue=shell.queue,
        reporter=reporter,
        reserved=reserved,
        observer=site.metrics,
        extension=cluster.extension,
        execute=shell.execute,
        now=site.clocks.now,
        binder=binder,
        waiting=waiting,
        pre_binding=pre_binding.PreBinding(binder, cluster.waits, site.clocks.monotonic, expecting),
        in_pre_bind=in_pre_bind,
        permit_profiles=frozenset(
            profile.scheduler_name
            for profile in completed.profiles
            if not phase_configuration.OWN_PERMIT.issuperset(profile.names(ExtensionPoint.PERMIT))
        ),
        pre_bind_profiles=frozenset(
            profile.scheduler_name
            for profile in completed.profiles
            if not remote.isdisjoint(profile.names(ExtensionPoint.PRE_BIND))
        ),
    )


def _scheduler(
    site: Site,
    cluster: ClusterState,
    phases: PhaseClients,
    shell: queue_shell.QueueShell,
    *,
    reporter: attempt_reporter.AttemptReporter,
    reserved: reservations.Reservations,
    binding: binding_cycle.BindingCycle,
    preemptions: preemption_executor.PreemptionExecutor,
    limit: batch_limit.BatchLimit,
    pacer: pacing.Pacer,
    groups: "pod_group_assembly.PodGroupAssembly | None",
) -> scheduler.Scheduler:
    completed, publish = site.completed, phases.publisher.publish
    attempts = _attempts(site, cluster, phases, shell, reserved, limit)
    post_filters = _post_filters(site, cluster, phases, shell, reporter=reporter, preemptions=preemptions, limit=limit)
    speculations = speculation.Speculation(cluster.cache, phases.evaluators, limit, publish)
    cycle = scheduling_cycle.SchedulingCycle(
        cache=cluster.cache,
        queue=shell.queue,
        attempts=attempts,
        speculations=speculations,
        post_filters=post_filters,
        reporter=reporter,
        observer=site.metrics,
        now=site.clocks.now,
        binding=binding,
    )
    run_group = None
    if groups is not None and shell.queue.groups is not None:
        run_group = groups.make_cycle(
            cache=cluster.cache,
            queue=shell.queue,
            groups=shell.queue.groups,
            evaluators=phases.evaluators,
            attempts=attempts,
            reporter=reporter,
            reserved=reserved,
            observer=site.metrics,
            limit=limit,
            publish=publish,
            execute=shell.execute,
            preemptions=preemptions,
            binding=binding,
        )
    return scheduler.Scheduler(
        queue=shell.queue,
        evaluators=phases.evaluators,
        publish=publish,
        execute=shell.execute,
        now=site.clocks.now,
        cycle=cycle,
        speculations=speculations,
        binding=binding,
        pacer=pacer,
        available=phases.links.available,
        wakeup=site.wakeup,
        limit=limit,
        speculating=speculating_profiles(completed) if cluster.extension is None else frozenset(),
        run_group=run_group,
    )


def _attempts(
    site: Site,
    cluster: ClusterState,
    phases: PhaseClients,
    shell: queue_shell.QueueShell,
    reserved: reservations.Reservations,
    limit: batch_limit.BatchLimit,
) -> attempt.AttemptRunner:
    return attempt.AttemptRunner(
        cache=cluster.cache,
        nominations=shell.queue.nominator,
        evaluators=phases.evaluators,
        reserved=reserved,
        observer=site.metrics,
        extension=cluster.extension,
        limit=limit,
        publish=phases.publisher.publish,
    )


def _post_filters(
    site: Site,
    cluster: ClusterState,
    phases: PhaseClients,
    shell: queue_shell.QueueShell,
    *,
    reporter: attempt_reporter.AttemptReporter,
    preemptions: preemption_executor.PreemptionExecutor,
    limit: batch_limit.BatchLimit,
) -> post_filtering.PostFilters:
    asynchronous = site.completed.gates.enabled("SchedulerAsyncPreemption")
    return post_filtering.PostFilters(
        cache=cluster.cache,
        nominations=shell.queue.nominator,
        evaluators=phases.evaluators,
        reporter=reporter,
        observer=site.metrics,
        extension=cluster.extension,
        limit=limit,
        preemptions=preemptions,
        asynchronous={
            profile.scheduler_name: asynchronous
            for profile in site.completed.profiles
            if profile.plugins.get(ExtensionPoint.POST_FILTER)
        },
    )


def speculating_profiles(completed: commandline.CompletedConfig) -> frozenset[str]:
    """The profiles without plugins of others, whose answers may change though the cluster does not."""
    remote = _remote_plugins(completed)
    return frozenset(profile.scheduler_name for profile in completed.profiles if remote.isdisjoint(profile.all_names()))


def _remote_plugins(completed: commandline.CompletedConfig) -> frozenset[str]:
    return frozenset(plugin.name for plugin in completed.trireme.remote_plugins)
