"""The queue with its plugins, and the execution of its instructions.

The queue does no I/O: a stimulus returns instructions to call remote plugins. `execute` has them called, and their
answers are further stimuli.

Tests: tests/unit/scheduling/test_queue_executor.py, tests/unit/scheduling/test_queue_sort_keys.py,
tests/unit/scheduling/test_assembly.py.
"""

from collections.abc import Callable, Sequence
from typing import Generic

from trireme.cache import cluster_cache
from trireme.plugin_api.pre_enqueue import PodToEnqueue, PreEnqueueContext
from trireme.queueing import assembly, backoff, nominator, pre_enqueue, queued_pod, remote_calls
from trireme.queueing.groups import group_settings
from trireme.queueing.hints import cluster_view, hint_evaluation, queueing_hint_map, registrations
from trireme.scheduling import pending_pods, ports, queue_ports, scheduler_settings
from trireme.scheduling.queue_ports import QueueCallerT
from trireme.v1 import cycle_pb2, snapshot_pb2


class QueueExecutor(Generic[QueueCallerT]):
    """Holds the queue, and executes its instructions: has remote plugins called, and wakes the scheduler."""

    def __init__(
        self,
        settings: scheduler_settings.SchedulerSettings,
        cache: cluster_cache.ClusterCache,
        plugins: queue_ports.QueuePlugins[QueueCallerT],
        pending: pending_pods.PendingPods,
        *,
        observer: ports.Observer,
        now: Callable[[], float],
        wake: Callable[[], None],
        still_gates: Callable[[str], bool],
        groups: group_settings.GroupSettings | None,
    ) -> None:
        """Build the queue. `groups`: it knows pod groups.

        `wake` has the scheduler check again whether a batch is possible; `still_gates` returns whether victims of a pod
        (UID) are still to be deleted.
        """
        self._settings = settings
        self._cache = cache
        self._plugins = plugins
        self._observer = observer
        self._now = now
        self._wake = wake
        self._view = cluster_view.CacheView(cache)
        self.hints = hint_evaluation.HintEvaluator(queueing_hint_map.QueueingHintMap(self.registrations()))
        self.remote = plugins.make_caller(
            queue_ports.QueueReports(
                self._queued_pods,
                self._sort_anew,
                self._pre_enqueue_answered,
                self._repeat_pre_enqueue,
                self._hint_answered,
            )
        )
        self.backoff = backoff.BackoffPolicy(
            settings.initial_backoff,
            settings.max_backoff,
            pop_early=settings.features.enabled("SchedulerPopFromBackoffQ"),
        )
        self.pre_enqueue = pre_enqueue.LocalPreEnqueuePlugins(
            settings.profiles,
            PreEnqueueContext(settings.features, self._view, still_gates),
            self._pod_to_enqueue,
            self.remote.has_to_be_called,
            plugins.missing,
        )
        self.queue = assembly.build_queue(
            self.hints,
            observer.with_timing_of_pre_enqueue(self.pre_enqueue.pre_enqueue),
            policy=self.backoff,
            max_in_unschedulable=settings.max_in_unschedulable,
            nominator=nominator.Nominator(lambda _key, uid: pending.lacks_node(uid), self._mirror_nomination_in_cache),
            groups=groups,
        )

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

    def configure(self, settings: scheduler_settings.SchedulerSettings) -> None:
        """Follow other settings: PreEnqueue, back-off and hints."""
        self._settings = settings
        self.pre_enqueue.configure(settings.profiles)
        self.backoff.initial, self.backoff.maximum = settings.initial_backoff, settings.max_backoff
        self.register_events()

    def register_events(self) -> None:
        """Have the queue follow the plugins' registrations of now."""
        self.hints.registrations.replace(self.registrations())

    def registrations(self) -> dict[str, Sequence[queueing_hint_map.EventRegistration]]:
        """The events that each profile's plugins, and extenders, register for."""
        features = self._settings.features
        return {
            profile.scheduler_name: self._observer.with_timing_of_hints(
                [
                    *registrations.of_in_tree_plugins(profile, features, self._view),
                    *self._plugins.registrations(profile),
                    *(registrations.of_extenders(features) if self._settings.extended else ()),
                ]
            )
            for profile in self._settings.profiles
        }

    def _queued_pods(self) -> list[queued_pod.QueuedPodInfo]:
        return self.queue.contents.pods()

    def _sort_anew(self, key: str, uid: str) -> None:
        self.queue.sort_anew(key, uid)

    def _pre_enqueue_answered(self, call_id: int, gated_by: str, reason: str) -> None:
        self.execute(self.queue.pre_enqueue_answered(call_id, gated_by, self._now(), reason))

    def _repeat_pre_enqueue(self, call_id: int) -> bool:
        """Ask the queue whether to repeat a failed call; False: its answer is not used any more."""
        return self.queue.repeat_pre_enqueue(call_id)

    def _hint_answered(self, call_id: int, answers: Sequence[queueing_hint_map.HintAnswer] | None) -> None:
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
