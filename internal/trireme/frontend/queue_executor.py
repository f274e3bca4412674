"""The I/O around the queue: calls to the plugins that it needs, and the execution of its instructions.

The queue itself does no I/O. Its instructions go to `execute`, and the answers of remote plugins come back as further
stimuli.
"""

from collections.abc import Callable, Hashable, Sequence

from trireme.cache import cluster_cache
from trireme.config import commandline
from trireme.framework import cluster_event
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.frontend import plugin_membership, prepared_plugins, queue_plugin_calls, scheduler_metrics
from trireme.frontend.phase_settings import PhaseSettings
from trireme.plugin_api.pre_enqueue import PodToEnqueue, PreEnqueueContext
from trireme.queueing import (
    assembly,
    backoff,
    nominator,
    pre_enqueue,
    queued_pod,
    remote_calls,
)
from trireme.queueing.groups import group_settings
from trireme.queueing.hints import cluster_view, hint_evaluation, queueing_hint_map, registrations
from trireme.scheduling import ports
from trireme.v1 import core_pb2, cycle_pb2, plugin_pb2, snapshot_pb2

#: The configuration was reloaded: what plugins refused before may pass now.
CONFIGURATION_RELOADED = cluster_event.ClusterEvent("trireme.dev/Configuration", cluster_event.ActionType.UPDATE)


class QueueExecutor:
    """Holds the queue, and executes the instructions that it returns: calls of remote plugins, waking the scheduler."""

    def __init__(
        self,
        *,
        completed: commandline.CompletedConfig,
        cache: cluster_cache.ClusterCache,
        settings: PhaseSettings,
        membership: plugin_membership.PluginMembership,
        metrics: scheduler_metrics.SchedulerMetrics,
        clocks: ports.Clocks,
        wake: Callable[[], None],
        still_pending: Callable[[str], bool],
        preempting_for: Callable[[str], bool],
        groups: group_settings.GroupSettings | None,
    ) -> None:
        """`wake` has the scheduler check again whether a batch is possible.

        `still_pending` returns whether a pod (UID) is known and has no node, `preempting_for` whether victims of it are
        still to be deleted.
        """
        self._completed = completed
        self._cache = cache
        self._settings = settings
        self._membership = membership
        self._metrics = metrics
        self._now = clocks.now
        self._wake = wake
        self._view = cluster_view.CacheView(cache)
        self._hints = hint_evaluation.HintEvaluator(queueing_hint_map.QueueingHintMap(self.registrations()))
        self.remote = queue_plugin_calls.QueuePluginCaller(
            settings.configuration,
            settings.config_hash,
            completed.profiles,
            pod_of=self._pod_for_plugins,
            reports=queue_plugin_calls.QueueReports(
                self._queued_pods,
                self._sort_anew,
                self._pre_enqueue_answered,
                self._repeat_pre_enqueue,
                self._hint_answered,
            ),
            now=self._now,
        )
        config = completed.configuration
        self.backoff = backoff.BackoffPolicy(
            float(config.pod_initial_backoff_seconds),
            float(config.pod_max_backoff_seconds),
            pop_early=completed.gates.enabled("SchedulerPopFromBackoffQ"),
        )
        self.pre_enqueue = pre_enqueue.LocalPreEnqueuePlugins(
            completed.profiles,
            PreEnqueueContext(completed.gates, self._view, preempting_for),
            self._pod_to_enqueue,
            self.remote.has_to_be_called,
            membership.missing_plugin,
        )
        self.queue = assembly.build_queue(
            self._hints,
            metrics.with_timing_of_pre_enqueue(self.pre_enqueue.pre_enqueue),
            policy=self.backoff,
            max_in_unschedulable=completed.pod_max_in_unschedulable_pods_seconds,
            nominator=nominator.Nominator(lambda _key, uid: still_pending(uid), self._mirror_nomination_in_cache),
            groups=groups,
        )
        self._configure_sort_keys(settings.configuration, anew=True)

    def execute(self, instructions: remote_calls.Instructions) -> None:
        """Execute the queue's instructions after a stimulus, and wake the scheduler."""
        if instructions:
            self.remote.execute(instructions)
        self._wake()

    def activate(self, pods: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Move these pods (key, UID) to the active queue; returns those that are in it now, or will be.

        A pod for which remote PreEnqueue plugins are called enters it when they let it in.
        """
        self.execute(self.queue.activate(pods, self._now()))
        return [pod for pod in dict.fromkeys(pods) if self.queue.contents.is_activated(*pod)]

    def plugin_changed(self, name: str) -> None:
        """Follow a change of this remote plugin: whether it can be called, or its version or instance.

        Pods that waited for it or that it refused are tried again; profiles that need a rejected plugin hold their pods
        back. `on_event` wakes by the old registrations, and those of a new description apply from then on.
        """
        if name in self._completed.profiles[0].names(ExtensionPoint.QUEUE_SORT):
            self._configure_sort_keys(self._settings.configuration, anew=True)
        absent = self._membership.is_rejected(name) or self._membership.is_unsynced(name)
        event = queue_plugin_calls.PLUGIN_REJECTED if absent else queue_plugin_calls.PLUGIN_JOINED
        started = self._metrics.clock()
        instructions = self.queue.on_event(event, None, name, self._now())
        self._metrics.on_event_handled(event.label, started)
        self.execute(instructions)
        self._hints.registrations.replace(self.registrations())
        for profile in self._membership.missing():
            self.execute(self.queue.recheck_pre_enqueue(profile, queue_plugin_calls.PLUGIN_REJECTED, self._now()))
        self._wake()

    def configure(self, completed: commandline.CompletedConfig, configuration: snapshot_pb2.Configuration) -> None:
        """Follow another configuration: PreEnqueue, hints, back-off and remote plugins."""
        self._completed = completed
        self.remote.configure(configuration, completed.profiles)
        self.pre_enqueue.configure(completed.profiles)
        self.backoff.initial = float(completed.configuration.pod_initial_backoff_seconds)
        self.backoff.maximum = float(completed.configuration.pod_max_backoff_seconds)
        self._hints.registrations.replace(self.registrations())
        self._configure_sort_keys(configuration, anew=False)

    def retry_all(self) -> None:
        """Try refused pods again, after their back-off; those in the queue pass PreEnqueue again."""
        now = self._now()
        for profile in self._completed.profiles:
            self.execute(self.queue.recheck_pre_enqueue(profile.scheduler_name, CONFIGURATION_RELOADED, now))
        self.execute(self.queue.retry_all(CONFIGURATION_RELOADED, now))

    def registrations(self) -> dict[str, Sequence[queueing_hint_map.EventRegistration]]:
        """The events that each profile's plugins, and extenders, register for."""
        completed = self._completed
        configured = [plugin.name for plugin in completed.trireme.remote_plugins if not plugin.compared_only]
        return {
            profile.scheduler_name: self._metrics.with_timing_of_hints(
                [
                    *registrations.of_in_tree_plugins(profile, completed.gates, self._view),
                    *queue_plugin_calls.registrations(profile, self._deciding_plugins(), configured),
                    *(registrations.of_extenders(completed.gates) if completed.configuration.extenders else ()),
                ]
            )
            for profile in completed.profiles
        }

    def _deciding_plugins(self) -> dict[str, plugin_pb2.PluginInfo]:
        """The plugins that are called and whose answers count."""
        own = self._completed.trireme
        return {
            name: info
            for name, info in self._membership.called_plugins().items()
            if (plugin := own.remote_plugin(name)) is None or not plugin.compared_only
        }

    def _pod_for_plugins(self, pod: queued_pod.QueuedPodInfo) -> core_pb2.Pod:
        """The pod as remote plugins see it: the fields of its class, with its own namespace, name and UID."""
        out = core_pb2.Pod()
        pending = pod.record.pod
        if pending.class_id:
            out.CopyFrom(self._cache.registry[pending.class_id].pod)
        out.metadata.namespace, out.metadata.name = pending.parsed.namespace, pending.parsed.name
        out.metadata.uid = pending.parsed.uid
        return out

    def _configure_sort_keys(self, configuration: snapshot_pb2.Configuration, *, anew: bool) -> None:
        """Have the queue in the order of the remote QueueSort plugin, or without one in that of priorities.

        Without `anew` pods keep their keys if the plugin, its description and its arguments are those of before.
        """
        plugin = self.remote.queue_sort_plugin()
        basis = None if plugin is None else self._basis_of_sort_keys(configuration, plugin.name)
        self.remote.sort_keys.configure(plugin, self.queue.contents.pods(), basis, anew=anew)

    def _basis_of_sort_keys(self, configuration: snapshot_pb2.Configuration, name: str) -> Hashable:
        """What the keys of this plugin depend on beside the pods: address, description, arguments and feature gates."""
        completed = self._completed
        own = completed.trireme.remote_plugin(name)
        (entry,) = (each for each in configuration.remote_plugins if each.name == name)
        return (
            None if own is None else prepared_plugins.connection_key(own),
            entry.info.SerializeToString(deterministic=True),
            frozenset(each.args_json for each in entry.configurations),
            frozenset(completed.gates.all().items()),
        )

    def _queued_pods(self) -> list[queued_pod.QueuedPodInfo]:
        """All pods of the queue."""
        return self.queue.contents.pods()

    def _sort_anew(self, key: str, uid: str) -> None:
        """Tell the queue that the pod has another sort key."""
        self.queue.sort_anew(key, uid)

    def _pre_enqueue_answered(self, call_id: int, gated_by: str, reason: str) -> None:
        """Report the answer of remote PreEnqueue plugins to the queue."""
        self.execute(self.queue.pre_enqueue_answered(call_id, gated_by, self._now(), reason))

    def _repeat_pre_enqueue(self, call_id: int) -> bool:
        """Ask the queue whether to repeat a failed call; False: its answer is not used any more."""
        return self.queue.repeat_pre_enqueue(call_id)

    def _hint_answered(self, call_id: int, answers: Sequence[queueing_hint_map.Hint] | None) -> None:
        """Report the answers of a remote hint to the queue; None: the call failed."""
        self.execute(self.queue.hint_answered(call_id, answers, self._now()))

    def _mirror_nomination_in_cache(self, pod: nominator.NominatedPod, before: str, after: str) -> None:
        """Set or clear the pod's nomination in the cache, whose next delta carries it to the replicas."""
        namespace, _, name = pod.key.partition("/")
        identity = cycle_pb2.PodIdentity(namespace=namespace, name=name, uid=pod.uid)
        self._cache.nominate_node(snapshot_pb2.Nomination(pod=identity, pod_class=pod.class_id), after)

    def _pod_to_enqueue(self, pod: queued_pod.QueuedPodInfo) -> PodToEnqueue:
        """The pod as in-tree PreEnqueue plugins see it; without fields if it has no class, as its object is invalid."""
        record = pod.record
        of_class = self._cache.registry[record.class_id].pod if record.class_id > 0 else None
        return PodToEnqueue(record.uid, record.pod.parsed.gates, of_class)
