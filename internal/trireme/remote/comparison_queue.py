"""Has classes compared with plugins in mode Shadow in the background, one after the other.

No call of the scheduler waits for it. A class that waits already is compared once; if too many wait, it is left out and
counted, so that a slow plugin costs memory for `MAX_WAITING` names and nothing else.

Tests: tests/unit/remote/test_comparison_queue.py, tests/contract/test_plugin_shadow.py.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)

MAX_WAITING = 32

#: Profile and number of a class.
ClassKey = tuple[str, int]


class ComparisonQueue:
    """The classes that wait to be compared, and the task that compares them."""

    def __init__(self, compare: Callable[[str, int], Awaitable[None]], skipped: Callable[[str], None]) -> None:
        """`compare` compares a class, and `skipped` gets the profile of one that is left out."""
        self._compare = compare
        self._skipped = skipped
        self._waiting: dict[ClassKey, None] = {}
        self._task: asyncio.Task[None] | None = None

    def request(self, profile: str, class_id: int) -> None:
        """Have the class compared soon."""
        key = profile, class_id
        if key not in self._waiting and len(self._waiting) >= MAX_WAITING:
            self._skipped(profile)
            return
        self._waiting[key] = None
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    def close(self) -> None:
        """Forget what waits, and end the comparison under way."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()

    async def wait_until_idle(self) -> None:
        """Return once nothing waits and no comparison is under way."""
        while self._task is not None:
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        """Compare what waits, until nothing does."""
        try:
            while self._waiting:
                key = next(iter(self._waiting))
                del self._waiting[key]
                try:
                    await self._compare(*key)
                except Exception as error:  # its answers do not count: nothing of it may end a process
                    text = "profile %s: comparing a plugin in shadow mode failed: %r; scheduling goes on without it"
                    log.warning(text, key[0], error)
        finally:
            self._task = None
