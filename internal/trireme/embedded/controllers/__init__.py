"""The small controllers of the embedded cluster: what kube-controller-manager does, as far as a scheduler's life needs it.

Each controller listens to the store and works off keys in a queue of its own; none looks through all objects on a
timer. They write through the same registry as clients do, so their writes are seen, refused and defaulted alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from trireme.embedded.controllers.node_lifecycle import NodeLifecycle
from trireme.embedded.registry import Registry


class Controller(Protocol):
    """One control loop."""

    async def run(self) -> None:
        """Works until cancelled."""


class Controllers:
    """All control loops of a cluster."""

    def __init__(self, registry: Registry, monotonic: Callable[[], float]) -> None:
        self._all: tuple[Controller, ...] = (NodeLifecycle(registry, monotonic),)

    async def run(self) -> None:
        """Runs all until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for controller in self._all:
                tasks.create_task(controller.run())
