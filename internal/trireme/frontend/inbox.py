"""Dispatches the informers' events, in order: to the event handlers, and to callers that wait for a change."""

from collections.abc import Callable, Sequence
from typing import Any

from trireme.cache import object_kinds, object_waits
from trireme.frontend import namespace_deletion
from trireme.scheduling import event_handlers, pacing, pre_binding
from trireme_kube.client.informers.watch import EventKind


class Inbox:
    """Takes the informers' events: has the cache and queue updated, and wakes the tasks that wait for such a change."""

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
        """Have pod events handled, count arrivals for the pacer, and wake the scheduler and tasks that wait."""
        self._handlers.pods.on_pods(batch)
        self._record(batch, lambda pod: (pre_binding.POD, pod.namespace, pod.name))
        self._pacer.record_arrivals(
            sum(1 for event in batch if event.object is not None and not event.object.node_name)
        )
        self._wake()

    def on_nodes(self, batch: Sequence[Any]) -> None:
        """Have node events handled, and wake the scheduler and waits of pods on one of the nodes."""
        self._handlers.objects.on_nodes(batch)
        self._record(batch, lambda node: (pre_binding.NODE, "", node.metadata.name))
        self._wake()

    def on_objects(self, kind: object_kinds.ObjectKind, batch: Sequence[Any]) -> None:
        """Have events of other objects handled, and wake the scheduler and the tasks that wait for one of them."""
        if kind.field == "namespace":
            self._namespace.on_namespaces(batch)
        self._handlers.objects.on_objects(kind, batch)
        self._record(batch, lambda entry: (kind.field, entry.metadata.namespace, entry.metadata.name))
        self._wake()

    def _record(self, batch: Sequence[Any], key_of: Callable[[Any], object_waits.Key]) -> None:
        """Wake the callers that wait for one of these objects; all of them at the end of a list."""
        self._waits.record(key_of(event.object) for event in batch if event.object is not None)
        if any(event.kind is EventKind.LIST_END for event in batch):
            self._waits.record_all()
