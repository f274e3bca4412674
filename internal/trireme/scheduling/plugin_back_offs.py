"""Back-offs of calls to remote plugins about a pod that failed: PreEnqueue, and QueueSort.

Each doubles from call to call. It ends early once the plugin answers any other call after a failure, but lasts a second
at least. Where the plugin fails then as well, what it answers about others no longer counts.

Tests: tests/unit/scheduling/test_pre_enqueue_calls.py.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

# The back-off of one call: the first one, and what it doubles up to.
FIRST_BACKOFF_SECONDS = 1.0
MAX_BACKOFF_SECONDS = 10.0


class FailedCall(NamedTuple):
    """The last call about a pod failed. It is repeated at `until` at the latest, by the queue's clock."""

    plugin: str
    error: str
    until: float


class PluginBackOffs:
    """The back-offs of pods, by the plugin that failed."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` is the queue's clock."""
        self.now = now
        # For each plugin that calls wait for: set when it answers.
        self._recoveries: dict[str, asyncio.Event] = {}
        # Set when the plugins change, and another one then.
        self._changed = asyncio.Event()

    async def wait(self, plugin: str, seconds: float, *, whatever_others: bool) -> bool:
        """Wait for the back-off; at least a second if the plugin recovers.

        With `whatever_others` only a change of the plugins ends it. Returns whether the next one is to be so.
        """
        recovery = self._changed if whatever_others else self._recoveries.setdefault(plugin, asyncio.Event())
        least = min(seconds, FIRST_BACKOFF_SECONDS)
        await asyncio.sleep(least)
        try:
            async with asyncio.timeout(seconds - least):
                await recovery.wait()
        except TimeoutError:
            return whatever_others
        return not whatever_others

    def end(self, plugin: str) -> None:
        """The plugin answered: wake the calls that wait for that."""
        recovery = self._recoveries.pop(plugin, None)
        if recovery is not None:
            recovery.set()

    def end_all(self) -> None:
        """Wake all calls: the plugins changed."""
        self._changed.set()
        self._changed = asyncio.Event()
        for name in list(self._recoveries):
            self.end(name)
