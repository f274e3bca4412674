"""Calls to bind that are too large for one message: each is divided, and the results are put together.

A batch shares calls, and its items may have large states: whole allocations of devices with their configurations. A
server refuses a message that is too large as it refuses a call when it is busy, so it would be repeated without end. An
item that is too large for a call of its own gets an error.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

from trireme.framework import status
from trireme.rpc import message_sizes
from trireme.scheduling import ports
from trireme.v1 import bind_pb2, status_pb2
from trireme.wire import status as wire_status

# Sends the items or actions with these indexes in one call.
SendPart = Callable[[Sequence[int]], Awaitable[None]]


async def permit(
    call: Callable[[bind_pb2.PermitRequest], Awaitable[bind_pb2.PermitResponse]], request: bind_pb2.PermitRequest
) -> bind_pb2.PermitResponse:
    """Call Permit in concurrent parts, each by `call`; an item that is too large for any call gets an error status.

    Raises: PhaseFault: bind failed, or answered about other pods than those of a part.
    """
    parts, too_large = _divide_by_size(item.ByteSize() for item in request.items)
    results = {index: bind_pb2.PermitResult(status=failure) for index, failure in too_large.items()}

    async def send_part(part: Sequence[int]) -> None:
        response = await call(
            bind_pb2.PermitRequest(cycle=request.cycle, items=[request.items[index] for index in part])
        )
        if len(response.results) != len(part):
            raise ports.PhaseFault(ports.OTHER_PODS)
        results.update(zip(part, response.results, strict=True))

    await asyncio.gather(*map(send_part, parts))
    return bind_pb2.PermitResponse(results=[result for _, result in sorted(results.items())])


async def bind(
    call: Callable[[bind_pb2.BindRequest], AsyncIterator[bind_pb2.BindResult]], request: bind_pb2.BindRequest
) -> AsyncIterator[bind_pb2.BindResult]:
    """Bind all items, one part after the other by `call`; yields each result once, by its index among all items.

    Parts at once would be more calls of a profile than `bind_limits.CallTurns` allows, and bring little: pods are
    hardly ever so large, and those of one part keep a replica busy.
    """
    parts, too_large = _divide_by_size(item.ByteSize() for item in request.items)
    for index, failure in too_large.items():
        yield bind_pb2.BindResult(index=index, status=failure)
    for part in parts:
        items = [request.items[index] for index in part]
        async for result in call(bind_pb2.BindRequest(cycle=request.cycle, items=items)):
            result.index = part[result.index]
            yield result


async def post_bind(
    call: Callable[[bind_pb2.PostBindRequest], Awaitable[None]], request: bind_pb2.PostBindRequest
) -> None:
    """Notify the PostBind plugins, one part after the other by `call`, whatever becomes of the parts before.

    Raises: PhaseFault: at the end, with all failures.
    """
    parts, too_large = _divide_by_size(item.ByteSize() for item in request.items)
    failures = [failure.messages[0] for failure in too_large.values()]
    for part in parts:
        items = [request.items[index] for index in part]
        try:
            await call(bind_pb2.PostBindRequest(cycle=request.cycle, items=items))
        except ports.PhaseFault as error:
            failures.append(str(error))
    if failures:
        raise ports.PhaseFault("; ".join(dict.fromkeys(failures)))


async def send_items(
    items: Sequence[ports.PreBindItem], on_too_large: Callable[[int, status_pb2.Status], None], send: SendPart
) -> None:
    """Send the items in calls that are under way at once; report those that are too large for a call."""
    parts, too_large = _divide_by_size(_sizes_of_items(items))
    for index, failure in too_large.items():
        on_too_large(index, failure)
    await asyncio.gather(*map(send, parts))


async def send_actions(
    actions: Sequence[bind_pb2.Action], on_too_large: Callable[[int, status_pb2.Status], None], send: SendPart
) -> None:
    """Send the actions, one part after the other, as what concerns one pod has to be done in order.

    A replica orders only those that it gets itself, and another part may go to another one.
    """
    parts, too_large = _divide_by_size(action.ByteSize() for action in actions)
    for index, failure in too_large.items():
        on_too_large(index, failure)
    for part in parts:
        await send(part)


def _divide_by_size(sizes: Iterable[int]) -> tuple[list[Sequence[int]], dict[int, status_pb2.Status]]:
    """Divide items by their bytes: the indexes for each call, and an error for each that is too large for any."""
    fitting, too_large = [], {}
    known = list(sizes)
    for index, size in enumerate(known):
        if size <= message_sizes.MAX_ITEM_BYTES:
            fitting.append(index)
        else:
            text = f"a pod with {size} bytes of state is too large for a call to bind"
            reasons = (status.Reason.of("podTooLarge", {"bytes": size}),)
            too_large[index] = wire_status.to_message(status.error("", text, reasons=reasons))
    parts = message_sizes.divide(known[index] for index in fitting)
    return [[fitting[position] for position in part] for part in parts], too_large


def _sizes_of_items(items: Iterable[ports.PreBindItem]) -> Iterable[int]:
    """Yield the bytes that each item adds to a request: its cycle counts only if the item before has another one."""
    cycle = None
    for item in items:
        shared, cycle = item.cycle is cycle, item.cycle
        yield item.item.ByteSize() + (0 if shared else item.cycle.ByteSize())
