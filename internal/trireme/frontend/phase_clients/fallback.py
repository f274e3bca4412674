"""Local phases while no configured replica answers: a cluster whose phase pods are all gone can schedule them again.

The configured replicas remain endpoints; once one of them answers again, the local phases end.

Also change: docs/fault-tolerance.md.
"""

import asyncio
import functools
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from trireme.frontend.phase_clients import endpoints, forker_client, local_phases, unavailability
from trireme_kube.componentbase import documents, supervision

log = logging.getLogger(__name__)

CHECK_SECONDS = 0.5


class PhaseReplicas(Protocol):
    """The replicas of one phase.

    Implementers: trireme.frontend.phase_clients.bind_phase_client.BindPhaseClient,
    trireme.frontend.phase_clients.follower_replicas.FollowerReplicas.
    """

    @property
    def available(self) -> bool:
        """Whether any replica can be called."""
        ...

    def answering(self) -> Sequence[str]:
        """The addresses of the replicas that can be called."""
        ...

    def statistics(self) -> Sequence[unavailability.ReplicaState]:
        """The state of each replica."""
        ...

    def set_endpoints(self, addresses: Sequence[str]) -> None:
        """These are the replicas from now on."""
        ...


class Fallback:
    """Starts a phase of our own while none of its configured replicas answers, and stops it when one answers again.

    It watches one phase; `set_endpoints` has the configured addresses as they are now.
    """

    def __init__(
        self,
        name: str,
        phase: PhaseReplicas,
        make: Callable[[], local_phases.LocalPhases],
        after_seconds: float,
        clock: Callable[[], float],
        restarted: Callable[[], None],
        *,
        lookups: endpoints.Lookups | None = None,
    ) -> None:
        """`restarted` is called when a local phase that ended runs again; `lookups` are those of its endpoints."""
        self._name = name
        self._phase = phase
        self._make = make
        self._after = after_seconds
        self._clock = clock
        self._restarted = restarted
        self._lookups = {} if lookups is None else lookups
        self._configured: Sequence[str] = ()
        # The local phases, and the task that restarts them.
        self._local: tuple[local_phases.LocalPhases, asyncio.Task[None]] | None = None
        self._supervisor = supervision.Supervisor()
        self._missing_since: float | None = None

    @property
    def active(self) -> bool:
        """Whether local phases replace the configured replicas."""
        return self._local is not None

    def addresses(self) -> Sequence[str]:
        """The addresses of the local phases that replace the configured replicas; none while they do not."""
        return [] if self._local is None else self._local[0].addresses(self._name)

    def statistics(self) -> list[local_phases.LocalPhaseStatistics]:
        """The state of the local phases that replace the configured replicas."""
        return [] if self._local is None else self._local[0].statistics()

    def set_endpoints(self, addresses: Sequence[str]) -> None:
        """The configured replicas are these from now on."""
        self._configured = addresses
        self._apply_endpoints()

    async def run(self) -> None:
        """Start, restart and stop local phases as needed, until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._supervisor.failure())
                group.create_task(self._check_steadily())
        finally:
            ended, self._local = self._local, None
            if ended is not None:
                await self._stop_local_phases(ended)

    async def _check_steadily(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            await self._start_or_stop_local_phases()

    async def _stop_local_phases(self, ended: tuple[local_phases.LocalPhases, asyncio.Task[None]]) -> None:
        """End the local phases that are no endpoints any more, even if this is cancelled meanwhile."""
        local, restarting = ended
        try:
            await self._supervisor.stop(restarting)
        finally:
            await local.stop()

    async def _start_or_stop_local_phases(self) -> None:
        """Start replicas of this phase here if no configured one has answered for long enough; stop them once one does.

        If they cannot be started, the wait begins anew.
        """
        remote = set(self._phase.answering()) & set(self._configured)
        if remote:
            self._missing_since = None
            if self._local is not None:
                log.info("%s answers again: our own ends", self._name)
                ended, self._local = self._local, None
                self._apply_endpoints()
                await self._stop_local_phases(ended)
            return
        now = self._clock()
        if self._missing_since is None:
            self._missing_since = now
        if self._local is None and now - self._missing_since >= self._after:
            text = f"no {self._name} answered for {self._after:.0f} s{self._reasons_text()}: one of our own stands in"
            log.warning("%s", documents.with_page(text, documents.NOTHING_IS_SCHEDULED))
            try:
                local = await self._start_local_phases()
            except (forker_client.LocalPhaseError, OSError) as error:
                text = "no %s of our own can be started: %s; it is tried again in %.0f s"
                log.error(text, self._name, error, self._after)
                self._missing_since = now
                return
            restart = functools.partial(local.restart_ended, self._restarted)
            self._local = local, self._supervisor.keep(f"own {self._name}", restart)
            self._apply_endpoints()

    async def _start_local_phases(self) -> local_phases.LocalPhases:
        """Start those of this phase; nothing of them is left where that fails. Raises: LocalPhaseError, OSError."""
        local = self._make()
        try:
            await local.start()
        except BaseException:
            await local.stop()
            raise
        return local

    def _reasons_text(self) -> str:
        """Why no replica answers, in brackets; empty: that is not known."""
        reasons = unavailability.reasons(self._lookups.values(), self._phase.statistics())
        return f" ({reasons})" if reasons else ""

    def _apply_endpoints(self) -> None:
        self._phase.set_endpoints([*self._configured, *self.addresses()])
