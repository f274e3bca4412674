"""Waiting until the informers show what was written: by an earlier leader, or for a pod that is not bound after all.

What was written last is waited for as long as it takes, with one exception. If the API server refuses for a while to
list or watch claims or volumes, and lets us read pods, the role lacks a line: the scheduler goes on with what was
listed before, as kube-scheduler does, and logs an error. Else no pod would be scheduled, not even those that have
neither. Pods are waited for: without them the room on nodes is not known, and no new pod either.

Tests: tests/unit/frontend/test_catching_up.py, tests/unit/frontend/test_start_order.py.
"""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from trireme_kube.client.informers import informer, resources
from trireme_kube.client.rest import errors
from trireme_kube.client.rest.errors import ApiError, ApiUnreachable
from trireme_kube.componentbase.logs import failure_log

log = logging.getLogger(__name__)

# How long one attempt to catch up may take, and the delay after a failure.
CATCH_UP_SECONDS = 60.0
CATCH_UP_RETRY_SECONDS = 1.0
# An API server that has just started may refuse what it allows some seconds later, when it has read the roles.
REFUSED_SECONDS = 10.0
# How often a failure that lasts is logged.
REPEAT_WARNING_SECONDS = 60.0
# How often a leader tries again what it went on without.
GIVEN_UP_SECONDS = 10.0

_UNKNOWN_WRITES = "the writes of an earlier leader are not known yet"


async def catch_up(
    entries: Iterable[informer.Informer[Any]], problems: MutableMapping[str, str], given_up: MutableMapping[str, str]
) -> None:
    """Return once the informers show what was written up to now, as far as we may read it.

    Meanwhile `problems` has the last errors, by the collection's name; each new one is logged. `given_up` gets the
    reasons of those that we go on without. None is given up before pods are shown: an API server that refuses all of
    them may have just started.
    """
    pods_shown = asyncio.Event()

    async def catch_up_one(entry: informer.Informer[Any]) -> None:
        name, is_pods = entry.resource.name, entry.resource is resources.PODS
        may_go_on = (lambda: False) if is_pods else pods_shown.is_set
        note = functools.partial(problems.__setitem__, name)
        try:
            refusal = await _keep_trying(entry, _UNKNOWN_WRITES, entry.catch_up, may_go_on, note)
        finally:
            problems.pop(name, None)
        if refusal:
            given_up[name] = refusal
        if is_pods:
            pods_shown.set()

    await asyncio.gather(*map(catch_up_one, entries))


async def keep_catching_up(entries: Iterable[informer.Informer[Any]], given_up: MutableMapping[str, str]) -> None:
    """Try again, until cancelled, what is in `given_up`; what is shown is taken from it."""
    while True:
        await asyncio.sleep(GIVEN_UP_SECONDS)
        for entry in entries:
            name = entry.resource.name
            if name not in given_up:
                continue
            try:
                await entry.catch_up(CATCH_UP_SECONDS)
            except (ApiError, ApiUnreachable, TimeoutError) as error:
                log.debug("%s: %s", name, error)
            else:
                del given_up[name]
                log.info("%s: what earlier leaders wrote is known by now", name)


async def catch_up_with(entry: informer.Informer[Any], namespace: str, name: str, pods: informer.Informer[Any]) -> None:
    """Return once the informer shows the object as it is now, or may not read it; logs failures, and tries again.

    Refusals count while `pods` are not refused as well.
    """

    def may_go_on() -> bool:
        return not pods.statistics().denied

    what = f"what was written into {namespace}/{name} is not known yet"
    await _keep_trying(entry, what, functools.partial(entry.catch_up_with, namespace, name), may_go_on)


def _ignore(_: str) -> None:
    """Do nothing: the log has the failure."""


async def _keep_trying(
    entry: informer.Informer[Any],
    what: str,
    attempt: Callable[[float], Awaitable[object]],
    may_go_on: Callable[[], bool],
    note: Callable[[str], None] = _ignore,
) -> str:
    """Return once the attempt, which gets its deadline in seconds, succeeds; or is refused for long, if it may.

    `note` gets each failure. Returns: why it was refused; empty: it was not. Only refusals while `may_go_on` count.
    """
    name, failures, loop = entry.resource.name, failure_log.FailureLog(log), asyncio.get_running_loop()
    refused_since: float | None = None
    logged = loop.time()
    while True:
        could_go_on = may_go_on()
        try:
            await attempt(CATCH_UP_SECONDS)
            return ""
        except (ApiError, ApiUnreachable, TimeoutError) as error:
            why = errors.with_advice(error) or f"not shown within {CATCH_UP_SECONDS:g} s"
            note(f"{what}: {why}")
            if loop.time() - logged >= REPEAT_WARNING_SECONDS:
                failures.clear()
                logged = loop.time()
            failures.log_failure(type(error).__name__, f"{name}: {what}: {why}; it is tried again")
            is_refused = could_go_on and isinstance(error, ApiError) and error.denied
        if not is_refused:
            refused_since = None
        elif refused_since is None:
            refused_since = loop.time()
        elif loop.time() - refused_since >= REFUSED_SECONDS:
            log.error(
                "%s: %s; going on with what was listed before: devices and volumes may be given a second time",
                name,
                why,
            )
            return why
        await asyncio.sleep(CATCH_UP_RETRY_SECONDS)
