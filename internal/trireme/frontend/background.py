"""Work that goes on beside everything else: bindings, evictions, questions to remote plugins.

Such work reports to nobody by itself: were its failure to go unnoticed, the pods that it was about would be in flight
for ever, neither queued nor bound. What can go wrong is dealt with where it happens; so what arrives here is a fault of
ours, after which nobody knows any more where those pods stand. Then the frontend ends, as it does when its scheduling
loop fails, and who leads next reads it all anew.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, NoReturn


class Background:
    """The tasks of one object."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._error: BaseException | None = None
        self._failed = asyncio.Event()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Have this done beside what goes on."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def failure(self) -> NoReturn:
        """Raises what a task failed with; else does not return."""
        await self._failed.wait()
        assert self._error is not None
        raise self._error

    async def close(self) -> None:
        """Give up what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._error = error
            self._failed.set()


async def failure_of(each: Sequence[Background]) -> None:
    """Raises what a task of any of them failed with, in a group of one or more; else does not return."""
    async with asyncio.TaskGroup() as group:
        for background in each:
            group.create_task(background.failure())
