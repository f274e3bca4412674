"""Effects that write nothing: bindings and evictions become calls, everything else succeeds without a trace.

Scheduling cannot tell the difference: each write is answered as the API server would answer it. What a binding or an
eviction changes is delivered by the caller as an event, as a watch would.
"""

from collections.abc import AsyncIterator, Callable, Sequence

from trireme.framework import status
from trireme.queueing import queued_pod
from trireme.scheduling import ports
from trireme.v1 import bind_pb2, status_pb2
from trireme.wire import status as wire_status
from trireme_kube.client.events import event_series

_SUCCESS = wire_status.to_message(status.SUCCESS)
_SKIP = wire_status.to_message(status.Status(status.Code.SKIP))


class DiscardedWrites(ports.Binder):
    """A binder without an API server."""

    def __init__(self, bound: Callable[[str, str], None], evicted: Callable[[str], None]) -> None:
        """`bound` receives the UID of each bound pod and its node, `evicted` the UID of each victim."""
        self._bound = bound
        self._evicted = evicted

    async def permit(self, request: bind_pb2.PermitRequest) -> bind_pb2.PermitResponse:
        """Let every pod pass."""
        return bind_pb2.PermitResponse(results=[bind_pb2.PermitResult(status=_SUCCESS) for _ in request.items])

    async def pre_bind_pre_flight(
        self, items: Sequence[ports.PreBindItem], on_result: Callable[[int, status_pb2.Status], None]
    ) -> None:
        """Nothing is to be prepared: what PreBind writes is not written."""
        for index in range(len(items)):
            on_result(index, _SKIP)

    async def pre_bind(
        self,
        items: Sequence[ports.PreBindItem],
        on_result: Callable[[int, bind_pb2.PreBindResult], None],
        on_start: Callable[[int, str], None],
    ) -> None:
        """Succeed for each item, although none is sent: PreBindPreFlight found no work."""
        for index in range(len(items)):
            on_result(index, bind_pb2.PreBindResult(status=_SUCCESS))

    async def bind(self, request: bind_pb2.BindRequest) -> AsyncIterator[bind_pb2.BindResult]:
        """Report each binding to the caller."""
        for index, item in enumerate(request.items):
            self._bound(item.pod.uid, item.node_name)
            yield bind_pb2.BindResult(index=index, status=_SUCCESS)

    async def post_bind(self, request: bind_pb2.PostBindRequest) -> None:
        """No plugin is notified."""

    async def apply(
        self,
        actions: Sequence[bind_pb2.Action],
        on_result: Callable[[int, bind_pb2.BindResult], None] | None = None,
        address: str = "",
    ) -> list[bind_pb2.BindResult]:
        """Report each eviction to the caller; every action succeeds."""
        results = []
        for index, action in enumerate(actions):
            if action.HasField("evict"):
                self._evicted(action.pod.uid)
            results.append(bind_pb2.BindResult(index=index, status=_SUCCESS))
            if on_result is not None:
                on_result(index, results[-1])
        return results


class DiscardedEvents(ports.Events):
    """Events that nobody records."""

    def record(
        self,
        regarding: event_series.ObjectReference,
        event_type: str,
        reason: str,
        action: str,
        message: str,
        controller: str,
    ) -> None:
        """Do nothing."""

    def record_scheduled(self, pod: event_series.ObjectReference, node: str, controller: str) -> None:
        """Do nothing."""


class DiscardedBindings(ports.BindingLog):
    """Placements and durations of bindings that nobody records: nothing is bound."""

    def add_placed(self, class_key: ports.ClassKey, generation: int, pods: Sequence[tuple[str, int]]) -> None:
        """Do nothing."""

    def add_bound(
        self,
        pod: queued_pod.QueuedPodInfo,
        now: float,
        *,
        permit_seconds: float,
        pre_bind_seconds: float,
        bind_seconds: float,
    ) -> None:
        """Do nothing."""
