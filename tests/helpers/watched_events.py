"""The handlers of watch events over an empty cluster, and what they do: to the queue, to groups, to all that waits."""

from types import SimpleNamespace
from typing import Any

from tests.helpers.cluster_objects import KINDS
from tests.helpers.queue_builders import exact
from trireme.cache import class_registry, cluster_cache, pod_projection
from trireme.framework.cluster_event import ClusterEvent
from trireme.frontend import scheduler_metrics
from trireme.queueing.assembly import build_queue
from trireme.queueing.hints import hint_evaluation, queueing_hint_map
from trireme.queueing.pre_enqueue import PreEnqueueResult
from trireme.scheduling import event_handlers, pending_pods
from trireme_kube.apimachinery import decode
from trireme_kube.client.informers.watch import Event, EventKind

PROFILE = "default-scheduler"


class RecordingQueue:
    """A queue that wants every event, and writes down which it gets."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any, Any]] = []
        hints = hint_evaluation.HintEvaluator(queueing_hint_map.QueueingHintMap({PROFILE: ()}))
        self._queue = build_queue(hints, lambda pod: PreEnqueueResult.ALLOWED, policy=exact())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def needs_events(self) -> bool:
        return True

    def on_event(self, event: ClusterEvent, old: Any, new: Any, now: float, *more: Any) -> Any:
        self.events.append((event.label, old, new))
        return self._queue.on_event(event, old, new, now, *more)


class Watched:
    """A watch over an empty cluster."""

    def __init__(self) -> None:
        self.metrics = scheduler_metrics.SchedulerMetrics()
        self.registry = class_registry.ClassRegistry(idle_classes=0, keep_deferred=True)
        self.cache = cluster_cache.ClusterCache(self.registry)
        self.pending = pending_pods.PendingPods(self.cache)
        self.deleted: list[str] = []
        self.bound: list[str] = []
        self.group_calls: list[tuple[Any, ...]] = []
        self.queue = RecordingQueue()
        queue: Any = self.queue
        names = ("member_placed", "member_removed", "set_group", "remove_group")
        groups: Any = SimpleNamespace(**{name: self._note(name) for name in names})
        self.watch = event_handlers.EventHandlers(
            self.cache,
            queue,
            self.pending,
            frozenset({PROFILE}),
            now=lambda: 0.0,
            execute=lambda _: None,
            deleted=self.deleted.append,
            bound=self.bound.append,
            observer=self.metrics,
            groups=groups,
        )

    def _note(self, name: str) -> Any:
        def note(*arguments: Any, **named: Any) -> tuple[()]:
            self.group_calls.append((name, *arguments[:-1], *named.values()))  # the last is the time
            return ()

        return note

    def show_pod(self, version: int, **status: Any) -> None:
        """The pending pod p is so."""
        metadata = {"namespace": "ns", "name": "p", "uid": "u", "resourceVersion": str(version)}
        raw = {"metadata": metadata, "spec": {"schedulerName": PROFILE, "containers": []}, "status": status}
        self.watch.pods.on_pods([Event(EventKind.MODIFIED, pod_projection.parse(raw))])

    def show(self, kind: str, change: EventKind = EventKind.MODIFIED, **fields: Any) -> None:
        """The object changed so."""
        message = decode.decode(fields, KINDS[kind].message)
        self.watch.objects.on_objects(KINDS[kind], [Event(change, message)])

    def take(self) -> list[tuple[str, Any, Any]]:
        """The events since the last time."""
        events, self.queue.events = self.queue.events, []
        return events
