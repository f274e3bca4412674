"""Bind behind calls of limited size: what is too large for one call is sent in several.

A batch shares calls, and its items may have large states: whole allocations of devices with their configurations. A
server refuses a message that is too large as it refuses a call when it is busy, so it would be repeated for ever. An
item that is too large for a call of its own gets an error.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any

from trireme.framework import status
from trireme.rpc import message_sizes
from trireme.scheduling import ports
from trireme.v1 import bind_pb2, status_pb2
from trireme.wire import status as wire_status


class DividedBinder:
    """A `ports.Binder` that divides calls whose messages are too large for gRPC, for another one to make the parts."""

    def __init__(self, binder: ports.Binder) -> None:
        self._binder = binder

    async def permit(self, request: bind_pb2.PermitRequest) -> bind_pb2.PermitResponse:
        """Call Permit, in concurrent parts if need be; an item that is too large for any call gets an error status.

        Raises: PhaseFault: bind failed, or answered about other pods than those of a part.
        """
        if request.ByteSize() <= message_sizes.CALL_BYTES:
            return await self._binder.permit(request)
        parts, too_large = _divide_by_size(item.ByteSize() for item in request.items)
        results = {index: bind_pb2.PermitResult(status=failure) for index, failure in too_large.items()}

        async def send_permit_part(part: Sequence[int]) -> None:
            response = await self._binder.permit(
                bind_pb2.PermitRequest(cycle=request.cycle, items=[request.items[index] for index in part])
            )
            if len(response.results) != len(part):
                raise ports.PhaseFault("bind answered about other pods than these")
            results.update(zip(part, response.results, strict=True))

        await asyncio.gather(*map(send_permit_part, parts))
        return bind_pb2.PermitResponse(results=[result for _, result in sorted(results.items())])

    async def pre_bind_pre_flight(
        self, items: Sequence[ports.PreBindItem], on_result: Callable[[int, status_pb2.Status], None]
    ) -> None:
        """Call PreBindPreFlight, in concurrent parts if need be; indexes in `on_result` are those of all items."""

        def send_pre_flight_part(part: Sequence[int]) -> Awaitable[None]:
            return self._binder.pre_bind_pre_flight([items[index] for index in part], _renumbered(part, on_result))

        await _send_in_parts(items, on_result, send_pre_flight_part)

    async def pre_bind(
        self,
        items: Sequence[ports.PreBindItem],
        on_result: Callable[[int, bind_pb2.PreBindResult], None],
        on_start: Callable[[int, str], None],
    ) -> None:
        """Call PreBind, in concurrent parts if need be; indexes in both callbacks are those of all items."""

        def send_pre_bind_part(part: Sequence[int]) -> Awaitable[None]:
            part_items = [items[index] for index in part]
            return self._binder.pre_bind(part_items, _renumbered(part, on_result), _renumbered(part, on_start))

        def on_too_large(index: int, failure: status_pb2.Status) -> None:
            on_result(index, bind_pb2.PreBindResult(status=failure))

        await _send_in_parts(items, on_too_large, send_pre_bind_part)

    async def bind(self, request: bind_pb2.BindRequest) -> AsyncIterator[bind_pb2.BindResult]:
        """Bind all items, one part after the other; yields each result once, by its index among all items.

        Parts at once would be more calls of a profile than `calls_to_bind.CallTurns` allows, and bring little: pods are
        hardly ever so large, and those of one part keep a replica busy.
        """
        if request.ByteSize() <= message_sizes.CALL_BYTES:
            async for result in self._binder.bind(request):
                yield result
            return
        parts, too_large = _divide_by_size(item.ByteSize() for item in request.items)
        for index, failure in too_large.items():
            yield bind_pb2.BindResult(index=index, status=failure)
        for part in parts:
            items = [request.items[index] for index in part]
            async for result in self._binder.bind(bind_pb2.BindRequest(cycle=request.cycle, items=items)):
                result.index = part[result.index]
                yield result

    async def post_bind(self, request: bind_pb2.PostBindRequest) -> None:
        """Notify the PostBind plugins, one part after the other; a part that fails does not keep the others back.

        Raises: PhaseFault: at the end, with all failures.
        """
        if request.ByteSize() <= message_sizes.CALL_BYTES:
            await self._binder.post_bind(request)
            return
        parts, too_large = _divide_by_size(item.ByteSize() for item in request.items)
        failures = [failure.messages[0] for failure in too_large.values()]
        for part in parts:
            items = [request.items[index] for index in part]
            try:
                await self._binder.post_bind(bind_pb2.PostBindRequest(cycle=request.cycle, items=items))
            except ports.PhaseFault as error:
                failures.append(str(error))
        if failures:
            raise ports.PhaseFault("; ".join(dict.fromkeys(failures)))

    async def apply(
        self,
        actions: Sequence[bind_pb2.Action],
        on_result: Callable[[int, bind_pb2.BindResult], None] | None = None,
        address: str = "",
    ) -> list[bind_pb2.BindResult]:
        """Execute all actions, one part after the other, as what concerns one pod has to be done in order.

        A replica orders only those that it gets itself, and another part may go to another one.
        """
        parts, too_large = _divide_by_size(action.ByteSize() for action in actions)
        results: dict[int, bind_pb2.BindResult] = {}
        for index, failure in too_large.items():
            results[index] = bind_pb2.BindResult(index=index, status=failure)
            if on_result is not None:
                on_result(index, results[index])
        for part in parts:
            found = await self._binder.apply(
                [actions[index] for index in part],
                None if on_result is None else _renumbered(part, on_result),
                address,
            )
            results.update(zip(part, found, strict=True))
        return [results[index] for index in range(len(actions))]


async def _send_in_parts(
    items: Sequence[ports.PreBindItem],
    on_too_large: Callable[[int, status_pb2.Status], None],
    send: Callable[[Sequence[int]], Awaitable[None]],
) -> None:
    """Send the items, by index, in calls that are under way at once; report those that are too large for a call."""
    parts, too_large = _divide_by_size(_sizes_of_items(items))
    for index, failure in too_large.items():
        on_too_large(index, failure)
    await asyncio.gather(*map(send, parts))


def _divide_by_size(sizes: Iterable[int]) -> tuple[list[Sequence[int]], dict[int, status_pb2.Status]]:
    """Divide items by their bytes: the indexes for each call, and an error for each that is too large for any."""
    fitting, too_large = [], {}
    known = list(sizes)
    for index, size in enumerate(known):
        if size <= message_sizes.MAX_ITEM_BYTES:
            fitting.append(index)
        else:
            text = f"a pod with {size} bytes of state is too large for a call to bind"
            too_large[index] = wire_status.to_message(status.error("", text))
    parts = message_sizes.divide(known[index] for index in fitting)
    return [[fitting[position] for position in part] for part in parts], too_large


def _sizes_of_items(items: Iterable[ports.PreBindItem]) -> Iterable[int]:
    """Yield the bytes that each item adds to a request: its cycle counts only if the item before has another one."""
    cycle = None
    for item in items:
        shared, cycle = item.cycle is cycle, item.cycle
        yield item.item.ByteSize() + (0 if shared else item.cycle.ByteSize())


def _renumbered(part: Sequence[int], report: Callable[[int, Any], None]) -> Callable[[int, Any], None]:
    """Wrap `report`, which takes indexes among all items, for a call that has only the items of `part`."""
    return lambda index, value: report(part[index], value)
