"""Waiting until the informers show what was written: by an earlier leader, or for a pod that is not bound after all.

What an earlier leader wrote last is waited for as long as it takes, with one exception. If the API server refuses for a
while to list claims or volumes, the new leader goes on with what was listed before, as kube-scheduler does: else no pod
would be scheduled, not even those that have neither. Pods are waited for: without them the room on nodes is not known,
and no new pod either.

Tests: tests/unit/frontend/test_catching_up.py, tests/unit/frontend/test_start_order.py.
"""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from trireme.frontend.phase_clients import failure_log
from trireme_kube.client.informers import informer, resources
from trireme_kube.client.rest import errors
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable

log = logging.getLogger(__name__)

# How long one attempt to catch up may take, and the delay after a failure.
CATCH_UP_SECONDS = 60.0
CATCH_UP_RETRY_SECONDS = 1.0
# An API server that has just started may refuse what it allows some seconds later, when it has read the roles.
REFUSED_SECONDS = 10.0


async def catch_up(entry: informer.Informer[Any], problems: MutableMapping[str, str]) -> None:
    """Return once the informer shows what was written up to now, or goes on without that.

    Meanwhile `problems` has the last error, by the collection's name; each new one is logged.
    """
    may_go_on = entry.resource is not resources.PODS
    what = "the writes of an earlier leader are not known yet"
    try:
        await _keep_trying(entry, what, entry.catch_up, problems, may_go_on=may_go_on)
    finally:
        problems.pop(entry.resource.name, None)


async def catch_up_with(entry: informer.Informer[Any], namespace: str, name: str) -> None:
    """Return once the informer shows the object as it is now; logs each new failure, and tries again."""
    what = f"what was written into {namespace}/{name} is not known yet"
    await _keep_trying(entry, what, functools.partial(entry.catch_up_with, namespace, name), {}, may_go_on=False)


async def _keep_trying(
    entry: informer.Informer[Any],
    what: str,
    attempt: Callable[[float], Awaitable[object]],
    problems: MutableMapping[str, str],
    *,
    may_go_on: bool,
) -> None:
    """Return once the attempt, which gets its deadline in seconds, succeeds; or is refused for long, if it may."""
    name, failures, loop = entry.resource.name, failure_log.FailureLog(log), asyncio.get_running_loop()
    refused_since: float | None = None
    while True:
        try:
            await attempt(CATCH_UP_SECONDS)
            return
        except (ApiError, ApiUnreachable, TimeoutError) as error:
            why = errors.with_advice(error) or f"not shown within {CATCH_UP_SECONDS:g} s"
            problems[name] = f"{what}: {why}"
            failures.log_failure(type(error).__name__, f"{name}: {what}: {why}")
            is_refused = isinstance(error, ApiError) and error.denied
        if not is_refused:
            refused_since = None
        elif refused_since is None:
            refused_since = loop.time()
        elif may_go_on and loop.time() - refused_since >= REFUSED_SECONDS:
            log.error(
                "%s: going on with what was listed before: devices and volumes that an earlier leader gave last may be "
                "given again: %s",
                name,
                why,
            )
            return
        await asyncio.sleep(CATCH_UP_RETRY_SECONDS)
