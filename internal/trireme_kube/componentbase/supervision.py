"""Supervision of asyncio tasks: a task that ends unexpectedly ends the process.

asyncio lets tasks end in silence in three ways: a task that returns counts as done; a task in which a CancelledError is
raised counts as cancelled, no matter where from (grpc.aio does when a channel closes); and the exception of a task that
nobody awaits is logged when the task is collected, which may be never. A loop of the scheduler that ends like that
leaves a process that looks healthy and does nothing.

So every task that has to run as long as its process is started by one of these:

- `supervise` wraps the coroutine of a task that is awaited, such as a member of a TaskGroup.
- `Supervisor` starts tasks that nobody awaits. Its owner passes it to the code that ends the process (`failure_of`).

Both turn every end but a cancellation by the owner into a TaskEnded, which names the task.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, NoReturn, TypeAlias

#: Implementers: trireme.frontend.leadership_runner, trireme.shadow.shadow_run.
Work: TypeAlias = Callable[[], Coroutine[Any, Any, object]]
"""Makes the coroutine to run. A coroutine itself would be left over by a task that is cancelled before it begins."""


class TaskEnded(Exception):
    """A task ended though nobody stopped it. The text names the task and how it ended."""

    def __init__(self, name: str, how: str) -> None:
        super().__init__(f"task {name!r} ended: {how}")
        self.name = name
        self.how = how


def is_being_cancelled() -> bool:
    """Whether the current task was cancelled. False while a CancelledError of an awaited operation is handled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def supervise(name: str, work: Work) -> NoReturn:
    """Run work that must not end before the current task is cancelled.

    Raises: TaskEnded when it returns, fails, or is cancelled from within.
    """
    try:
        await work()
    except asyncio.CancelledError as error:
        if is_being_cancelled():
            raise
        raise TaskEnded(name, "something that it awaited was cancelled") from error
    except TaskEnded:
        raise
    except Exception as error:
        raise _task_ended(name, error) from error
    raise TaskEnded(name, "it returned")


class Supervisor:
    """The tasks of one object. `failure` raises TaskEnded for the first task that ends unexpectedly."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping: set[asyncio.Task[None]] = set()
        self._error: TaskEnded | None = None
        self._failed = asyncio.Event()

    @property
    def running(self) -> int:
        """How many tasks have not ended."""
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start work that ends by itself; raising or being cancelled is a failure."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._note_failure_of_task)

    def keep(self, name: str, work: Work) -> asyncio.Task[None]:
        """Start work that goes on until the task is passed to `stop`; any other end is a failure."""
        task: asyncio.Task[None] = asyncio.create_task(supervise(name, work), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._note_failure_of_task)
        return task

    async def stop(self, task: asyncio.Task[None]) -> None:
        """Cancel a task and return once it has ended."""
        self._stopping.add(task)
        task.cancel()
        try:
            await asyncio.wait({task})
        finally:
            self._stopping.discard(task)

    async def failure(self) -> NoReturn:
        """Raise the error of the first failed task; else do not return."""
        await self._failed.wait()
        assert self._error is not None
        raise self._error

    async def close(self) -> None:
        """Cancel all tasks and return once they have ended."""
        tasks = list(self._tasks)
        self._stopping.update(tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._stopping.difference_update(tasks)

    def _note_failure_of_task(self, task: asyncio.Task[None]) -> None:
        """Note the first failure of a task; one that its owner stopped is none."""
        self._tasks.discard(task)
        error: TaskEnded | None = None
        if task.cancelled():
            if task not in self._stopping:
                error = TaskEnded(_task_name(task), "it was cancelled, but not by its owner")
        elif (cause := task.exception()) is not None:
            error = _task_ended(_task_name(task), cause)
        if error is not None and self._error is None:
            self._error = error
            self._failed.set()


async def failure_of(each: Sequence[Supervisor]) -> NoReturn:
    """Raise the errors of failed tasks, in a group of one or more; else do not return."""
    async with asyncio.TaskGroup() as group:
        for supervisor in each:
            group.create_task(supervisor.failure())
    raise AssertionError("a TaskGroup with a failed member raises")


def ended_tasks(error: BaseException) -> Iterator[TaskEnded]:
    """The tasks that ended first, in an error that passed through tasks and groups around them."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from ended_tasks(each)
    elif isinstance(error, TaskEnded):
        inner = [] if error.__cause__ is None else list(ended_tasks(error.__cause__))
        yield from inner or [error]


def _task_ended(name: str, cause: BaseException) -> TaskEnded:
    """Return the error of a task that failed; a TaskEnded within stays the innermost one."""
    if isinstance(cause, TaskEnded):
        return cause
    error = TaskEnded(name, f"{type(cause).__name__}: {cause}")
    error.__cause__ = cause
    return error


def _task_name(task: asyncio.Task[None]) -> str:
    coroutine = task.get_coro()
    return getattr(coroutine, "__qualname__", task.get_name())
