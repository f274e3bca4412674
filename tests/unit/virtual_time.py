"""A loop on which time passes only while everybody waits: tests of timers need no sleep and no luck."""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class _Selector(selectors.DefaultSelector):  # type: ignore[misc, valid-type]
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
