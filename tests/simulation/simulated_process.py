"""A simulated process: a name, an address, clocks of its own, and all the tasks and callbacks that it started.

A process is recognised by its context: whatever runs in a copy of `Process.context` belongs to it, and everything that
it starts inherits that context. So the loop can hold back the callbacks of a process that is paused and drop those of
one that was killed, as SIGSTOP and SIGKILL do: neither runs a `finally`.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import enum
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

#: The process that runs, in a context; `current` and `of_context` ask it.
CURRENT: contextvars.ContextVar[Process | None] = contextvars.ContextVar("simulated process", default=None)

# The wall clock when a simulation begins: 2026-01-01T00:00:00Z.
WALL_START = 1_767_225_600.0

# A coroutine that is closed may wait in its `finally` blocks: how often it is closed again.
_CLOSES = 20
_FEW_TASKS = 100


class State(enum.Enum):
    """Whether a process runs."""

    RUNNING = "running"
    PAUSED = "paused"
    KILLED = "killed"


class Process:
    """One process on a machine of its own. Make it with `VirtualLoop.process`."""

    def __init__(self, name: str, host: str, now: float) -> None:
        """`now` is the simulation's time. `host` is the address that it listens on and connects from."""
        self.name = name
        self.host = host
        self.state = State.RUNNING
        self.held: list[Any] = []
        #: After how many more of its callbacks what is called; see `VirtualLoop.interrupt`.
        self.interruption: tuple[int, Callable[[], object]] | None = None
        self.signal_handlers: dict[int, Callable[[], object]] = {}
        self._tasks: list[weakref.ref[asyncio.Task[Any]]] = []
        self._tasks_to_keep = _FEW_TASKS  # before those that have ended are forgotten
        self.context = contextvars.Context()
        self.context.run(CURRENT.set, self)
        # Its monotonic clock: `_monotonic` at `_since` of the simulation, then `_rate` seconds a second.
        self._since = self._monotonic = now
        self._rate = 1.0
        #: How far its wall clock is ahead of the simulation's. Units: seconds.
        self.wall_ahead = 0.0

    def __repr__(self) -> str:
        return f"Process({self.name}, {self.state.value})"

    def monotonic(self, now: float) -> float:
        """Its monotonic clock at a time of the simulation."""
        return self._monotonic + (now - self._since) * self._rate

    def to_simulation(self, monotonic: float) -> float:
        """Convert a time of its monotonic clock to the simulation's."""
        return self._since + (monotonic - self._monotonic) / self._rate

    def wall(self, now: float) -> float:
        """Its wall clock at a time of the simulation. Units: Unix seconds."""
        return WALL_START + now + self.wall_ahead

    def set_rate(self, rate: float, now: float) -> None:
        """Let its monotonic clock run so many seconds a second from now on. Timers that are set already stay."""
        self._monotonic, self._since, self._rate = self.monotonic(now), now, rate

    def start(self, loop: asyncio.AbstractEventLoop, main: Callable[[], Coroutine[Any, Any, Any]]) -> asyncio.Task[Any]:
        """Run `main()` as this process."""
        return loop.create_task(self.context.run(main), name=self.name, context=self.context.copy())

    def add_task(self, task: asyncio.Task[Any]) -> None:
        """It is a task of this process."""
        if len(self._tasks) >= self._tasks_to_keep:
            self._tasks = [each for each in self._tasks if (known := each()) is not None and not known.done()]
            self._tasks_to_keep = 2 * len(self._tasks) + _FEW_TASKS
        self._tasks.append(weakref.ref(task))

    def kill(self) -> None:
        """End it at once, as SIGKILL does; the loop has cut its connections.

        Its coroutines would run their `finally` blocks when they are collected, at any time and as any process. Closed
        here, they run them as the process that is gone, for which nothing is sent, called or started any more.
        """
        self.state = State.KILLED
        self.interruption = None
        self.held.clear()
        self.signal_handlers.clear()
        tasks, self._tasks = self._tasks, []
        for known in tasks:
            if (task := known()) is not None and not task.done():
                task._log_destroy_pending = False
                asyncio.tasks._unregister_task(task)
                self.context.copy().run(_close, task.get_coro())

    def signal(self, number: int) -> None:
        """Deliver a signal that it handles."""
        if self.state is State.RUNNING and number in self.signal_handlers:
            self.context.copy().run(self.signal_handlers[number])


def current() -> Process | None:
    """The process that runs now; None outside of all."""
    return CURRENT.get()


def of_context(context: contextvars.Context) -> Process | None:
    """The process that a context belongs to."""
    return context.get(CURRENT)


def _close(coroutine: Any) -> None:
    """Run the `finally` blocks of a coroutine."""
    for _ in range(_CLOSES):
        with contextlib.suppress(BaseException):  # a TaskGroup makes a group of GeneratorExit
            coroutine.close()
            return
