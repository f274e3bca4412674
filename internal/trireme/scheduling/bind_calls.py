"""Calls to Bind that batches of one profile share, whatever their classes.

A call costs bind several times what a pod costs in it. Pods that are each a class of their own are bound in batches of
one, so batches that come to Bind at the same moment are sent together. No batch waits for another's results.

Tests: tests/unit/scheduling/test_bind_calls.py.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from trireme.scheduling import ports
from trireme.v1 import bind_pb2, cycle_pb2


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """One batch in a call, and its results as they come; the exception if the call fails."""

    request: bind_pb2.BindRequest
    results: asyncio.Queue[bind_pb2.BindResult | BaseException] = field(default_factory=asyncio.Queue)


class SharedBindCalls:
    """Binds batches by calls of Bind, which they share with those of their profile that come at the same moment."""

    def __init__(self, binder: ports.Binder, start: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        """`start` starts a task."""
        self._binder = binder
        self._start = start
        # By profile: the batches of the next call.
        self._next: dict[str, list[_Part]] = {}

    async def bind(self, request: bind_pb2.BindRequest) -> AsyncIterator[bind_pb2.BindResult]:
        """Bind the items; yields each result once, as it is known, and ends when every item has one.

        Raises: what the binder's `bind` raises.
        """
        part, profile = _Part(request), request.cycle.profile
        if profile in self._next:
            self._next[profile].append(part)
        else:
            self._next[profile] = [part]
            # The task begins when all that is ready now has run, so these batches take part in the call.
            self._start(self._call(profile))
        for _ in request.items:
            result = await part.results.get()
            if isinstance(result, BaseException):
                raise result
            yield result

    async def _call(self, profile: str) -> None:
        """Bind the batches that are waiting in one call, and pass each result to its batch."""
        parts = self._next.pop(profile)
        owners = [(part, index) for part in parts for index in range(len(part.request.items))]
        try:
            async for result in self._binder.bind(_joined([part.request for part in parts])):
                part, result.index = owners[result.index]
                part.results.put_nowait(result)
        except BaseException as error:
            for part in parts:
                part.results.put_nowait(error)
            raise


def _joined(requests: Sequence[bind_pb2.BindRequest]) -> bind_pb2.BindRequest:
    """The items of all requests, in order, in one request that names no class."""
    if len(requests) == 1:
        return requests[0]
    cycle = cycle_pb2.Cycle()
    cycle.CopyFrom(requests[0].cycle)
    cycle.pod_class = 0
    return bind_pb2.BindRequest(cycle=cycle, items=[item for request in requests for item in request.items])
