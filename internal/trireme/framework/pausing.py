"""Long computations that let others work in between.

A phase answers all calls on one event loop, and has one snapshot: what computes for seconds would hold up every other
pod, the deltas and the health checks, and a thread of its own would read the snapshot while it is changed. So such a
computation runs in a greenlet: it says where it may be interrupted, and there, when its slice of time is over, the
loop goes on with what else there is. Between two slices the snapshot may move; whoever pauses asks afterwards whether
what it has read still holds. A call that is cancelled ends its computation.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import greenlet

SLICE_SECONDS: Final = 0.005

_Result = TypeVar("_Result")


class _Computation(greenlet.greenlet):
    """One that may be interrupted."""

    ends = 0.0


def pause() -> None:
    """Called in a computation where it may be interrupted, and as often as possible: it costs little."""
    current = greenlet.getcurrent()
    if isinstance(current, _Computation) and time.monotonic() > current.ends and current.parent is not None:
        current.parent.switch()


async def run(compute: Callable[[], _Result]) -> _Result:
    """What it computes; others work meanwhile where it pauses."""
    computation = _Computation(compute)
    try:
        computation.ends = time.monotonic() + SLICE_SECONDS
        result: Any = computation.switch()
        while not computation.dead:
            await asyncio.sleep(0)
            computation.ends = time.monotonic() + SLICE_SECONDS
            result = computation.switch()
    finally:
        if not computation.dead:
            computation.throw(greenlet.GreenletExit)
    finished: _Result = result
    return finished
