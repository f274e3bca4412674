"""Waiting in a test for what other tasks and processes do."""

import asyncio
from collections.abc import Callable


async def until(holds: Callable[[], object], seconds: float = 60.0) -> None:
    """Return once it holds. Raises: TimeoutError."""
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.01)
