"""Dispatches the informers' events, in order: to the event handlers, and to callers that wait for a change."""

from collections.abc import Callable, Sequence
from typing import Any

from trireme.cache import cluster_cache, object_kinds, object_waits
from trireme.framework import status
from trireme.frontend import namespace_deletion
from trireme.scheduling import (
    attempt_reporter,
    event_handlers,
    pacing,
    pods_in_pre_bind,
    pre_binding,
    preemption_executor,
    waiting_pods,
)


class Inbox:
    """Takes the informers' events: has the cache and queue updated, and wakes whoever waits for such a change."""

    def __init__(
        self,
        handlers: event_handlers.EventHandlers,
        pacer: pacing.Pacer,
        waits: object_waits.ObjectWaits,
        namespace: namespace_deletion.NamespaceDeletionWatch,
        wake: Callable[[], None],
    ) -> None:
        """`waits` has the callers that wait for a change of an object.

        `wake` has the scheduler check again whether a batch is possible.
        """
        self._handlers = handlers
        self._pacer = pacer
        self._waits = waits
        self._namespace = namespace
        self._wake = wake

    def on_pods(self, batch: Sequence[Any]) -> None:
        """Have pod events handled, count arrivals for the pacer, and wake the scheduler and whoever waits for one."""
        self._handlers.on_pods(batch)
        changed = (event.object for event in batch if event.object is not None)
        self._waits.record((pre_binding.POD, pod.namespace, pod.name) for pod in changed)
        self._pacer.record_arrivals(
            sum(1 for event in batch if event.object is not None and not event.object.node_name)
        )
        self._wake()

    def on_nodes(self, batch: Sequence[Any]) -> None:
        """Have node events handled, and wake the scheduler."""
        self._handlers.on_nodes(batch)
        self._wake()

    def on_objects(self, kind: object_kinds.ObjectKind, batch: Sequence[Any]) -> None:
        """Have events of other objects handled, and wake the scheduler and whoever waits for one of them."""
        if kind.field == "namespace":
            self._namespace.on_namespaces(batch)
        self._handlers.on_objects(kind, batch)
        changed = (event.object.metadata for event in batch if event.object is not None)
        self._waits.record((kind.field, metadata.namespace, metadata.name) for metadata in changed)
        self._wake()


class NoLongerPendingHandlers:
    """What is called when a pod is pending no more: has all that keep state about pending pods forget it.

    It stores nothing itself: `on_deleted` also ends a wait on Permit and PreBind, and wakes whoever waits for the pod.
    `on_bound` does not.
    """

    def __init__(
        self,
        cache: cluster_cache.ClusterCache,
        reporter: attempt_reporter.AttemptReporter,
        waiting: waiting_pods.WaitingPods,
        preemptions: preemption_executor.PreemptionExecutor,
        in_pre_bind: pods_in_pre_bind.PodsInPreBind,
        waits: object_waits.ObjectWaits,
    ) -> None:
        self._cache = cache
        self._reporter = reporter
        self._waiting = waiting
        self._preemptions = preemptions
        self._in_pre_bind = in_pre_bind
        self._waits = waits

    def on_deleted(self, uid: str) -> None:
        """The pod with this UID has been deleted."""
        self._reporter.forget(uid)
        self._waiting.reject(uid, "", "removed")
        self._in_pre_bind.cancel(uid, status.unschedulable("", "removed"))
        self._preemptions.forget(uid)
        placed = self._cache.pod(uid)
        if placed is not None:
            namespace, _, name = placed.key.partition("/")
            self._waits.record([(pre_binding.POD, namespace, name)])

    def on_bound(self, uid: str) -> None:
        """The pod with this UID has a node, whether this scheduler bound it or somebody else."""
        self._reporter.forget(uid)
        self._preemptions.forget(uid)
