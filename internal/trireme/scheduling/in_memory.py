"""The scheduler's ports without anything behind them: effects that stay in this process, and nobody who measures.

Scheduling cannot tell the difference: each write succeeds, as the API server would answer it. What a binding or an
eviction changes is delivered by the caller as an event, as a watch would.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from trireme.framework import status
from trireme.queueing import pre_enqueue, queued_pod, remote_calls
from trireme.queueing.hints import queueing_hint_map
from trireme.scheduling import ports, queue_ports
from trireme.v1 import bind_pb2, status_pb2
from trireme.wire import status as wire_status
from trireme_kube.client.events import event_series

if TYPE_CHECKING:
    from trireme.scheduling.groups import placement_feasibility

_SUCCESS = wire_status.to_message(status.SUCCESS)
_SKIP = wire_status.to_message(status.Status(status.Code.SKIP))


def _ignore(_: object) -> None:
    """Do nothing."""


class Binder(ports.Binder):
    """Binds and evicts at once: two callbacks receive what a watch would show next."""

    def __init__(
        self,
        on_bound: Callable[[Sequence[bind_pb2.BindItem]], None] = _ignore,
        on_action: Callable[[bind_pb2.Action], None] = _ignore,
    ) -> None:
        """`on_bound` receives the pods of each call of Bind, `on_action` each eviction and other action."""
        self._on_bound = on_bound
        self._on_action = on_action

    async def permit(self, request: bind_pb2.PermitRequest) -> bind_pb2.PermitResponse:
        """Permit all pods."""
        return bind_pb2.PermitResponse(results=[bind_pb2.PermitResult(status=_SUCCESS) for _ in request.items])

    async def pre_bind_pre_flight(
        self, items: Sequence[ports.PreBindItem], on_result: Callable[[int, status_pb2.Status], None]
    ) -> None:
        """Nothing is to be prepared: what Reserve assumed stands for what PreBind would write."""
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
        """Bind all items."""
        self._on_bound(request.items)
        for index in range(len(request.items)):
            yield bind_pb2.BindResult(index=index, status=_SUCCESS)

    async def post_bind(self, request: bind_pb2.PostBindRequest) -> None:
        """No plugin is notified."""

    async def apply(
        self,
        actions: Sequence[bind_pb2.Action],
        on_result: Callable[[int, bind_pb2.BindResult], None] | None = None,
        address: str = "",
    ) -> list[bind_pb2.BindResult]:
        """Every action succeeds."""
        results = []
        for index, action in enumerate(actions):
            self._on_action(action)
            results.append(bind_pb2.BindResult(index=index, status=_SUCCESS))
            if on_result is not None:
                on_result(index, results[-1])
        return results


class Events(ports.Events):
    """Hands on why attempts failed, and drops all other events."""

    def __init__(self, on_failure: Callable[[str, str], None] = lambda uid, message: None) -> None:
        """`on_failure` receives the UID of each pod whose attempt failed, and the message."""
        self._on_failure = on_failure

    def record(
        self,
        regarding: event_series.ObjectReference,
        event_type: str,
        reason: str,
        action: str,
        message: str,
        controller: str,
    ) -> None:
        """Hand on the message if an attempt failed."""
        if reason == "FailedScheduling":
            self._on_failure(regarding.uid, message)

    def record_scheduled(self, pod: event_series.ObjectReference, node: str, controller: str) -> None:
        """The binding says it already."""


class BindingLog(ports.BindingLog):
    """Takes nothing down."""

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


class _Observer(ports.Observer):
    """Measures nothing: the methods of the protocol have no body."""

    @property
    def clock(self) -> Callable[[], float]:
        """A clock that stands still."""
        return _stopped_clock

    def with_timing_of_pre_enqueue(self, gate: pre_enqueue.PreEnqueue) -> pre_enqueue.PreEnqueue:
        """The same."""
        return gate

    def with_timing_of_hints(
        self, registrations: Sequence[queueing_hint_map.EventRegistration]
    ) -> Sequence[queueing_hint_map.EventRegistration]:
        """The same."""
        return registrations


def observer() -> ports.Observer:
    """An observer that measures nothing."""
    return _Observer()  # type: ignore[abstract]  # methods without a body count as abstract


def _stopped_clock() -> float:
    """A clock by which nothing takes time."""
    return 0.0


class QueueCaller(queue_ports.QueueCaller):
    """Calls no plugin."""

    def has_to_be_called(self, pod: queued_pod.QueuedPodInfo) -> bool:
        """No plugin takes part."""
        return False

    def placement_feasible_plugins(self, profile: str) -> "Mapping[str, placement_feasibility.RemotePlacementFeasible]":
        """No plugin takes part."""
        return {}

    def execute(self, instructions: remote_calls.Instructions) -> None:
        """There are none."""


def queue_plugins() -> queue_ports.QueuePlugins[QueueCaller]:
    """No remote plugin takes part in queueing."""
    return queue_ports.QueuePlugins(lambda reports: QueueCaller(), lambda profile: (), lambda profile: "")
