"""Waiting until the informers show what was written: by an earlier leader, or for a pod that is not bound after all.

Tests: tests/unit/frontend/test_catching_up.py, tests/unit/frontend/test_start_order.py.
"""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from trireme_kube.client.informers import informer
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable

log = logging.getLogger(__name__)

# How long one attempt to catch up may take, and the delay after a failure.
CATCH_UP_SECONDS = 60.0
CATCH_UP_RETRY_SECONDS = 1.0


async def catch_up(entry: informer.Informer[Any]) -> None:
    """Return once the informer shows what was written up to now; logs each failure, and tries again."""
    await _keep_trying(entry, "the writes of an earlier leader are not known yet", entry.catch_up)


async def catch_up_with(entry: informer.Informer[Any], namespace: str, name: str) -> None:
    """Return once the informer shows the object as it is now; logs each failure, and tries again."""
    what = f"what was written into {namespace}/{name} is not known yet"
    await _keep_trying(entry, what, functools.partial(entry.catch_up_with, namespace, name))


async def _keep_trying(entry: informer.Informer[Any], what: str, attempt: Callable[[float], Awaitable[object]]) -> None:
    """Return once the attempt, which gets its deadline in seconds, succeeds."""
    while True:
        try:
            await attempt(CATCH_UP_SECONDS)
            return
        except (ApiError, ApiUnreachable, TimeoutError) as error:
            why = str(error) or f"not shown within {CATCH_UP_SECONDS:g} s"
            log.warning("%s: %s: %s", entry.resource.name, what, why)
        await asyncio.sleep(CATCH_UP_RETRY_SECONDS)
