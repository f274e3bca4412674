"""The start of a term of leadership: from the first list to the first batch.

The order is kube-scheduler's: informers start and sync before the election (unless configured otherwise). Nothing is
scheduled before every cache has synced, the bind replicas know the new epoch and have ended their work for an earlier
leader, and the informers show everything that it wrote.

Tests: tests/unit/frontend/test_start_order.py.
"""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from trireme.cache import absent_apis
from trireme.config import commandline
from trireme.frontend import catching_up
from trireme.frontend.app import App
from trireme.frontend.phase_clients import endpoints, fallback, local_phases
from trireme.frontend.term import Term
from trireme_kube.client.events import event_recorder
from trireme_kube.client.informers import informer, resources
from trireme_kube.client.rest import client
from trireme_kube.componentbase import supervision
from trireme_kube.componentbase.logs import klog

log = logging.getLogger(__name__)

# What a leader writes that decides where pods can go: bindings, allocations of devices, volumes for claims.
WRITTEN_BY_LEADERS = frozenset(
    {
        resources.PODS,
        resources.RESOURCE_CLAIMS,
        resources.PERSISTENT_VOLUME_CLAIMS,
        resources.PERSISTENT_VOLUMES,
    }
)

# How often the start checks whether the caches are populated, and publishes what was listed meanwhile.
POPULATED_SECONDS = 0.005
PUBLISH_SECONDS = 0.02
# How often changes are published while no scheduling cycle does.
STEADY_PUBLISH_SECONDS = 0.1


async def _find_none() -> list[resources.Resource]:
    return []


class LeadershipRunner:
    """Runs the frontend's work: following the cluster, leading, scheduling."""

    def __init__(
        self,
        completed: commandline.CompletedConfig,
        app: App,
        scheduling: client.ApiClient,
        local: local_phases.LocalPhases,
        make_fallback: Callable[[str], local_phases.LocalPhases],
        clock: Callable[[], float],
        *,
        find_absent: Callable[[], Awaitable[list[resources.Resource]]] = _find_none,
    ) -> None:
        """`local` are our own phases, `make_fallback` makes those that replace configured replicas.

        `clock` returns monotonic seconds. `find_absent` finds APIs that no informer reads and that are not served.
        """
        self._completed = completed
        self._app = app
        self._scheduling = scheduling
        self._local = local
        self._make_fallback = make_fallback
        self._clock = clock
        self._find_absent = find_absent

    async def run(self, elected: Callable[[], Awaitable[Term]]) -> None:
        """Follow the cluster, wait for election, then schedule until cancelled; `elected` returns once we lead.

        With leader election the caches are filled before it, so that a new leader schedules at once; with
        `delayCacheUntilActive` the informers start only once we lead. A failure of any part ends all of it, by an
        exception.
        """
        app, configuration = self._app, self._completed.configuration
        async with asyncio.TaskGroup() as group:
            _add_task(group, "events", app.recorder.run)
            delayed = configuration.delay_cache_until_active
            if not delayed:
                self._start_informers(group)
            # Without leader election there is nobody to wait for, and the replicas follow from the first page on.
            populate_first = not delayed and configuration.leader_election.leader_elect
            if populate_first:
                await self._wait_until_listed()
            term = await elected()
            if term.lease is not None:
                profile = self._completed.profiles[0].scheduler_name
                text = f"{term.holder} became leader"
                app.recorder.record_legacy(term.lease, event_recorder.NORMAL, "LeaderElection", text, profile)
            if delayed:
                self._start_informers(group)
            self._start_phase_clients(group, term)
            _add_task(group, "background", app.raise_first_failure)
            if not populate_first:
                await self._wait_until_listed()
            await supervision.supervise("scheduler", functools.partial(self._lead_until_cancelled, term))

    def _start_informers(self, group: asyncio.TaskGroup) -> None:
        for entry in self._app.informers:
            _add_task(group, f"informer {entry.resource.name}", entry.run)

    async def _wait_until_listed(self) -> None:
        """Return once everything has been listed.

        A frontend that cannot read the cluster must not keep others from leading.
        """
        waiting = list(self._app.informers)
        while waiting:
            for entry in [entry for entry in waiting if entry.synced]:
                waiting.remove(entry)
                name = entry.resource.name
                klog.info(log, 2, "Caches populated", type=f"*v1.{entry.resource.kind}", reflector=f"informer {name}")
            await asyncio.sleep(POPULATED_SECONDS if waiting else 0)
        klog.info(log, 3, "Handlers synced")
        if absent := [*absent_apis.find(self._app.informers), *await self._find_absent()]:
            log.warning("%s; they are looked for again now and then", absent_apis.sentence(absent))

    def _start_phase_clients(self, group: asyncio.TaskGroup, term: Term) -> None:
        """Start the phases' clients; nothing is scheduled yet."""
        self._app.begin(term)
        _add_task(group, "endpoints", self._watch_endpoints)
        _add_task(group, "publisher", self._publish_steadily)
        _add_task(group, "status outbox", self._app.scheduling.outbox.run)
        given_up = self._app.context.leader.given_up
        keep_catching_up = functools.partial(catching_up.keep_catching_up, self._written_by_leaders(), given_up)
        _add_task(group, "writes of earlier leaders", keep_catching_up)
        if self._app.insight_queue_feed is not None:
            _add_task(group, "insight", self._app.insight_queue_feed.run)
        if self._app.wake_up_check is not None:
            _add_task(group, "check of wake-ups", self._app.wake_up_check.run)

    async def _publish_steadily(self) -> None:
        """Publish changes while no scheduling cycle does.

        Until the caches have synced, replicas get each page as it is listed, so that they have nearly all when the last
        one comes. Later they get what changes while nothing is scheduled, so that the next pod need not wait for all of
        it.

        A scheduling cycle publishes when it begins. Until it ends nothing else is published: PostFilter has to see the
        cluster that Filter saw. Otherwise it evicts pods for a pod that fits by now, because another pod's victims have
        left meanwhile.
        """
        app = self._app
        while True:
            await asyncio.sleep(STEADY_PUBLISH_SECONDS if app.synced else PUBLISH_SECONDS)
            if app.phases.publisher.followed and not app.scheduling.scheduler.in_cycle:
                app.phases.publisher.publish()

    async def _lead_until_cancelled(self, term: Term) -> None:
        """Schedule until cancelled, once earlier leaders' writes are over and the cache shows them."""
        app = self._app
        waits: list[Callable[[], Awaitable[None]]] = [functools.partial(self._wait_for_predecessors_writes, term)]
        if not term.sole_writer:
            # Everything that an earlier leader wrote must be in the cache before anything is placed.
            waits.append(self._catch_up)
        if self._completed.trireme.phase("bind").endpoints:
            for wait in waits:
                await wait()
        else:
            # Our own bind replicas have worked for nobody else, so the writes of others do not wait for them.
            await asyncio.gather(*(wait() for wait in waits))
        log.info("caches are synced: %s", app.cluster.cache.statistics())
        await app.scheduling.scheduler.run()

    async def _wait_for_predecessors_writes(self, term: Term) -> None:
        """Return once no bind replica works for an earlier leader."""
        drain = await self._app.phases.links.binders.wait_until_announced(term.predecessor_seconds)
        await asyncio.sleep(drain)

    async def _catch_up(self) -> None:
        """Return once the informers show everything that was written up to now, as far as we may read it."""
        leader = self._app.context.leader
        await catching_up.catch_up(self._written_by_leaders(), leader.catching_up, leader.given_up)

    def _written_by_leaders(self) -> list[informer.Informer[Any]]:
        return [entry for entry in self._app.informers if entry.resource in WRITTEN_BY_LEADERS]

    async def _watch_endpoints(self) -> None:
        """Follow the addresses of each phase's replicas, once our own phases have started.

        A phase with configured endpoints gets a fallback beside them if the configuration says so.
        """
        await self._local.until_started()
        links, own = self._app.phases.links, self._completed.trireme
        lookups = self._app.phases.lookups
        async with asyncio.TaskGroup() as group:
            if links.insight is not None:
                take = links.insight.replicas.set_endpoints
                following = functools.partial(
                    endpoints.follow_endpoints,
                    own.insight.endpoints,
                    (),
                    take,
                    self._scheduling,
                    lookups=lookups.setdefault("insight", {}),
                )
                _add_task(group, "endpoints of insight", following)
            for name, phase in (("filter", links.filters), ("score", links.scores), ("bind", links.binders)):
                take = phase.set_endpoints
                if own.phase(name).endpoints and own.fallback.mode == "local":
                    standing_in = fallback.Fallback(
                        name,
                        phase,
                        functools.partial(self._make_fallback, name),
                        own.fallback.after.seconds,
                        self._clock,
                        self._app.context.wakeup.set,
                        lookups=lookups.setdefault(name, {}),
                    )
                    self._app.phases.fallbacks[name] = standing_in
                    _add_task(group, f"fallback of {name}", standing_in.run)
                    take = standing_in.set_endpoints
                configured, local = own.phase(name).endpoints, self._local.addresses(name)
                following = functools.partial(
                    endpoints.follow_endpoints,
                    configured,
                    local,
                    take,
                    self._scheduling,
                    lookups=lookups.setdefault(name, {}),
                )
                if name == "bind":
                    following = functools.partial(following, observe=links.binders.observe)
                _add_task(group, f"endpoints of {name}", following)


def _add_task(group: asyncio.TaskGroup, name: str, work: supervision.Work) -> None:
    """Add a task to the group that must not end before the group does."""
    group.create_task(supervision.supervise(name, work), name=name)
