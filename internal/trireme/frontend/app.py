"""Assembles the frontend from the bottom up: the cluster's state, the clients of the phases, scheduling.

Each record is built from the ones before it, and each constructor receives only what it uses. Nothing runs yet:
`leading` starts the parts in order.

Tests: tests/unit/frontend/test_start_with_each_gate.py, tests/unit/scheduling/test_assembly.py.
"""

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trireme.cache import class_registry, cluster_cache, cluster_informers, node_json, object_waits
from trireme.config import commandline, trireme_configuration
from trireme.config.profiles import canary_shares
from trireme.extenders import extender_assembly
from trireme.framework import amounts, resizes
from trireme.frontend import (
    catching_up,
    inbox,
    insight_queue_feed,
    namespace_deletion,
    phase_configuration,
    plugin_membership,
    plugin_updates,
    pod_reads,
    queue_changes,
    queue_plugin_calls,
    scheduler_metrics,
    wake_up_check,
)
from trireme.frontend.frontend_parts import ClusterState, FrontendContext, PhaseClients, Scheduling
from trireme.frontend.leader_status import LeaderStatus
from trireme.frontend.phase_clients import (
    class_answers,
    decision_log,
    insight_replicas,
    phase_links,
    plugin_streams,
    recording_evaluators,
    remote_evaluators,
    snapshot_publisher,
)
from trireme.frontend.phase_settings import PhaseSettings
from trireme.frontend.term import Term
from trireme.frontend.tracing import traced_binder, traced_metrics
from trireme.registry.in_tree import IN_TREE
from trireme.scheduling import assembly, ports, scheduler_ports, scheduler_settings
from trireme.v1 import plugin_pb2
from trireme.wire import profile_messages
from trireme_kube.client.events import event_recorder
from trireme_kube.client.informers import informer, list_prefetch, resources
from trireme_kube.client.rest import client
from trireme_kube.componentbase import clocks, supervision

log = logging.getLogger(__name__)

# The extension points of filter and score at which answers of services are recorded.
_RECORDED_POINTS = (
    plugin_pb2.EXTENSION_POINT_PRE_FILTER,
    plugin_pb2.EXTENSION_POINT_FILTER,
    plugin_pb2.EXTENSION_POINT_POST_FILTER,
    plugin_pb2.EXTENSION_POINT_RESERVE,
    plugin_pb2.EXTENSION_POINT_PRE_SCORE,
    plugin_pb2.EXTENSION_POINT_SCORE,
    plugin_pb2.EXTENSION_POINT_NORMALIZE_SCORE,
)

CLOCKS = ports.Clocks(clocks.steady, time.monotonic, clocks.wall)

MakeExtenders = Callable[..., extender_assembly.OpenExtenders | None]


@dataclasses.dataclass(frozen=True, slots=True)
class Clients:
    """The frontend's clients of the API server: separate connections, so that none can starve another."""

    scheduling: client.ApiClient
    events: client.ApiClient
    # The lists already requested on the first connection.
    lists: Mapping[resources.Resource, list_prefetch.ListPrefetch]


@dataclasses.dataclass(frozen=True, slots=True)
class App:
    """The assembled frontend; `build` makes it before leader election, and it lives as long as the process."""

    context: FrontendContext
    cluster: ClusterState
    phases: PhaseClients
    scheduling: Scheduling
    recorder: event_recorder.EventRecorder
    inbox: inbox.Inbox
    informers: Sequence[informer.Informer[Any]]
    queue_changes: queue_changes.QueueChanges
    plugin_updates: plugin_updates.PluginUpdates
    namespace: namespace_deletion.NamespaceDeletionWatch
    insight_queue_feed: insight_queue_feed.InsightQueueFeed | None
    #: None without insight.
    wake_up_check: wake_up_check.WakeUpCheck | None

    @property
    def synced(self) -> bool:
        """Whether every informer has synced."""
        return all(entry.synced for entry in self.informers)

    def begin(self, term: Term) -> None:
        """Introduce the leader to the phases, and to plugins that follow the cluster. Nothing is scheduled yet."""
        self.context.leader.begin(term)
        self.phases.streams.configure(self.context.settings.configuration)
        log.info("leading with epoch %d", term.epoch)

    async def raise_first_failure(self) -> None:
        """Raise the first failure of a background task; else do not return."""
        calling = self.scheduling.queue_executor.remote.background
        await supervision.failure_of([*self.scheduling.supervisors(), calling, *self.phases.supervisors()])

    async def close(self) -> None:
        """Cancel the work in progress."""
        await self.scheduling.close()
        if self.cluster.extender_parts is not None:
            await self.cluster.extender_parts.close()
        with contextlib.suppress(asyncio.CancelledError):
            await self.recorder.flush(2.0)
        await self.phases.close()


def build(
    completed: commandline.CompletedConfig,
    clients: Clients,
    infos: Mapping[str, plugin_pb2.PluginInfo],
    metrics: scheduler_metrics.SchedulerMetrics,
    *,
    rejected: Callable[[], frozenset[str]] = frozenset,
    clocks: ports.Clocks = CLOCKS,
    connect: Callable[..., phase_links.PhaseLinks] = phase_links.make_links,
    make_extenders: MakeExtenders = extender_assembly.assemble_extenders,
) -> App:
    """Build the frontend.

    `infos` are the remote plugins' descriptions by name, and `rejected` returns those of them that are rejected now.
    `connect` and `make_extenders` make the clients of the phases and of extenders.

    Raises:
        ListenError: a certificate of the configuration cannot be used.
    """
    election = completed.configuration.leader_election
    leader = LeaderStatus(f"{election.resource_namespace}/{election.resource_name}")
    settings = PhaseSettings(phase_configuration.make_configuration(completed, infos), leader.fence)
    membership = plugin_membership.PluginMembership(completed, infos, rejected)
    context = FrontendContext(completed, leader, membership, settings, metrics, clocks, asyncio.Event())
    cluster = build_cluster(completed, infos, make_extenders)
    phases = build_phases(context, cluster.cache, connect)
    recorder = event_recorder.EventRecorder(clients.events)

    async def until_claim_shown(namespace: str, name: str) -> None:
        (claims,) = (entry for entry in informers if entry.resource is resources.RESOURCE_CLAIMS)
        await catching_up.catch_up_with(claims, namespace, name, pod_informer)

    effects = ports.Effects(phases.binder, recorder, until_claim_shown)
    scheduling = build_scheduling(context, cluster, phases.evaluation, effects)
    changes = queue_changes.QueueChanges(context, scheduling.queue_executor)
    namespace = namespace_deletion.NamespaceDeletionWatch()
    events_in = inbox.Inbox(scheduling.handlers, scheduling.pacer, cluster.waits, namespace, context.wakeup.set)
    informers = cluster_informers.make_informers(
        clients.scheduling,
        clients.lists,
        completed.gates.enabled,
        cluster.pod_reads.paths,
        None if cluster.extender_parts is None else cluster.extender_parts.objects,
        events_in,
        json=cluster.node_json,
        shares=cluster.pod_reads.shares,
    )
    pod_informer, node_informer, *_ = informers
    updates = plugin_updates.PluginUpdates(
        completed=completed,
        registry=cluster.registry,
        reads=cluster.pod_reads,
        nodes=cluster.node_json,
        pod_informer=pod_informer,
        node_informer=node_informer,
        membership=membership,
        settings=settings,
        leader=leader,
        answers=phases.answers,
        links=phases.links,
        streams=phases.streams,
        queue=changes,
    )
    phases.streams.unsynced_changed = updates.follow_unsynced
    feed = build_insight_queue_feed(context, cluster.cache, phases.links.insight, scheduling)
    check = build_wake_up_check(context, cluster, phases, scheduling)
    return App(
        context, cluster, phases, scheduling, recorder, events_in, informers, changes, updates, namespace, feed, check
    )


def build_scheduling(
    context: FrontendContext,
    cluster: ClusterState,
    evaluation: scheduler_ports.EvaluationPorts,
    effects: ports.Effects,
) -> Scheduling:
    """Assemble the scheduler, with the remote plugins that take part in queueing."""
    return assembly.assemble(
        scheduler_settings.of_configuration(context.completed),
        scheduler_ports.SchedulerPorts(
            cache=cluster.cache,
            waits=cluster.waits,
            evaluation=evaluation,
            effects=effects,
            queue_plugins=queue_changes.queue_plugins(context, cluster.cache),
            observer=context.metrics,
            clocks=context.clocks,
            http_extenders=cluster.extenders,
            json_of=cluster.node_json.take,
            wakeup=context.wakeup,
        ),
    )


def build_insight_queue_feed(
    context: FrontendContext,
    cache: cluster_cache.ClusterCache,
    insight: insight_replicas.InsightReplicas | None,
    scheduling: Scheduling,
) -> insight_queue_feed.InsightQueueFeed | None:
    """The sender of the queue to insight, if insight is configured."""
    if insight is None:
        return None
    now, wall = context.clocks.now, context.clocks.wall
    return insight_queue_feed.InsightQueueFeed(
        insight, scheduling.queue.contents, lambda: cache.generation, now, lambda at: clocks.to_wall(at, now(), wall())
    )


def build_wake_up_check(
    context: FrontendContext, cluster: ClusterState, phases: PhaseClients, scheduling: Scheduling
) -> wake_up_check.WakeUpCheck | None:
    """The check of waiting pods, if insight is configured."""
    insight, now, wall = phases.links.insight, context.clocks.now, context.clocks.wall
    if insight is None:
        return None
    return wake_up_check.WakeUpCheck(
        context,
        scheduling,
        insight,
        phases.publisher.publish,
        cluster.extenders,
        lambda at: clocks.to_wall(at, now(), wall()),
        wakes=context.completed.trireme.insight.missed_wake_ups == trireme_configuration.WAKE,
    )


def build_cluster(
    completed: commandline.CompletedConfig,
    infos: Mapping[str, plugin_pb2.PluginInfo],
    make_extenders: MakeExtenders = extender_assembly.assemble_extenders,
) -> ClusterState:
    """Build the frontend's state of the cluster, which is empty until the informers fill it.

    Pods get classes by the fields that the enabled in-tree plugins and the remote plugins of `infos` read, so this
    comes after the first handshake with remote plugins. `infos` are the descriptions of those that answered, by name.
    """
    enabled = {name for profile in completed.profiles for name in profile.all_names()}
    shares = canary_shares(completed.profiles, completed.trireme)
    reads = pod_reads.PodReads(infos, IN_TREE.pod_fields(enabled), shares)
    registry = class_registry.ClassRegistry(
        all_labels=reads.label_keys is None,
        rules=amounts.rules_of(completed.gates.for_phases()),
        keep_deferred=completed.gates.enabled(resizes.GATE),
    )
    registry.add_selector_keys(reads.label_keys or ())
    cache = cluster_cache.ClusterCache(registry)
    return ClusterState(
        registry,
        cache,
        object_waits.ObjectWaits(),
        reads,
        node_json.NodeJson(queue_plugin_calls.any_reads_node_json(infos)),
        make_extenders(completed.configuration.extenders, registry, cache),
    )


def build_phases(
    context: FrontendContext,
    cache: cluster_cache.ClusterCache,
    connect: Callable[..., phase_links.PhaseLinks] = phase_links.make_links,
) -> PhaseClients:
    """Build the clients of filter, score, bind and insight, and subscribe those that follow `cache` to its deltas.

    No replica has an address yet, and nothing is connected or sent before `LeadershipRunner` sets the endpoints.
    """
    settings, fence = context.settings, context.leader.fence
    publisher = snapshot_publisher.SnapshotPublisher(cache, settings.hello)
    links = connect(
        context.completed,
        publisher,
        fence=fence,
        fence_request=settings.fence_request,
        config_hash=settings.config_hash,
        clock=context.clocks.monotonic,
        wake=context.wakeup.set,
    )
    for followers in links.followers().values():
        publisher.add_followers(followers)
    answers = class_answers.ClassAnswers()
    decisions = decision_log.DecisionLog(
        lambda: cache.generation,
        lambda profile: profile_messages.has_remote_plugin(settings.configuration, profile, *_RECORDED_POINTS),
    )
    if links.insight is not None:
        links.insight.send_decisions(decisions)
    remote = remote_evaluators.RemoteEvaluators(
        links.filters,
        links.scores,
        answers,
        fence,
        settings.config_hash,
        decisions.wants_remote_answers,
        metrics=context.metrics,
    )
    traces = traced_metrics.traces_of(context.metrics)
    evaluators = recording_evaluators.RecordingEvaluators(
        remote,
        decisions,
        context.metrics.clock,
        lambda profile: profile_messages.has_remote_plugin(
            settings.configuration, profile, plugin_pb2.EXTENSION_POINT_PRE_FILTER, plugin_pb2.EXTENSION_POINT_FILTER
        ),
        traces,
    )
    streams = plugin_streams.PluginStreams(publisher, context.clocks.monotonic)
    binder: ports.Binder = links.binders
    log: ports.BindingLog = decisions
    if traces is not None:
        binder = traced_binder.TracedBinder(binder, traces)
        log = traced_metrics.TracedBindingLog(log, traces)
    return PhaseClients(publisher, links, answers, evaluators, streams, binder, decisions, log)
