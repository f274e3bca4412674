"""Heartbeats on a stream of results: a replica whose work waits for the rate limit or for a plugin is not gone.

Also change: protos/trireme/v1/bind_phase.proto (how often a call is heard of).

Tests: tests/unit/bind/test_waiting_for_rate_limit.py.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeVar

HEARTBEAT_SECONDS = 1.0

T = TypeVar("T")


async def with_heartbeats(batches: AsyncGenerator[Sequence[T], None]) -> AsyncGenerator[Sequence[T], None]:
    """Yield the batches as they come, and an empty one after each second without any, as a sign of life.

    Closes `batches` at the end. An error of `batches` is raised at its turn.
    """
    async with aclosing(batches):
        while True:
            batch = asyncio.ensure_future(anext(batches))
            try:
                while not (await asyncio.wait((batch,), timeout=HEARTBEAT_SECONDS))[0]:
                    yield ()
            finally:
                if not batch.done():
                    batch.cancel()
                    await asyncio.wait((batch,))
            try:
                results = batch.result()
            except StopAsyncIteration:
                return
            yield results
