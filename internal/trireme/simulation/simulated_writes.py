"""What scheduling would write, kept in memory: each write succeeds, and comes back as an event, as from a watch.

So nothing leaves the process: there is no client here, and no connection.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from trireme.scheduling import ports
from trireme.v1 import bind_pb2, cycle_pb2, status_pb2
from trireme_kube.client.events import event_series

_SUCCESS = status_pb2.Status(code=status_pb2.CODE_SUCCESS)
_FAILED = "FailedScheduling"


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that leaves its node, and the pod (or group) that needs the room; none where the node is drained."""

    pod: cycle_pb2.PodIdentity
    node_name: str
    preemptor: cycle_pb2.PodIdentity | None = None


@dataclass(slots=True)
class Writes:
    """What was written so far."""

    #: Node by the pod's UID, in the order of binding.
    bound: dict[str, str] = field(default_factory=dict)
    evicted: list[Eviction] = field(default_factory=list)
    #: The message of the last failed attempt by the pod's UID.
    failures: dict[str, str] = field(default_factory=dict)


class SimulatedBinder(ports.Binder):
    """Binds and evicts at once: `on_bound` and `on_evicted` receive what a watch would show next."""

    def __init__(
        self,
        writes: Writes,
        on_bound: Callable[[Sequence[bind_pb2.BindItem]], None],
        on_evicted: Callable[[cycle_pb2.PodIdentity], None],
        on_deallocated: Callable[[bind_pb2.Action], None],
    ) -> None:
        self._writes = writes
        self._on_bound = on_bound
        self._on_evicted = on_evicted
        self._on_deallocated = on_deallocated

    async def permit(self, request: bind_pb2.PermitRequest) -> bind_pb2.PermitResponse:
        """Permit all; remote Permit plugins take no part."""
        return bind_pb2.PermitResponse(results=[bind_pb2.PermitResult(status=_SUCCESS) for _ in request.items])

    async def pre_bind_pre_flight(
        self, items: Sequence[ports.PreBindItem], on_result: Callable[[int, status_pb2.Status], None]
    ) -> None:
        """Say that there is nothing to prepare: what Reserve assumed stands for what PreBind would write."""
        for index in range(len(items)):
            on_result(index, status_pb2.Status(code=status_pb2.CODE_SKIP))

    async def pre_bind(
        self,
        items: Sequence[ports.PreBindItem],
        on_result: Callable[[int, bind_pb2.PreBindResult], None],
        on_start: Callable[[int, str], None],
    ) -> None:
        """Prepare nothing."""
        for index in range(len(items)):
            on_start(index, "")
            on_result(index, bind_pb2.PreBindResult(status=_SUCCESS))

    async def bind(self, request: bind_pb2.BindRequest) -> AsyncIterator[bind_pb2.BindResult]:
        """Bind all items."""
        for index, item in enumerate(request.items):
            self._writes.bound[item.pod.uid] = item.node_name
            self._writes.failures.pop(item.pod.uid, None)
            yield bind_pb2.BindResult(index=index, status=_SUCCESS)
        self._on_bound(request.items)

    async def post_bind(self, request: bind_pb2.PostBindRequest) -> None:
        """Notify nobody."""

    async def apply(
        self,
        actions: Sequence[bind_pb2.Action],
        on_result: Callable[[int, bind_pb2.BindResult], None] | None = None,
        address: str = "",
    ) -> list[bind_pb2.BindResult]:
        """Execute the actions: evict pods and release claims; conditions and nominations are not kept."""
        results = []
        for index, action in enumerate(actions):
            if action.HasField("evict"):
                evict = action.evict
                self._writes.evicted.append(Eviction(action.pod, evict.node_name, evict.preemptor))
                self._on_evicted(action.pod)
            elif action.HasField("deallocate"):
                self._on_deallocated(action)
            result = bind_pb2.BindResult(index=index, status=_SUCCESS)
            results.append(result)
            if on_result is not None:
                on_result(index, result)
        return results


class FailureEvents(ports.Events):
    """Keeps the message of each pod's last failed attempt, and no other event."""

    def __init__(self, writes: Writes) -> None:
        self._writes = writes

    def record(
        self,
        regarding: event_series.ObjectReference,
        event_type: str,
        reason: str,
        action: str,
        message: str,
        controller: str,
    ) -> None:
        """Keep the message if an attempt failed."""
        if reason == _FAILED:
            self._writes.failures[regarding.uid] = message

    def record_scheduled(self, pod: event_series.ObjectReference, node: str, controller: str) -> None:
        """The binding says it already."""
