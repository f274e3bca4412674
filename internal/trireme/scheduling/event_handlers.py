"""The handlers of all informers: they turn events into changes of the cache and notifications of the queue.

Pure: informers call them with events in order; handlers neither wait nor do I/O. A list that was started over may leave
out objects that are gone: these are removed when the list ends.

Source: pkg/scheduler/eventhandlers.go.
"""

from collections.abc import Callable, Sequence
from typing import Any

from trireme.cache import assumed_objects, cluster_cache, object_kinds
from trireme.cache.pod_projection import ParsedPod
from trireme.queueing import remote_calls, scheduling_queue
from trireme.scheduling import object_event_handlers, pending_pods, pod_event_handlers, ports, queue_notifier
from trireme.v1 import core_pb2
from trireme_kube.client.informers.watch import Event


class EventHandlers:
    """The handlers of pods (`pod_event_handlers`) and of everything else (`object_event_handlers`)."""

    def __init__(
        self,
        cache: cluster_cache.ClusterCache,
        queue: scheduling_queue.SchedulingQueue,
        pending: pending_pods.PendingPods,
        profiles: frozenset[str],
        *,
        now: Callable[[], float],
        execute: Callable[[remote_calls.Instructions], None],
        deleted: Callable[[str], None],
        bound: Callable[[str], None],
        observer: ports.Observer,
        groups: queue_notifier.GroupWatcher | None = None,
        json_of: Callable[[core_pb2.Node], bytes] = lambda node: b"",
    ) -> None:
        """Makes the handlers, which write `pending`.

        `execute` receives the queue's instructions; `deleted` the UID of each pending pod that is gone, `bound` of each
        that has a node; `groups`, if given, receives pod groups; `json_of` returns the JSON of a node that extenders
        want, once.
        """
        notifier = queue_notifier.QueueNotifier(queue, now, execute, observer, groups)
        self._objects = object_event_handlers.ObjectEventHandlers(cache, notifier, json_of)
        self._pods = pod_event_handlers.PodEventHandlers(
            cache,
            notifier,
            pending,
            profiles,
            deleted=deleted,
            bound=bound,
            on_assumed=self._objects.on_assumed,
            observer=observer,
        )

    @property
    def profiles(self) -> frozenset[str]:
        """The `spec.schedulerName` of the pods that this scheduler is responsible for."""
        return self._pods.profiles

    def set_profiles(self, profiles: frozenset[str]) -> None:
        """Replace the profiles. Pending pods of one that is gone are dropped.

        Those of a new one, and resizes, are known once all pods are listed again.
        """
        self._pods.set_profiles(profiles)

    def on_pods(self, events: Sequence[Event[ParsedPod]]) -> None:
        """Pods were listed, added, changed or deleted."""
        self._pods.on_pods(events)

    def on_nodes(self, events: Sequence[Event[core_pb2.Node]]) -> None:
        """Nodes were listed, added, changed or deleted."""
        self._objects.on_nodes(events)

    def on_objects(self, kind: object_kinds.ObjectKind, events: Sequence[Event[Any]]) -> None:
        """Objects of the kind were listed, added, changed or deleted."""
        self._objects.on_objects(kind, events)
        self._pods.reclassify()

    def on_assumed(self, changes: Sequence[assumed_objects.Change]) -> None:
        """Assumed objects changed."""
        self._objects.on_assumed(changes)

    def other_scheduler_of(self, key: str) -> str:
        """The schedulerName of a pending pod (namespace/name) that is not ours; empty: there is no such pod."""
        return self._pods.other_scheduler_of(key)
