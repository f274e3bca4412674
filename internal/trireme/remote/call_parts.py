"""One request to a remote plugin split over several calls, a few at a time.

Tests: tests/unit/remote/test_plugin_failures.py, tests/contract/test_plugin_client.py.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator

# Concurrent calls of one request.
CONCURRENT_CALLS = 8


class PluginFailed(Exception):
    """The plugin responded with an error; the text is its message."""


async def call_in_parts(parts: Iterator[tuple[slice, bytes]], call: Callable[[slice, bytes], Awaitable[None]]) -> None:
    """Run `call` for each part, a few at a time. Raises: the first failure; the other calls are cancelled."""
    first = next(parts, None)
    if first is None:
        return
    second = next(parts, None)
    if second is None:
        await call(*first)
        return
    remaining = itertools.chain((first, second), parts)

    async def call_remaining_parts() -> None:
        """Call for one part after the other, until none is left."""
        for part, selection in remaining:
            await call(part, selection)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(CONCURRENT_CALLS):
                group.create_task(call_remaining_parts())
    except ExceptionGroup as group_error:
        raise group_error.exceptions[0] from None
