"""Loops on which time passes only while everybody waits, or as a test says: timers tested without sleep or luck."""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class _Selector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.skip: Callable[[float], None] = lambda seconds: None

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            raise AssertionError("everything waits for something that nobody will do")
        if timeout > 0:
            self.skip(timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Starts at time 1000."""

    def __init__(self) -> None:
        selector = _Selector()
        super().__init__(selector)
        self._now = 1000.0
        selector.skip = self._skip

    def time(self) -> float:
        """The virtual time, in seconds."""
        return self._now

    def _skip(self, seconds: float) -> None:
        self._now += seconds


def run(main: Callable[[Callable[[], float]], Coroutine[Any, Any, T]]) -> T:
    """Runs `main(clock)` on a loop of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main(runner.get_loop().time))


def on_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Runs an asynchronous test on such a loop."""

    @functools.wraps(test)
    def whole(*args: P.args, **kwargs: P.kwargs) -> None:
        run(lambda clock: test(*args, **kwargs))

    return whole


class Clock:
    """A clock that a test sets."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class StillLoop(asyncio.SelectorEventLoop):
    """An event loop whose time only a test moves."""

    _scheduled: list[asyncio.TimerHandle]  # the base class's own

    def __init__(self) -> None:
        self.seconds = 0.0
        super().__init__()

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self.seconds

    def settle(self, turns: int = 30) -> None:
        """Run what can run now."""
        self.run_until_complete(_turns(turns))

    def advance(self, seconds: float) -> None:
        """Let time go by, and what waits for it run when its time comes."""
        end = self.seconds + seconds
        while True:
            due = [timer.when() for timer in self._scheduled if not timer.cancelled() and timer.when() <= end]
            if not due:
                break
            self.seconds = max(self.seconds, min(due))
            self.settle()
        self.seconds = end
        self.settle()


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)
