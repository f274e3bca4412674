"""TracedBinder: the calls of another binder as spans of pods' traces.

Tests: tests/contract/test_trace_propagation.py.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence

from trireme.frontend.tracing import pod_traces
from trireme.scheduling import ports
from trireme.v1 import bind_pb2, status_pb2


class TracedBinder(ports.Binder):
    """Calls the binder; what is done for pods that are being tried is a span named after the extension point."""

    def __init__(self, binder: ports.Binder, traces: pod_traces.PodTraces) -> None:
        self._binder = binder
        self._traces = traces

    async def permit(self, request: bind_pb2.PermitRequest) -> bind_pb2.PermitResponse:
        """As the binder. Raises: PhaseFault."""
        with self._traces.call_about("Permit", _Placements(request.items)):
            return await self._binder.permit(request)

    async def pre_bind_pre_flight(
        self, items: Sequence[ports.PreBindItem], on_result: Callable[[int, status_pb2.Status], None]
    ) -> None:
        """As the binder."""
        with self._traces.call_about("PreBindPreFlight", _Placements([each.item for each in items])):
            await self._binder.pre_bind_pre_flight(items, on_result)

    async def pre_bind(
        self,
        items: Sequence[ports.PreBindItem],
        on_result: Callable[[int, bind_pb2.PreBindResult], None],
        on_start: Callable[[int, str], None],
    ) -> None:
        """As the binder."""
        with self._traces.call_about("PreBind", _Placements([each.item for each in items])):
            await self._binder.pre_bind(items, on_result, on_start)

    def bind(self, request: bind_pb2.BindRequest) -> AsyncIterator[bind_pb2.BindResult]:
        """As the binder."""
        return self._traces.stream_about("Bind", _Placements(request.items), self._binder.bind(request))

    async def post_bind(self, request: bind_pb2.PostBindRequest) -> None:
        """As the binder, outside of traces: the pods are bound. Raises: PhaseFault."""
        await self._binder.post_bind(request)

    async def apply(
        self,
        actions: Sequence[bind_pb2.Action],
        on_result: Callable[[int, bind_pb2.BindResult], None] | None = None,
        address: str = "",
    ) -> list[bind_pb2.BindResult]:
        """As the binder, outside of traces."""
        return await self._binder.apply(actions, on_result, address)


class _Placements:
    """The pods of a request by UID, each with its node; they can be read more than once."""

    __slots__ = ("_items",)

    def __init__(self, items: Iterable[bind_pb2.BindItem]) -> None:
        self._items = items

    def __iter__(self) -> Iterator[tuple[str, str]]:
        for item in self._items:
            yield item.pod.uid, item.node_name
