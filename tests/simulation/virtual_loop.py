"""The event loop of a simulation: time jumps to the next timer, and nothing outside of the simulation has an effect.

There is no selector, socket or thread: what is ready runs in the order in which it became so, and while nothing is,
the time goes on to the next timer. Connections go over a `simulated_network.Network`. Tasks and futures have hashes
that do not depend on their addresses, so a set of them has the same order in each run.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import heapq
import inspect
import itertools
import random
import socket
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from tests.simulation import simulated_network, simulated_process
from tests.simulation.simulated_process import Process, State

# More callbacks than this without any time passing are an endless loop.
MAX_CALLBACKS_AT_ONCE = 200_000
# The least time from setting a timer until it goes off. Units: seconds.
RESOLUTION = 1e-9


# Looked up often.
_CURRENT = simulated_process.CURRENT
_current = _CURRENT.get
_RUNNING, _PAUSED = State.RUNNING, State.PAUSED
_copy_context = contextvars.copy_context
_make: Any = object.__new__


class Deadlock(Exception):
    """Everything waits for something that nothing will do."""


class _Task(asyncio.Task[Any]):
    """A task that knows its process, and whose hash is its number."""

    def __init__(self, coro: Coroutine[Any, Any, Any], *, loop: VirtualLoop, **named: Any) -> None:
        self._number = next(loop.numbers)
        context = named.get("context")
        self.process = simulated_process.current() if context is None else simulated_process.of_context(context)
        super().__init__(coro, loop=loop, **named)
        if self.process is not None:
            self.process.add_task(self)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class _Future(asyncio.Future[Any]):
    """A future whose hash is a number that it gets when it is first read."""

    _number = 0

    def __hash__(self) -> int:
        if not self._number:
            self._number = next(self.get_loop().numbers)
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class _Handle:
    """What is needed of a handle. `VirtualLoop` fills it in, which is faster; a cancelled one has no callback."""

    __slots__ = ("_args", "_callback", "_context")
    _args: Any
    _callback: Any
    _context: contextvars.Context

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._callback!r}>"

    def cancel(self) -> None:
        """As every handle's."""
        self._callback = self._args = None

    def cancelled(self) -> bool:
        """As every handle's."""
        return self._callback is None


class _TimerHandle(_Handle):
    """Likewise. What is cancelled stays in the heap until its time, or until most of it is cancelled."""

    __slots__ = ("_loop", "_when")
    _loop: VirtualLoop | None  # None: it is no longer in the heap
    _when: float

    def when(self) -> float:
        """When it goes off: a time of the simulation."""
        return self._when

    def cancel(self) -> None:
        """As every handle's."""
        if self._callback is not None:
            self._callback = self._args = None
            if self._loop is not None:
                self._loop._on_timer_cancelled()


class VirtualLoop(asyncio.BaseEventLoop):
    """Starts at time 0. `seed` decides all that is left to chance, in the network and in code that uses `random`."""

    _ready: Any  # the base class's own, as all without a definition here
    _stopping: bool

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self._now = 0.0
        self._callbacks_at_once = 0
        self._timers: list[tuple[float, int, _TimerHandle]] = []  # a heap
        self._timer_numbers = itertools.count()
        self._cancelled_timers = 0
        self.numbers = itertools.count(1)
        self.random = random.Random(seed)
        self.network = simulated_network.Network(self)
        self.callbacks = 0
        self.set_task_factory(_make_task)

    # Time

    @property
    def now(self) -> float:
        """The simulation's time. Units: seconds since its start."""
        return self._now

    def time(self) -> float:
        """The monotonic clock of the current process."""
        process = _current()
        return self._now if process is None else process.monotonic(self._now)

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Any:
        """As every loop's."""
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Any:
        """As every loop's; `when` is a time of the current process's clock."""
        process = _current()
        moment = when if process is None else process.to_simulation(when)
        # Never at once: a clock that is short of a timer by a rounding error would set it again forever.
        return self.call_at_simulated(max(moment, self._now + RESOLUTION), callback, *args, context=context)

    def call_at_simulated(
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Any:
        """As `call_at`, at a time of the simulation."""
        handle = _make(_TimerHandle)
        handle._callback, handle._args, handle._when, handle._loop = callback, args, when, self
        handle._context = _copy_context() if context is None else context
        # Numbered, so that those of one moment go off in the order in which they were set.
        heapq.heappush(self._timers, (when, next(self._timer_numbers), handle))
        return handle

    def call_soon(self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None) -> Any:
        """As every loop's."""
        handle = _make(_Handle)
        handle._callback, handle._args = callback, args
        handle._context = _copy_context() if context is None else context
        self._ready.append(handle)
        return handle

    # Processes

    def process(self, name: str, host: str) -> Process:
        """A new process."""
        return Process(name, host, self._now)

    def pause(self, process: Process) -> None:
        """Stop it as SIGSTOP does; what happens meanwhile waits."""
        if process.state is State.RUNNING:
            process.state = State.PAUSED

    def resume(self, process: Process) -> None:
        """Continue a process that is paused."""
        if process.state is State.PAUSED:
            process.state = State.RUNNING
            self._ready.extend(process.held)
            process.held.clear()

    def interrupt(self, process: Process, callbacks: int, action: Callable[[], object]) -> None:
        """Call `action` as no process as soon as so many more callbacks of the process have run.

        So it comes between any two awaits of the process, also where no time passes between them. Replaces what was to
        be called before.
        """
        process.interruption = (callbacks, action)

    def kill(self, process: Process) -> None:
        """End it as SIGKILL does: its connections break, and nothing of it runs any more."""
        self.network.drop_process(process)
        process.kill()
        self._timers = [
            timer for timer in self._timers if simulated_process.of_context(timer[2]._context) is not process
        ]
        heapq.heapify(self._timers)

    # Running

    def _run_once(self) -> None:
        """Run what is ready, and let time pass, until the loop is to stop."""
        ready = self._ready
        while True:
            for _ in range(self._make_ready()):
                handle = ready.popleft()
                if handle._callback is None:
                    continue
                context = handle._context
                process = context.get(_CURRENT)
                if process is None or process.state is _RUNNING:
                    self.callbacks += 1
                    try:
                        context.run(handle._callback, *handle._args)
                    except BaseException as error:
                        self._on_exception(handle, error)
                    if process is not None and process.interruption is not None:
                        _count_down(process)
                elif process.state is _PAUSED:
                    process.held.append(handle)
            if self._stopping:
                return

    def _make_ready(self) -> int:
        """How many callbacks run next, of a later moment if there are none now."""
        if not self._ready and not self._stopping:
            self._pass_time()
        count = len(self._ready)
        self._callbacks_at_once += count
        if self._callbacks_at_once > MAX_CALLBACKS_AT_ONCE:
            self._callbacks_at_once = 0
            raise Deadlock(f"an endless loop: {self._ready[0]!r}")
        return count

    def _on_exception(self, handle: _Handle, error: BaseException) -> None:
        if isinstance(error, (SystemExit, KeyboardInterrupt)):
            raise error
        text = f"Exception in callback {handle!r}"
        self.call_exception_handler({"message": text, "exception": error, "handle": handle})

    def _pass_time(self) -> None:
        """Go on to the next timer, and make ready what is due then."""
        timers = self._timers
        while timers and timers[0][2]._callback is None:
            heapq.heappop(timers)
        if not timers:
            raise Deadlock("everything waits for something that nothing will do")
        now = timers[0][0]
        if now > self._now:
            self._now = now
            self._callbacks_at_once = 0
        while timers and timers[0][0] <= self._now:
            handle = heapq.heappop(timers)[2]
            handle._loop = None
            self._ready.append(handle)

    def _on_timer_cancelled(self) -> None:
        """Forget cancelled timers once they are most of all."""
        self._cancelled_timers += 1
        if self._cancelled_timers > max(len(self._timers) // 2, 100):
            self._cancelled_timers = 0
            self._timers = [timer for timer in self._timers if timer[2]._callback is not None]
            heapq.heapify(self._timers)

    def create_future(self) -> asyncio.Future[Any]:
        """As every loop's."""
        return _Future(loop=self)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """Run `func` at once: there are no threads."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def add_signal_handler(self, sig: int, callback: Callable[..., object], *args: Any) -> None:
        """Have `Process.signal` call it."""
        process = simulated_process.current()
        if process is not None:
            process.signal_handlers[sig] = lambda: callback(*args)

    def remove_signal_handler(self, sig: int) -> bool:
        """As every loop's."""
        process = simulated_process.current()
        return process is not None and process.signal_handlers.pop(sig, None) is not None

    # The network

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        """Addresses only: there is no DNS."""
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        """Connect over the network; `create_connection` then takes the connection by this socket."""
        self.network.reserve(sock, await self.network.connect(address[0], address[1]))

    async def create_connection(
        self,
        protocol_factory: Callable[[], Any],
        host: Any = None,
        port: Any = None,
        *,
        sock: socket.socket | None = None,
        ssl: Any = None,
        **_: Any,
    ) -> Any:
        """Connect over the network. There is no TLS."""
        if ssl:
            raise NotImplementedError("the simulated network has no TLS")
        endpoint = await self.network.connect(host, port) if sock is None else self.network.reserved(sock)
        return endpoint, endpoint.open(protocol_factory)

    async def create_server(
        self, protocol_factory: Callable[[], Any], host: Any = None, port: Any = None, **_: Any
    ) -> simulated_network.Server:
        """Listen on the network."""
        return self.network.listen(protocol_factory, host, port or 0)

    # What the base class expects of a loop with a selector

    def _process_events(self, event_list: Sequence[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nothing sleeps that it could wake."""


def _count_down(process: Process) -> None:
    """A callback of the process has run, which something is to interrupt."""
    assert process.interruption is not None
    left, action = process.interruption
    process.interruption = (left - 1, action) if left > 1 else None
    if left <= 1:
        action()


def _make_task(loop: Any, coro: Any, **named: Any) -> _Task:
    task = _Task(coro, loop=loop, **named)
    if task.process is not None and task.process.state is State.KILLED:
        task._log_destroy_pending = False
        coro.close()  # it will not run
    return task


def run(main: Callable[[VirtualLoop], Coroutine[Any, Any, Any]], seed: int = 0) -> Any:
    """Run `main(loop)` on a loop of its own; returns its result."""
    loop = VirtualLoop(seed)
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main(loop))


def in_simulation(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an asynchronous test on such a loop, which is its first argument."""

    @functools.wraps(test)
    def whole(**named: Any) -> None:
        run(lambda loop: test(loop, **named))

    # pytest takes the parameters from the signature: it knows no loop.
    signature = inspect.signature(test)
    whole.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])
    del whole.__wrapped__
    return whole
