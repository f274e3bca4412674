"""The start of a term of leadership: from the first list to the first batch.

It goes in kube-scheduler's order: informers start and sync before leadership is sought (unless told otherwise), and
nothing is scheduled before every cache has synced, the bind replicas know the new epoch, and the informers have passed
a list made after the Lease was acquired.
"""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable

from trireme.config import commandline
from trireme.frontend import assembly
from trireme.frontend.replicas import children, endpoints, fallback
from trireme.frontend.term import Term
from trireme.kube import client, events
from trireme.telemetry import klog

log = logging.getLogger(__name__)

CATCH_UP_SECONDS = 60.0

# How often the start looks whether the caches are populated, and tells replicas what was listed meanwhile.
POPULATED_SECONDS = 0.005
PUBLISH_SECONDS = 0.02

# How long an unreachable bind replica may go on with an old leader's work: what the Lease is valid for.
ANNOUNCE_SECONDS = 15.0


class Leadership:
    """Has the frontend watch the cluster, lead, and schedule."""

    def __init__(
        self,
        completed: commandline.CompletedConfig,
        frontend: assembly.Frontend,
        scheduling: client.ApiClient,
        local: children.Children,
        make_children: Callable[[str], children.Children],
        clock: Callable[[], float],
    ) -> None:
        """`local` are our own phases, and `make_children` makes one that stands in for others'. `clock` answers seconds
        that never run backwards.
        """
        self._completed = completed
        self._frontend = frontend
        self._scheduling = scheduling
        self._children = local
        self._make_children = make_children
        self._clock = clock

    async def run(self, elected: Callable[[], Awaitable[Term]]) -> None:
        """Run until cancelled; `elected` returns once we lead."""
        frontend, configuration = self._frontend, self._completed.configuration
        async with asyncio.TaskGroup() as group:
            group.create_task(frontend.recorder.run(), name="events")
            delayed = configuration.delay_cache_until_active
            if not delayed:
                self._start_informers(group)
            # Without leader election nobody is kept from leading, and the replicas follow from the first page on.
            seen = not delayed and configuration.leader_election.leader_elect
            if seen:
                await self._populated()
            term = await elected()
            if term.lease is not None:
                profile = self._completed.profiles[0].scheduler_name
                text = f"{term.holder} became leader"
                frontend.recorder.record_legacy(term.lease, events.NORMAL, "LeaderElection", text, profile)
            if delayed:
                self._start_informers(group)
            self._begin(group, term)
            group.create_task(frontend.failed(), name="background")
            if not seen:
                await self._populated()
            await self._lead(term)

    def _start_informers(self, group: asyncio.TaskGroup) -> None:
        for entry in self._frontend.informers:
            group.create_task(entry.run(), name=f"informer {entry.resource.name}")

    async def _populated(self) -> None:
        """Return once all that there is was listed: who cannot read the cluster must not keep others from leading."""
        waiting = list(self._frontend.informers)
        while waiting:
            for entry in [entry for entry in waiting if entry.synced]:
                waiting.remove(entry)
                name = entry.resource.name
                klog.info(log, 2, "Caches populated", type=f"*v1.{entry.resource.kind}", reflector=f"informer {name}")
            await asyncio.sleep(POPULATED_SECONDS if waiting else 0)
        klog.info(log, 3, "Handlers synced")

    def _begin(self, group: asyncio.TaskGroup, term: Term) -> None:
        """From now on phases know us and follow; nothing is scheduled yet."""
        self._frontend.begin(term)
        group.create_task(self._watch_endpoints(), name="endpoints")
        group.create_task(self._publish_what_is_listed(), name="publish what is listed")
        group.create_task(self._frontend.outbox.run(), name="status outbox")

    async def _publish_what_is_listed(self) -> None:
        """Replicas get pages as they come, so that they have nearly all when the last one does."""
        frontend = self._frontend
        while not frontend.synced:
            await asyncio.sleep(PUBLISH_SECONDS)
            if frontend.publisher.followed:
                frontend.publisher.publish()

    async def _lead(self, term: Term) -> None:
        frontend = self._frontend
        drain = await frontend.binders.announced(ANNOUNCE_SECONDS)
        if drain:
            await asyncio.sleep(drain)
        await asyncio.gather(*(entry.reach(0, CATCH_UP_SECONDS) for entry in frontend.informers))
        if not term.first:
            # What the leader before us bound must be in the cache before we place anything beside it.
            await frontend.informers[0].catch_up(CATCH_UP_SECONDS)
        log.info("caches are synced: %s", frontend.cache.statistics())
        await frontend.scheduler.run()

    async def _watch_endpoints(self) -> None:
        await self._children.started()
        frontend, own = self._frontend, self._completed.trireme
        async with asyncio.TaskGroup() as group:
            for name, phase in (("filter", frontend.filters), ("score", frontend.scores), ("bind", frontend.binders)):
                take = phase.set_endpoints
                if own.phase(name).endpoints and own.fallback.mode == "local":
                    standing_in = fallback.Fallback(
                        name,
                        phase,
                        functools.partial(self._make_children, name),
                        own.fallback.after.seconds,
                        self._clock,
                    )
                    group.create_task(standing_in.run(), name=f"fallback of {name}")
                    take = standing_in.set_endpoints
                configured, local = own.phase(name).endpoints, self._children.addresses(name)
                following = endpoints.follow(configured, local, take, self._scheduling)
                group.create_task(following, name=f"endpoints of {name}")
