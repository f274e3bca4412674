"""The frontend put together: clients, informers, cache, queue, phases, and the cycles of scheduling and binding.

Who is told of what is decided here, and nowhere else: the parts know each other only by what they are given. Nothing
runs yet; in which order all begins is `leading`'s to say.
"""

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trireme.cache import class_registry, cluster_cache, cluster_informers, node_json, object_kinds, object_waits
from trireme.config import commandline
from trireme.extenders import extender_calls
from trireme.framework import amounts, resizes
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.frontend import own_namespace, phase_configuration, remote_plugins
from trireme.frontend.phase_clients import (
    bind_replicas,
    children,
    class_answers,
    fallback,
    plugin_streams,
    publishing,
    remote_evaluators,
    replicas,
)
from trireme.frontend.serving import scheduler_metrics
from trireme.frontend.term import Term
from trireme.queueing import (
    backoff,
    hints,
    nominator,
    pre_enqueue,
    queue_hints,
    queued_pod,
    remote_calls,
    scheduling_queue,
    states,
)
from trireme.registry import queue_sides
from trireme.rpc import dialing
from trireme.scheduling import (
    binding_cycle,
    cluster_watch,
    cycle_parts,
    outcomes,
    pacing,
    pods_in_pre_bind,
    pre_binding,
    preempting,
    preemption_retries,
    reservations,
    scheduler,
    scheduling_cycle,
    status_outbox,
    waiting_pods,
)
from trireme.v1 import bind_pb2, core_pb2, cycle_pb2, plugin_pb2, snapshot_pb2
from trireme_kube.client import client, events, list_prefetch, resources
from trireme_kube.componentbase import clocks, supervision

if TYPE_CHECKING:
    from trireme.scheduling.groups import pod_group_assembly

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Clients:
    """The connections to the API server, apart so that none can starve another."""

    scheduling: client.ApiClient
    events: client.ApiClient
    # What was asked for on the first already.
    lists: Mapping[resources.Resource, list_prefetch.ListPrefetch]


class Frontend:
    """Everything but configuration, flags and sockets."""

    def __init__(
        self,
        completed: commandline.CompletedConfig,
        clients: Clients,
        local: children.Children,
        infos: Mapping[str, plugin_pb2.PluginInfo],
        metrics: scheduler_metrics.SchedulerMetrics,
        now: Callable[[], float] = clocks.steady,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = clocks.wall,
    ) -> None:
        """`infos` are what the remote plugins said of themselves, by name. `now` and `clock` answer
        seconds that never run backwards, `now` Unix seconds of the steady clock; `wall` those of the wall clock.

        Raises:
            ListenError: a certificate of the configuration cannot be used.
        """
        self._now = now
        self._clock = clock
        self._wall = wall
        self.metrics = metrics
        self._completed = completed
        election = completed.configuration.leader_election
        #: The Lease that leaders hold, as namespace/name.
        self.lease = f"{election.resource_namespace}/{election.resource_name}"
        #: Whether we stand for election, where the API server chooses who leads.
        self.candidate_synced: Callable[[], bool] = lambda: False
        self.own_namespace = own_namespace.OwnNamespace()
        #: Who holds the Lease, as the election saw it last; empty: nobody, or there is no election.
        self.lease_holder = ""
        #: What stands in for the configured replicas of a phase when none answers, by phase; made as a term begins.
        self.fallbacks: dict[str, fallback.Fallback] = {}
        self._clients = clients
        self._children = local
        self._term: Term | None = None
        self._infos = infos
        self._remote_plugins = frozenset(plugin.name for plugin in completed.trireme.remote_plugins)
        self._missing_plugins = remote_plugins.missing_required(completed, infos)
        #: The remote plugins as `trireme status` shows them.
        self.plugin_rows: Callable[[], list[dict[str, Any]]] = list
        #: Those that took part and are rejected now; under Fail they stay in the phases' configuration.
        self.rejected_plugins: Callable[[], frozenset[str]] = frozenset
        self._seen = remote_plugins.pods_seen(infos)
        self._pod_paths = set(self._seen.paths)
        self._node_json = node_json.NodeJson(remote_plugins.want_node_json(infos))
        self.registry = class_registry.ClassRegistry(
            all_labels=self._seen.label_keys is None,
            rules=amounts.rules_of(completed.gates.all()),
            keep_deferred=completed.gates.enabled(resizes.GATE),
        )
        self.registry.select_by(self._seen.label_keys or ())
        self.cache = cluster_cache.ClusterCache(self.registry)
        self.publisher = publishing.Publisher(self.cache, self._hello)
        self.answers = class_answers.ClassAnswers()
        self.waiting = waiting_pods.WaitingPods()
        self.object_waits = object_waits.ObjectWaits()
        self.recorder = events.EventRecorder(clients.events)
        self.pacer = pacing.Pacer(self._clock, completed.trireme.batch.linger.seconds)
        self._configuration = phase_configuration.configuration(completed, infos)
        self._config_hash = phase_configuration.config_hash(self._configuration)
        self._with_groups = completed.gates.enabled("GenericWorkload")
        self._extender_calls = self._make_extender_calls()
        self._make_queue()
        self._make_informers()
        self._make_phases()
        self.publisher.phases = (self.filters, self.scores)
        self.plugin_streams = plugin_streams.PluginStreams(self.publisher, self._clock)
        self._make_cycles()

    # What it is made of

    def _make_extender_calls(self) -> extender_calls.ExtenderCalls | None:
        return extender_calls.of(self._completed.configuration.extenders, self.registry, self.cache)

    def _make_queue(self) -> None:
        completed = self._completed
        config = completed.configuration
        self._view = hints.CacheView(self.cache)
        self._hints = queue_hints.HintTable(self._registrations())
        self.remote_queue = remote_plugins.RemoteQueue(
            self._configuration,
            lambda: self._config_hash,
            completed.profiles,
            self._pod_of,
            self._pre_enqueue_answered,
            self._repeat_pre_enqueue,
            self._hint_answered,
            self._now,
        )
        self._groups: pod_group_assembly.PodGroupAssembly | None = None
        make_queue: Callable[..., scheduling_queue.SchedulingQueue] = scheduling_queue.SchedulingQueue
        if self._with_groups:
            self._groups = self._make_groups()
            make_queue = self._groups.make_queue
        self._backoff = backoff.BackoffPolicy(
            float(config.pod_initial_backoff_seconds),
            float(config.pod_max_backoff_seconds),
            pop_early=completed.gates.enabled("SchedulerPopFromBackoffQ"),
        )
        self.queue = make_queue(
            self._hints,
            self.metrics.timed_gate(
                pre_enqueue.gate_of(
                    completed.profiles,
                    self.remote_queue.gated,
                    self._preempting_for,
                    self._lacks_claims,
                    self.missing_plugin,
                )
            ),
            policy=self._backoff,
            max_in_unschedulable=completed.pod_max_in_unschedulable_pods_seconds,
            nominator=nominator.Nominator(self._still_pending, self._nominated),
        )
        self.watch = cluster_watch.ClusterWatch(
            self.cache,
            self.queue,
            frozenset(profile.scheduler_name for profile in completed.profiles),
            self._now,
            self._carry_out,
            self._pod_deleted,
            self.metrics,
            None if self._groups is None else self._groups.queue,
            self._node_json.take,
        )

    def _registrations(self) -> dict[str, Sequence[queue_hints.Registration]]:
        completed = self._completed
        missing = set(self._missing_plugins.values())
        return {
            profile.scheduler_name: self.metrics.timed_hints(
                [
                    *hints.registrations(profile, completed.gates, self._view),
                    *remote_plugins.registrations(profile, self._taking_part(), missing),
                    *(hints.of_extenders(completed.gates) if completed.configuration.extenders else ()),
                ]
            )
            for profile in completed.profiles
        }

    def _make_groups(self) -> "pod_group_assembly.PodGroupAssembly":
        # A dozen modules, which nobody else needs.
        from trireme.scheduling.groups import pod_group_assembly

        return pod_group_assembly.PodGroupAssembly(
            self._completed, self.recorder, self._write_later, self._preempting_for, self._now, self._wall
        )

    def _make_informers(self) -> None:
        kept = self._extender_calls.objects if self._extender_calls is not None else None
        self.informers = cluster_informers.make(
            self._clients.scheduling,
            self._clients.lists,
            self._completed.gates.enabled,
            self._pod_paths,
            kept,
            self._on_pods,
            self._on_nodes,
            self._on_objects,
            self._node_json,
        )

    def _make_phases(self) -> None:
        own = self._completed.trireme
        self.filters, self.scores = (
            replicas.Replicas(
                name, self.publisher, self._dialer(name), own.phase(name).deadline.seconds, self._clock, self.wake
            )
            for name in ("filter", "score")
        )
        self.binders = bind_replicas.BindReplicas(
            self._fence,
            self._fence_request,
            self._dialer("bind"),
            own.bind.deadline.seconds,
            self.wake,
            lambda: self._config_hash,
        )
        self.outbox = status_outbox.StatusOutbox(self.binders.apply)

    def _dialer(self, phase: str) -> dialing.Dialer:
        config = self._completed.trireme
        tls = config.tls
        if not tls.enabled:
            return dialing.Dialer()
        identities = config.identities(phase)
        return dialing.Dialer(dialing.Settings(tls.ca_file, tls.cert_file, tls.key_file, identities))

    def _make_cycles(self) -> None:
        self.results = outcomes.Outcomes(
            self.queue,
            self.recorder,
            self.watch.pending,
            self._carry_out,
            self.outbox,
            self._now,
            self._wall,
            self.metrics,
        )
        self.evaluators = remote_evaluators.RemoteEvaluators(
            self.filters, self.scores, self.answers, self._fence, self._config_hash, self.metrics
        )
        parts = cycle_parts.CycleParts(
            cache=self.cache,
            queue=self.queue,
            evaluators=self.evaluators,
            results=self.results,
            reserved=reservations.Reservations(self.cache, self.evaluators, self.watch.on_assumed),
            observer=self.metrics,
            extension=self._extender_calls.extenders if self._extender_calls is not None else None,
            publish=self.publisher.publish,
            carry_out=self._carry_out,
            now=self._now,
        )
        in_pre_bind = pods_in_pre_bind.PodsInPreBind()
        self.binding = self._make_binding(parts, in_pre_bind)
        self.preemptions = preempting.Preempting(
            self.cache,
            self.queue.nominator,
            self.waiting,
            self.results,
            self.binders.apply,
            self.activate,
            self.metrics,
            in_pre_bind,
            self.watch.version_of,
            self.queue.held_preemptors,
            preemption_retries.Retries(self._backoff.duration, self.activate, self._now),
        )
        working = (self.binding, self.preemptions, parts.reserved, self.remote_queue)
        self._beside = [each.background for each in working]
        self.scheduler = self._make_scheduler(parts)

    def _make_binding(
        self, parts: cycle_parts.CycleParts, in_pre_bind: pods_in_pre_bind.PodsInPreBind
    ) -> binding_cycle.BindingCycle:
        completed = self._completed
        expecting = completed.gates.enabled("NominatedNodeNameForExpectation")
        return binding_cycle.BindingCycle(
            parts,
            self.binders,
            self.waiting,
            pre_binding.PreBinding(self.binders, self.object_waits, self._clock, expecting),
            in_pre_bind,
            permit_profiles=frozenset(
                profile.scheduler_name
                for profile in completed.profiles
                if not phase_configuration.OWN_PERMIT.issuperset(profile.names(ExtensionPoint.PERMIT))
            ),
            pre_bind_profiles=frozenset(
                profile.scheduler_name
                for profile in completed.profiles
                if not self._remote_plugins.isdisjoint(profile.names(ExtensionPoint.PRE_BIND))
            ),
        )

    def _make_scheduler(self, parts: cycle_parts.CycleParts) -> scheduler.Scheduler:
        asynchronous = self._completed.gates.enabled("SchedulerAsyncPreemption")
        cycle = scheduling_cycle.SchedulingCycle(
            parts,
            self.binding,
            self.preemptions,
            {
                profile.scheduler_name: asynchronous
                for profile in self._completed.profiles
                if profile.plugins.get(ExtensionPoint.POST_FILTER)
            },
        )
        groups = self._groups
        return scheduler.Scheduler(
            parts,
            cycle,
            self.binding,
            self.pacer,
            self.available,
            self._completed.trireme.batch.max_pods,
            anticipating=self._anticipating() if parts.extension is None else frozenset(),
            run_group=None if groups is None else groups.make_cycle(parts, self.preemptions, self.binding),
        )

    def _anticipating(self) -> frozenset[str]:
        """The profiles without plugins of others, whose answers may change though the cluster does not."""
        return frozenset(
            profile.scheduler_name
            for profile in self._completed.profiles
            if self._remote_plugins.isdisjoint(profile.all_names())
        )

    # What is told to us

    def _on_pods(self, batch: Sequence[Any]) -> None:
        self.watch.on_pods(batch)
        self.pacer.arrived(sum(1 for event in batch if event.object is not None and not event.object.node_name))
        self.wake()

    def _on_nodes(self, batch: Sequence[Any]) -> None:
        self.watch.on_nodes(batch)
        self.wake()

    def _on_objects(self, kind: object_kinds.ObjectKind, batch: Sequence[Any]) -> None:
        if kind.field == "namespace":
            self.own_namespace.on_namespaces(batch)
        self.watch.on_objects(kind, batch)
        changed = (event.object.metadata for event in batch if event.object is not None)
        self.object_waits.touched((kind.field, metadata.namespace, metadata.name) for metadata in changed)
        self.wake()

    def _pod_deleted(self, uid: str) -> None:
        self.results.gone(uid)
        self.waiting.reject(uid, "", "removed")
        self.preemptions.forget(uid)
        placed = self.cache.pod(uid)
        if placed is not None:
            namespace, _, name = placed.key.partition("/")
            self.object_waits.touched([(pre_binding.POD, namespace, name)])

    def _carry_out(self, instructions: remote_calls.Instructions) -> None:
        """The queue was told something: what it wants done is, and it may have a pod that can be tried now."""
        if instructions:
            self.remote_queue.carry_out(instructions)
        self.wake()

    def _pod_of(self, pod: queued_pod.QueuedPodInfo) -> core_pb2.Pod:
        """The pod as plugins see it: its class's fields, and its own name."""
        out = core_pb2.Pod()
        pending: cluster_watch.PendingPod = pod.record.pod
        if pending.class_id:
            out.CopyFrom(self.registry[pending.class_id].pod)
        out.metadata.namespace, out.metadata.name = pending.parsed.namespace, pending.parsed.name
        out.metadata.uid = pending.parsed.uid
        return out

    def _pre_enqueue_answered(self, call_id: int, gated_by: str, reason: str) -> None:
        self._carry_out(self.queue.pre_enqueue_answered(call_id, gated_by, self._now(), reason))

    def _repeat_pre_enqueue(self, call_id: int) -> bool:
        return self.queue.repeat_pre_enqueue(call_id)

    def _hint_answered(self, call_id: int, said: Sequence[queue_hints.Hint] | None) -> None:
        self._carry_out(self.queue.hint_answered(call_id, said, self._now()))

    def _still_pending(self, key: str, uid: str) -> bool:
        return self.watch.pending(uid) is not None and self.cache.pod(uid) is None

    def _nominated(self, pod: nominator.Nominated, before: str, after: str) -> None:
        """The replicas are told of promises with the next delta."""
        namespace, _, name = pod.key.partition("/")
        identity = cycle_pb2.PodIdentity(namespace=namespace, name=name, uid=pod.uid)
        self.cache.promise(snapshot_pb2.Nomination(pod=identity, pod_class=pod.class_id), after)

    def _write_later(self, action: bind_pb2.Action) -> None:
        self.outbox.send(action)

    def _preempting_for(self, uid: str) -> bool:
        return self.preemptions.holds(uid)

    def _lacks_claims(self, class_id: int) -> bool:
        return queue_sides.lacks_claims(self.registry[class_id].pod, self._view, self._completed.gates)

    def activate(self, pods: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Have these pods (key, UID) tried now; answers those that are in the active queue."""
        self._carry_out(self.queue.activate(pods, self._now()))
        places = {pod: self.queue.get(pod[0]) for pod in pods}
        return [
            pod
            for pod, queued in places.items()
            if queued is not None and queued.uid == pod[1] and isinstance(queued.state, states.Active)
        ]

    def wake(self) -> None:
        """Look again whether a batch is possible."""
        self.scheduler.wake()

    # State

    def available(self) -> bool:
        """Whether every phase can be asked."""
        return self.filters.available and self.scores.available and self.binders.available

    def missing(self) -> list[str]:
        """The phases that cannot be asked."""
        all_phases = (("filter", self.filters), ("score", self.scores), ("bind", self.binders))
        return [name for name, phase in all_phases if not phase.available]

    @property
    def synced(self) -> bool:
        """Whether every informer has synced."""
        return all(entry.synced for entry in self.informers)

    def to_wall(self, moment: float) -> float:
        """When a moment of the queue is, or was, by the wall clock as it is now. Units: Unix seconds."""
        return clocks.to_wall(moment, self._now(), self._wall())

    @property
    def leading(self) -> bool:
        """Whether we lead."""
        return self._term is not None

    def stands_in(self, phase: str) -> bool:
        """Whether a replica of our own stands in for the configured ones of a phase."""
        return phase in self.fallbacks and self.fallbacks[phase].active

    def children_statistics(self) -> list[children.ChildStatistics]:
        """How each of our own phases is."""
        return self._children.statistics()

    @property
    def term(self) -> Term | None:
        """Our term of leadership, while it lasts."""
        return self._term

    def _hello(self) -> snapshot_pb2.Hello:
        return snapshot_pb2.Hello(fence=self._fence(), config_hash=self._config_hash, configuration=self._configuration)

    def _fence(self) -> cycle_pb2.Fence:
        return cycle_pb2.Fence() if self._term is None else self._term.fence()

    def _fence_request(self) -> bind_pb2.FenceRequest:
        return bind_pb2.FenceRequest(
            fence=self._fence(), config_hash=self._config_hash, configuration=self._configuration
        )

    def missing_plugin(self, profile: str) -> str:
        """The remote plugin that the profile's pods wait for; empty: none."""
        return self._missing_plugins.get(profile, "")

    def _taking_part(self) -> dict[str, plugin_pb2.PluginInfo]:
        rejected = self.rejected_plugins()
        return {name: info for name, info in self._infos.items() if name not in rejected}

    async def plugins_changed(self, infos: Mapping[str, plugin_pb2.PluginInfo]) -> None:
        """Remote plugins joined, describe themselves otherwise, or are rejected: phases get the new configuration, pods
        that waited for a plugin are scheduled, and those that need one that was rejected wait.
        """
        await self._see_more_of_pods(infos)
        await self._see_more_of_nodes(infos)
        self._infos = infos
        self._configure_phases(phase_configuration.configuration(self._completed, infos))
        self._missing_plugins = remote_plugins.missing_required(self._completed, self._taking_part())
        started = self.metrics.clock()
        instructions = self.queue.on_event(remote_plugins.PLUGIN_JOINED, None, None, self._now())
        self.metrics.event_handled(remote_plugins.PLUGIN_JOINED.label, started)
        self._carry_out(instructions)
        self._hints.replace(self._registrations())
        for profile in self._missing_plugins:
            self._carry_out(self.queue.recheck_pre_enqueue(profile, remote_plugins.PLUGIN_REJECTED, self._now()))
        self.wake()

    def _configure_phases(self, configuration: snapshot_pb2.Configuration) -> None:
        config_hash = phase_configuration.config_hash(configuration)
        if config_hash == self._config_hash:
            return
        self._configuration, self._config_hash = configuration, config_hash
        self.evaluators.set_config_hash(config_hash)
        self.remote_queue.configure(configuration)
        if self._term is not None:
            self.plugin_streams.configure(configuration)
        for phase in (self.filters, self.scores, self.binders):
            phase.restart()

    async def _see_more_of_pods(self, infos: Mapping[str, plugin_pb2.PluginInfo]) -> None:
        """Have pods' classes hold all that the plugins read, before they are asked."""
        seen = remote_plugins.pods_seen(infos)
        if self._seen.covers(seen):
            return
        self._seen = self._seen.with_more(seen)
        self._pod_paths |= seen.paths
        if seen.label_keys is None:
            self.registry.select_all()
        else:
            self.registry.select_by(seen.label_keys)
        log.info("reading all pods again: remote plugins read more of them than before")
        await self.informers[0].relist()

    async def _see_more_of_nodes(self, infos: Mapping[str, plugin_pb2.PluginInfo]) -> None:
        """Have the cache hold the nodes' JSON, before a plugin that wants it is called."""
        if self._node_json.enabled or not remote_plugins.want_node_json(infos):
            return
        self._node_json.enabled = True
        log.info("reading all nodes again, as JSON: a remote plugin wants them so")
        self.informers[1].request_json()
        await self.informers[1].relist()

    def begin(self, term: Term) -> None:
        """From now on phases know us, and plugins that follow the cluster; nothing is scheduled yet."""
        self._term = term
        self.plugin_streams.configure(self._configuration)
        log.info("leading with epoch %d", term.epoch)

    async def failed(self) -> None:
        """Raise what fails beside scheduling, whenever it does."""
        links = [phase.supervisor for phase in (self.filters, self.scores, self.binders)]
        await supervision.failure_of([*self._beside, *links, self.plugin_streams.supervisor])

    async def close(self) -> None:
        """End what is under way: what was not bound is somebody else's to schedule."""
        await self.preemptions.close()
        await self.binding.close()
        if self._extender_calls is not None:
            await self._extender_calls.close()
        with contextlib.suppress(asyncio.CancelledError):
            await self.recorder.flush(2.0)
        await self.plugin_streams.close()
        await self.filters.close()
        await self.scores.close()
        await self.binders.close()
