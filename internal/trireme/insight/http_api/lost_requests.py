"""Ends what is done for a request once its caller has closed the connection: aiohttp goes on with it by itself.

Tests: tests/unit/insight/http_api/test_recorded_moments.py.
"""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from aiohttp import web

T = TypeVar("T")

# How often it is looked whether the caller is there.
_LOOK_SECONDS = 0.5


class RequestLostError(Exception):
    """Nobody waits for the answer any more."""


async def unless_lost(request: web.Request, work: Awaitable[T]) -> T:
    """What the work returns; it is cancelled with the caller's connection. Raises: RequestLostError."""
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=_LOOK_SECONDS)
            transport = request.transport
            if not task.done() and (transport is None or transport.is_closing()):
                raise RequestLostError
    finally:
        if task.cancel():
            # Until it has let go of its places and turns.
            await asyncio.wait({task})
    return await task
