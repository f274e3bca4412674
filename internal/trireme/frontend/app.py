"""The frontend put together, from the bottom up: the cluster's state, the clients of the phases, scheduling.

Each record is built of those before it, and each constructor gets what it uses. Nothing runs yet; in which order all
begins is `leading`'s to say.
"""

import asyncio
import contextlib
import dataclasses
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trireme.cache import class_registry, cluster_cache, cluster_informers, node_json, object_waits
from trireme.config import commandline
from trireme.extenders import extender_calls, extenders
from trireme.framework import amounts, resizes
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.frontend import (
    inbox,
    own_namespace,
    phase_configuration,
    plugin_membership,
    plugin_updates,
    queue_shell,
    remote_plugins,
    scheduler_metrics,
)
from trireme.frontend.leader_status import LeaderStatus
from trireme.frontend.phase_clients import (
    class_answers,
    fallback,
    phase_links,
    plugin_streams,
    publishing,
    remote_evaluators,
)
from trireme.frontend.phase_settings import PhaseSettings
from trireme.frontend.term import Term
from trireme.queueing import scheduling_queue
from trireme.scheduling import (
    binding_cycle,
    cluster_watch,
    outcomes,
    pacing,
    pods_in_pre_bind,
    ports,
    pre_binding,
    preempting,
    preemption_retries,
    reservations,
    scheduler,
    scheduling_cycle,
    status_outbox,
    waiting_pods,
)
from trireme.v1 import plugin_pb2
from trireme_kube.client import client, events, informer, list_prefetch, resources
from trireme_kube.componentbase import clocks, supervision

if TYPE_CHECKING:
    from trireme.scheduling.groups import pod_group_assembly

log = logging.getLogger(__name__)

CLOCKS = ports.Clocks(clocks.steady, time.monotonic, clocks.wall)

MakeExtenders = Callable[..., extender_calls.ExtenderCalls | None]


@dataclasses.dataclass(frozen=True, slots=True)
class Clients:
    """The connections to the API server, apart so that none can starve another."""

    scheduling: client.ApiClient
    events: client.ApiClient
    # What was asked for on the first already.
    lists: Mapping[resources.Resource, list_prefetch.ListPrefetch]


@dataclasses.dataclass(frozen=True, slots=True)
class Site:
    """What everything is built for: the configuration, who leads, and which remote plugins take part."""

    completed: commandline.CompletedConfig
    leader: LeaderStatus
    membership: plugin_membership.PluginMembership
    settings: PhaseSettings
    metrics: scheduler_metrics.SchedulerMetrics
    clocks: ports.Clocks
    #: Set when a batch may be possible that was not before.
    wakeup: asyncio.Event


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterState:
    """The cluster as this frontend knows it."""

    registry: class_registry.ClassRegistry
    cache: cluster_cache.ClusterCache
    waits: object_waits.ObjectWaits
    pod_reads: plugin_updates.PodReads
    node_json: node_json.NodeJson
    extender_calls: extender_calls.ExtenderCalls | None

    @property
    def extension(self) -> extenders.Extenders | None:
        """The HTTP extenders, where there are any."""
        return None if self.extender_calls is None else self.extender_calls.extenders


@dataclasses.dataclass(frozen=True, slots=True)
class PhaseClients:
    """The phases, as they are asked and as they are followed."""

    publisher: publishing.Publisher
    links: phase_links.PhaseLinks
    answers: class_answers.ClassAnswers
    evaluators: remote_evaluators.RemoteEvaluators
    streams: plugin_streams.PluginStreams
    #: What stands in for the configured replicas of a phase when none answers, by phase; made as a term begins.
    fallbacks: dict[str, fallback.Fallback] = dataclasses.field(default_factory=dict)

    def stands_in(self, phase: str) -> bool:
        """Whether a replica of our own stands in for the configured ones of a phase."""
        return phase in self.fallbacks and self.fallbacks[phase].active

    def supervisors(self) -> list[supervision.Supervisor]:
        """What fails where work for the phases does."""
        return [*self.links.supervisors(), self.streams.supervisor]

    async def close(self) -> None:
        """End all streams and links."""
        await self.streams.close()
        await self.links.close()


@dataclasses.dataclass(frozen=True, slots=True)
class Scheduling:
    """The queue and the cycles."""

    shell: queue_shell.QueueShell
    queue: scheduling_queue.SchedulingQueue
    watch: cluster_watch.ClusterWatch
    waiting: waiting_pods.WaitingPods
    results: outcomes.Outcomes
    outbox: status_outbox.StatusOutbox
    reserved: reservations.Reservations
    binding: binding_cycle.BindingCycle
    preemptions: preempting.Preempting
    pacer: pacing.Pacer
    scheduler: scheduler.Scheduler

    def supervisors(self) -> list[supervision.Supervisor]:
        """What fails where work beside scheduling does."""
        working = (self.binding, self.preemptions, self.reserved, self.shell.remote)
        return [each.background for each in working]

    async def close(self) -> None:
        """End what is under way: what was not bound is somebody else's to schedule."""
        await self.preemptions.close()
        await self.binding.close()


@dataclasses.dataclass(frozen=True, slots=True)
class App:
    """All of it."""

    site: Site
    cluster: ClusterState
    phases: PhaseClients
    scheduling: Scheduling
    recorder: events.EventRecorder
    inbox: inbox.Inbox
    informers: Sequence[informer.Informer[Any]]
    plugin_updates: plugin_updates.PluginUpdates
    namespace: own_namespace.OwnNamespace

    @property
    def synced(self) -> bool:
        """Whether every informer has synced."""
        return all(entry.synced for entry in self.informers)

    def begin(self, term: Term) -> None:
        """From now on phases know us, and plugins that follow the cluster; nothing is scheduled yet."""
        self.site.leader.begin(term)
        self.phases.streams.configure(self.site.settings.configuration)
        log.info("leading with epoch %d", term.epoch)

    async def failed(self) -> None:
        """Raise what fails beside scheduling, whenever it does."""
        await supervision.failure_of([*self.scheduling.supervisors(), *self.phases.supervisors()])

    async def close(self) -> None:
        """End what is under way."""
        await self.scheduling.close()
        if self.cluster.extender_calls is not None:
            await self.cluster.extender_calls.close()
        with contextlib.suppress(asyncio.CancelledError):
            await self.recorder.flush(2.0)
        await self.phases.close()


def build(
    completed: commandline.CompletedConfig,
    clients: Clients,
    infos: Mapping[str, plugin_pb2.PluginInfo],
    metrics: scheduler_metrics.SchedulerMetrics,
    rejected: Callable[[], frozenset[str]] = frozenset,
    clocks: ports.Clocks = CLOCKS,
    connect: Callable[..., phase_links.PhaseLinks] = phase_links.connect,
    make_extenders: MakeExtenders = extender_calls.of,
) -> App:
    """The frontend. `infos` are what the remote plugins said of themselves, by name, and `rejected` answers which of
    them are rejected now. `connect` and `make_extenders` make what talks to the phases and to extenders.

    Raises:
        ListenError: a certificate of the configuration cannot be used.
    """
    election = completed.configuration.leader_election
    leader = LeaderStatus(f"{election.resource_namespace}/{election.resource_name}")
    settings = PhaseSettings(phase_configuration.configuration(completed, infos), leader.fence)
    membership = plugin_membership.PluginMembership(completed, infos, rejected)
    site = Site(completed, leader, membership, settings, metrics, clocks, asyncio.Event())
    cluster = build_cluster(completed, infos, make_extenders)
    phases = build_phases(site, cluster.cache, connect)
    recorder = events.EventRecorder(clients.events)
    effects = ports.Effects(phases.links.binders, recorder)
    scheduling = build_scheduling(site, cluster, phases, effects)
    namespace = own_namespace.OwnNamespace()
    events_in = inbox.Inbox(scheduling.watch, scheduling.pacer, cluster.waits, namespace, site.wakeup.set)
    informers = cluster_informers.make(
        clients.scheduling,
        clients.lists,
        completed.gates.enabled,
        cluster.pod_reads.paths,
        None if cluster.extender_calls is None else cluster.extender_calls.objects,
        events_in.on_pods,
        events_in.on_nodes,
        events_in.on_objects,
        cluster.node_json,
    )
    updates = plugin_updates.PluginUpdates(
        completed,
        cluster.registry,
        cluster.pod_reads,
        cluster.node_json,
        informers,
        membership,
        settings,
        leader,
        phases.evaluators,
        phases.links,
        phases.streams,
        scheduling.shell,
    )
    return App(site, cluster, phases, scheduling, recorder, events_in, informers, updates, namespace)


def build_cluster(
    completed: commandline.CompletedConfig,
    infos: Mapping[str, plugin_pb2.PluginInfo],
    make_extenders: MakeExtenders = extender_calls.of,
) -> ClusterState:
    """An empty cluster."""
    reads = plugin_updates.PodReads(infos)
    registry = class_registry.ClassRegistry(
        all_labels=reads.label_keys is None,
        rules=amounts.rules_of(completed.gates.all()),
        keep_deferred=completed.gates.enabled(resizes.GATE),
    )
    registry.select_by(reads.label_keys or ())
    cache = cluster_cache.ClusterCache(registry)
    return ClusterState(
        registry,
        cache,
        object_waits.ObjectWaits(),
        reads,
        node_json.NodeJson(remote_plugins.want_node_json(infos)),
        make_extenders(completed.configuration.extenders, registry, cache),
    )


def build_phases(
    site: Site,
    cache: cluster_cache.ClusterCache,
    connect: Callable[..., phase_links.PhaseLinks] = phase_links.connect,
) -> PhaseClients:
    """The clients of the phases, which follow `cache`."""
    settings, fence = site.settings, site.leader.fence
    publisher = publishing.Publisher(cache, settings.hello)
    links = connect(
        site.completed,
        publisher,
        fence,
        settings.fence_request,
        settings.config_hash,
        site.clocks.monotonic,
        site.wakeup.set,
    )
    publisher.phases = (links.filters, links.scores)
    answers = class_answers.ClassAnswers()
    evaluators = remote_evaluators.RemoteEvaluators(
        links.filters, links.scores, answers, fence, settings.config_hash, site.metrics
    )
    streams = plugin_streams.PluginStreams(publisher, site.clocks.monotonic)
    return PhaseClients(publisher, links, answers, evaluators, streams)


def build_scheduling(site: Site, cluster: ClusterState, phases: PhaseClients, effects: ports.Effects) -> Scheduling:
    """The queue and the cycles. What the queue asks of those who come after it is looked up when it asks."""
    completed, cache, now = site.completed, cluster.cache, site.clocks.now
    waiting, outbox = waiting_pods.WaitingPods(), status_outbox.StatusOutbox(effects.binder.apply)

    def preempting_for(uid: str) -> bool:
        return preemptions.holds(uid)

    def pod_deleted(uid: str) -> None:
        gone.deleted(uid)

    groups = _groups(site, effects, outbox, preempting_for)
    shell = queue_shell.QueueShell(
        completed,
        cache,
        site.settings,
        site.membership,
        site.metrics,
        site.clocks,
        site.wakeup.set,
        lambda uid: watch.pending(uid) is not None and cache.pod(uid) is None,
        preempting_for,
        scheduling_queue.SchedulingQueue if groups is None else groups.make_queue,
    )
    watch = cluster_watch.ClusterWatch(
        cache,
        shell.queue,
        frozenset(profile.scheduler_name for profile in completed.profiles),
        now,
        shell.carry_out,
        pod_deleted,
        site.metrics,
        None if groups is None else groups.queue,
        cluster.node_json.take,
    )
    results = outcomes.Outcomes(
        shell.queue, effects.events, watch.pending, shell.carry_out, outbox, now, site.clocks.wall, site.metrics
    )
    reserved = reservations.Reservations(cache, phases.evaluators, watch.on_assumed)
    in_pre_bind = pods_in_pre_bind.PodsInPreBind()
    binding = _binding(site, cluster, shell, effects.binder, waiting, results, reserved, in_pre_bind)
    preemptions = preempting.Preempting(
        cache,
        shell.queue.nominator,
        waiting,
        results,
        effects.binder.apply,
        shell.activate,
        site.metrics,
        in_pre_bind,
        watch.version_of,
        shell.queue.held_preemptors,
        preemption_retries.Retries(shell.backoff.duration, shell.activate, now),
    )
    gone = inbox.DeletedPods(cache, results, waiting, preemptions, cluster.waits)
    pacer = pacing.Pacer(site.clocks.monotonic, completed.trireme.batch.linger.seconds)
    loop = _scheduler(site, cluster, phases, shell, results, reserved, binding, preemptions, pacer, groups)
    return Scheduling(shell, shell.queue, watch, waiting, results, outbox, reserved, binding, preemptions, pacer, loop)


def _groups(
    site: Site,
    effects: ports.Effects,
    outbox: status_outbox.StatusOutbox,
    preempting_for: Callable[[str], bool],
) -> "pod_group_assembly.PodGroupAssembly | None":
    if not site.completed.gates.enabled("GenericWorkload"):
        return None
    # A dozen modules, which nobody else needs.
    from trireme.scheduling.groups import pod_group_assembly

    return pod_group_assembly.PodGroupAssembly(
        site.completed, effects.events, outbox.send, preempting_for, site.clocks, random.random
    )


def _binding(
    site: Site,
    cluster: ClusterState,
    shell: queue_shell.QueueShell,
    binder: ports.Binder,
    waiting: waiting_pods.WaitingPods,
    results: outcomes.Outcomes,
    reserved: reservations.Reservations,
    in_pre_bind: pods_in_pre_bind.PodsInPreBind,
) -> binding_cycle.BindingCycle:
    completed = site.completed
    expecting = completed.gates.enabled("NominatedNodeNameForExpectation")
    remote = _remote_plugins(completed)
    return binding_cycle.BindingCycle(
        cache=cluster.cache,
        queue=shell.queue,
        results=results,
        reserved=reserved,
        observer=site.metrics,
        extension=cluster.extension,
        carry_out=shell.carry_out,
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
    results: outcomes.Outcomes,
    reserved: reservations.Reservations,
    binding: binding_cycle.BindingCycle,
    preemptions: preempting.Preempting,
    pacer: pacing.Pacer,
    groups: "pod_group_assembly.PodGroupAssembly | None",
) -> scheduler.Scheduler:
    completed, publish = site.completed, phases.publisher.publish
    asynchronous = completed.gates.enabled("SchedulerAsyncPreemption")
    cycle = scheduling_cycle.SchedulingCycle(
        cache=cluster.cache,
        queue=shell.queue,
        evaluators=phases.evaluators,
        results=results,
        reserved=reserved,
        observer=site.metrics,
        extension=cluster.extension,
        publish=publish,
        now=site.clocks.now,
        binding=binding,
        preemptions=preemptions,
        post_filtering={
            profile.scheduler_name: asynchronous
            for profile in completed.profiles
            if profile.plugins.get(ExtensionPoint.POST_FILTER)
        },
    )
    run_group = None
    if groups is not None:
        run_group = groups.make_cycle(
            cache=cluster.cache,
            evaluators=phases.evaluators,
            results=results,
            reserved=reserved,
            observer=site.metrics,
            extension=cluster.extension,
            publish=publish,
            carry_out=shell.carry_out,
            preemptions=preemptions,
            binding=binding,
        )
    return scheduler.Scheduler(
        queue=shell.queue,
        evaluators=phases.evaluators,
        publish=publish,
        carry_out=shell.carry_out,
        now=site.clocks.now,
        cycle=cycle,
        binding=binding,
        pacer=pacer,
        available=phases.links.available,
        wakeup=site.wakeup,
        max_batch=completed.trireme.batch.max_pods,
        anticipating=anticipating(completed) if cluster.extension is None else frozenset(),
        run_group=run_group,
    )


def anticipating(completed: commandline.CompletedConfig) -> frozenset[str]:
    """The profiles without plugins of others, whose answers may change though the cluster does not."""
    remote = _remote_plugins(completed)
    return frozenset(profile.scheduler_name for profile in completed.profiles if remote.isdisjoint(profile.all_names()))


def _remote_plugins(completed: commandline.CompletedConfig) -> frozenset[str]:
    return frozenset(plugin.name for plugin in completed.trireme.remote_plugins)
