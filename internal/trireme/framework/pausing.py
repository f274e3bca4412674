"""Long computations that yield to the event loop.

A phase serves all calls on one event loop, and has one snapshot. A computation of seconds would block every other pod,
the deltas and the health checks, and a separate thread would read the snapshot while it changes. So such a computation
runs in a greenlet and calls `pause` wherever it can be interrupted. There, once its time slice is over, the event loop
runs. Between two slices the snapshot may change: after a pause, check that what was read is still valid. Cancelling the
call ends the computation.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import greenlet

SLICE_SECONDS: Final = 0.005

_Result = TypeVar("_Result")


class _PausableComputation(greenlet.greenlet):
    """A computation that can be interrupted."""

    ends = 0.0


def pause() -> None:
    """Yield to the event loop if the time slice is over. Call it as often as possible: it costs little."""
    current = greenlet.getcurrent()
    if isinstance(current, _PausableComputation) and time.monotonic() > current.ends and current.parent is not None:
        current.parent.switch()


async def run(compute: Callable[[], _Result]) -> _Result:
    """Run the computation and return its result; the event loop runs whenever it pauses, after each time slice.

    If the caller is cancelled, the computation ends where it paused.
    """
    computation = _PausableComputation(compute)
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
