"""Starts the processes of a soak again when they end, as a kubelet does, and remembers which ended by themselves."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence

from tests.e2e import installation

# As the chaos run does it.
RESTART_SECONDS = 0.5
POLL_SECONDS = 0.1


class Supervisor:
    """Watches processes that were started. A frontend that loses its Lease ends, as it has to, and is started again."""

    def __init__(self, processes: Sequence[installation.Process]) -> None:
        self._processes = processes
        self._replaced: set[str] = set()
        #: What ended by itself: name, exit code and last line of the log.
        self.restarts: list[str] = []

    async def run(self) -> None:
        """Go on until cancelled."""
        async with asyncio.TaskGroup() as group:
            for process in self._processes:
                group.create_task(self._watch(process))

    async def replace(self, process: installation.Process) -> None:
        """End a process in good order, and start it again at once; that does not count."""
        self._replaced.add(process.name)
        try:
            process.signal(signal.SIGTERM)
            await process.ended()
            process.start()
        finally:
            self._replaced.discard(process.name)

    async def _watch(self, process: installation.Process) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            if process.running or process.name in self._replaced:
                continue
            code = await process.ended()
            lines = process.said.splitlines()
            self.restarts.append(f"{process.name} ended with {code}: {lines[-1] if lines else 'it said nothing'}")
            await asyncio.sleep(RESTART_SECONDS)
            process.start()
