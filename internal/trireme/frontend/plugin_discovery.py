"""Follows the Services behind which remote plugins run: the phases get the addresses of their ready endpoints.

Phases cannot do that themselves, because they have no access to the API server. Addresses are part of the configuration
that phases receive, so a change costs what another description of a plugin costs: streams begin anew, and classes are
evaluated again. Changes within a moment, as in a rollout, are therefore passed on together; and if endpoints come and
go all the time, as with a readiness probe that flaps, less and less often: else scheduling would never continue.
"""

import asyncio
import contextlib
import functools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from trireme.config import addresses, commandline, trireme_configuration
from trireme.frontend.phase_clients import endpoints
from trireme_kube.client.rest import client
from trireme_kube.componentbase import supervision

log = logging.getLogger(__name__)

# How long a start, or a reload, waits for the endpoints of a Service that it is the first to name.
LIST_SECONDS = 3.0
# How long changes are collected before they are passed on.
SETTLE_SECONDS = 1.0
# Twice as long after each change that follows another one within a minute, up to this, unless nothing that is called is
# ready any more and something else is.
MAX_SETTLE_SECONDS = 30.0
STEADY_SECONDS = 60.0


class PluginDiscovery:
    """Watches the EndpointSlices of the Services that remote plugins have as their address."""

    def __init__(self, api: client.ApiClient, discovered: addresses.DiscoveredEndpoints) -> None:
        self._api = api
        self._discovered = discovered
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._listed: set[str] = set()
        self._progress = asyncio.Event()  # set when one more has been listed
        self._changed = asyncio.Event()
        # What was passed on last, by Service.
        self._in_use: dict[str, Sequence[str]] = {}
        self._failure: BaseException | None = None  # of a watch that ended though nobody stopped it

    async def follow(self, config: trireme_configuration.TriremeConfiguration) -> None:
        """Watch the configuration's Services too, and return once they have been listed, or after a few seconds."""
        services = _services_of(config)
        for service in services - self._watches.keys():
            self._watches[service] = self._watch(service)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LIST_SECONDS):
                while not services <= self._listed:
                    self._progress.clear()
                    await self._progress.wait()

    def follow_only(self, config: trireme_configuration.TriremeConfiguration) -> None:
        """Stop watching the Services that this configuration does not name."""
        for service in self._watches.keys() - _services_of(config):
            self._watches.pop(service).cancel()
            self._listed.discard(service)
            self._discovered.forget(service)

    async def run(self, apply: Callable[[], Awaitable[None]]) -> None:
        """Call `apply` after each change of endpoints, until cancelled.

        Raises: TaskEnded: a Service is not watched any more.
        """
        now = asyncio.get_running_loop().time
        seconds, passed_on_at = SETTLE_SECONDS, -STEADY_SECONDS
        while True:
            await self._changed.wait()
            if self._failure is not None:
                raise self._failure
            is_steady = now() - passed_on_at >= STEADY_SECONDS
            seconds = SETTLE_SECONDS if is_steady else min(seconds * 2, MAX_SETTLE_SECONDS)
            end = now() + seconds
            await asyncio.sleep(SETTLE_SECONDS)
            while now() < end and not self._has_moved():  # noqa: ASYNC110  # once a second at most, and time counts too
                await asyncio.sleep(SETTLE_SECONDS)
            self._changed.clear()
            self._in_use = {service: self._discovered.targets([service]) for service in self._watches}
            await apply()
            passed_on_at = now()

    def _has_moved(self) -> bool:
        """Whether a Service has ready endpoints, and none of them is in use."""
        ready = {service: self._discovered.targets([service]) for service in self._watches}
        return any(found and set(found).isdisjoint(self._in_use.get(service, ())) for service, found in ready.items())

    async def close(self) -> None:
        """Stop watching."""
        for task in self._watches.values():
            task.cancel()
        await asyncio.gather(*self._watches.values(), return_exceptions=True)

    def _watch(self, service: str) -> asyncio.Task[None]:
        """Follow one Service in the background."""
        lookups: endpoints.Lookups = {}
        self._discovered.watch(service, lambda: lookups[service].error() if service in lookups else "")
        follow = functools.partial(
            endpoints.follow_endpoints,
            [service],
            (),
            functools.partial(self._take, service),
            self._api,
            functools.partial(self._observe, service),
            lookups,
        )
        task: asyncio.Task[None] = asyncio.create_task(supervision.supervise(service, follow), name=service)
        task.add_done_callback(self._note_end)
        return task

    def _note_end(self, watch: "asyncio.Task[None]") -> None:
        """A watch ended; unless it was stopped, `run` ends as well: otherwise calls would go to outdated endpoints."""
        if not watch.cancelled():
            self._failure = watch.exception()
            self._changed.set()

    def _take(self, service: str, addresses: Sequence[str]) -> None:
        if self._discovered.replace(service, addresses):
            log.info("%s has %d ready endpoints: %s", service, len(addresses), ", ".join(addresses))
            self._changed.set()

    def _observe(self, service: str, discovery: endpoints.Discovery) -> None:
        """Note that all EndpointSlices of the Service have been read."""
        if discovery.complete and service not in self._listed:
            self._listed.add(service)
            self._progress.set()


@contextlib.asynccontextmanager
async def following(api: client.ApiClient, completed: commandline.CompletedConfig) -> AsyncIterator[PluginDiscovery]:
    """Follow the Services of a configuration's plugins while the block lasts; at its begin they have been listed."""
    discovery = PluginDiscovery(api, completed.discovered)
    try:
        await discovery.follow(completed.trireme)
        yield discovery
    finally:
        await discovery.close()


def _services_of(config: trireme_configuration.TriremeConfiguration) -> set[str]:
    return {
        address for plugin in config.remote_plugins for address in plugin.endpoints if addresses.is_service(address)
    }
