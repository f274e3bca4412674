"""Phases of our own while no configured one answers: so that a cluster whose phase pods are all gone gets them back.

The configured replicas stay known all the while; once one of them answers again, ours end.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from trireme.frontend.phase_clients import children

log = logging.getLogger(__name__)

CHECK_SECONDS = 0.5


class Phase(Protocol):
    """A phase's replicas, as replicas.Replicas and bind_phase_client.BindPhaseClient are."""

    @property
    def available(self) -> bool:
        """Whether any replica can be asked."""
        ...

    def answering(self) -> Sequence[str]:
        """The addresses of the replicas that can be asked."""
        ...

    def set_endpoints(self, addresses: Sequence[str]) -> None:
        """These are the replicas from now on."""
        ...


class Fallback:
    """Watches one phase. `configured` are its endpoints as they are now; `make` makes children for it."""

    def __init__(
        self,
        name: str,
        phase: Phase,
        make: Callable[[], children.Children],
        after_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self._name = name
        self._phase = phase
        self._make = make
        self._after = after_seconds
        self._clock = clock
        self._configured: Sequence[str] = ()
        self._children: children.Children | None = None
        self._missing_since: float | None = None

    @property
    def active(self) -> bool:
        """Whether our own replicas stand in."""
        return self._children is not None

    def set_endpoints(self, addresses: Sequence[str]) -> None:
        """The configured replicas are these from now on."""
        self._configured = addresses
        self._tell()

    async def run(self) -> None:
        """Stand in where needed, until cancelled."""
        try:
            while True:
                await asyncio.sleep(CHECK_SECONDS)
                await self._check()
        finally:
            ended, self._children = self._children, None
            if ended is not None:
                await ended.stop()

    async def _check(self) -> None:
        remote = set(self._phase.answering()) & set(self._configured)
        if remote:
            self._missing_since = None
            if self._children is not None:
                log.info("%s answers again: our own ends", self._name)
                ended, self._children = self._children, None
                self._tell()
                await ended.stop()
            return
        now = self._clock()
        if self._missing_since is None:
            self._missing_since = now
        if self._children is None and now - self._missing_since >= self._after:
            log.warning("no %s answered for %.0f s: one of our own stands in", self._name, self._after)
            standing_in = self._make()
            try:
                await standing_in.start()
            except children.ChildError as error:
                log.error("%s", error)
                await standing_in.stop()
                self._missing_since = now
                return
            self._children = standing_in
            self._tell()

    def _tell(self) -> None:
        own = [] if self._children is None else self._children.addresses(self._name)
        self._phase.set_endpoints([*self._configured, *own])
