"""The handlers of all informers: they turn events into changes of the cache and notifications of the queue.

Pure: informers call them with events in order; handlers neither wait nor do I/O. A list that was started over may leave
out objects that are gone: these are removed when the list ends.

Source: pkg/scheduler/eventhandlers.go.
"""

from collections.abc import Callable

from trireme.cache import cluster_cache
from trireme.queueing import remote_calls, scheduling_queue
from trireme.scheduling import object_event_handlers, pending_pods, pod_event_handlers, ports, queue_notifier
from trireme.v1 import core_pb2


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
        self.notifier = queue_notifier.QueueNotifier(queue, now, execute, observer, groups)
        self.pods = pod_event_handlers.PodEventHandlers(
            cache, self.notifier, pending, profiles, deleted=deleted, bound=bound, observer=observer
        )
        self.objects = object_event_handlers.ObjectEventHandlers(
            cache, self.notifier, json_of, reclassify=self.pods.reclassify
        )
