"""Long loops that let other tasks run: insight answers other calls, and follows its stream, while it simulates.

Tests: tests/unit/simulation/test_scenarios.py.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

Item = TypeVar("Item")

AT_ONCE = 100
"""So many items are worked on without a pause, which for what is done with them here takes tens of milliseconds."""


async def paced(items: Iterable[Item]) -> AsyncIterator[Item]:
    """The items; after each `AT_ONCE` of them other tasks run."""
    for number, item in enumerate(items, 1):
        yield item
        if number % AT_ONCE == 0:
            await asyncio.sleep(0)
