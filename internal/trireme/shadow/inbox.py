"""Takes the informers' events: at once for the simulated cluster, and in a queue for the comparison of decisions.

Judging a binding takes milliseconds, and a burst brings more. The simulated cluster must not wait for that,
because it measures how long pods wait. So events are queued for the comparison; when the queue is long, they are
applied without judging.
"""

import asyncio
import collections
from collections.abc import Sequence
from typing import Any

from trireme.cache import object_kinds
from trireme.shadow import decision_comparison, simulated_cluster
from trireme_kube.client.informers.watch import EventKind

# With more events of pods than this in the queue, bindings are not judged.
MAX_QUEUED = 20_000
# How often, and for how long each time, a judgement waits while the simulated cluster has pods to schedule.
_PATIENCE = 10
_PATIENCE_SECONDS = 0.002


class Inbox:
    """Dispatches events, in order."""

    def __init__(
        self,
        comparison: decision_comparison.DecisionComparison,
        own: simulated_cluster.SimulatedCluster | None,
    ) -> None:
        self._comparison = comparison
        self._own = own
        self._queue: collections.deque[tuple[object_kinds.ObjectKind | str, Sequence[Any]]] = collections.deque()
        self._is_judging = False
        self._filled = asyncio.Event()
        #: Set while every event was applied to the comparison.
        self.emptied = asyncio.Event()
        self.emptied.set()
        self._queued = 0
        self._lists: collections.Counter[str] = collections.Counter()

    @property
    def relists(self) -> dict[str, int]:
        """By kind, how often it was listed again because its watch was interrupted."""
        return {name: count - 1 for name, count in self._lists.items() if count > 1}

    def begin_judging(self) -> None:
        """Judge bindings from the next event on: everything was listed. Until then the state is incomplete."""
        self._is_judging = True

    @property
    def queued(self) -> int:
        """How many events wait for the comparison."""
        return self._queued

    @property
    def is_empty(self) -> bool:
        """Whether every event was applied to the comparison."""
        return self.emptied.is_set()

    def on_pods(self, batch: Sequence[Any]) -> None:
        """Pods were listed, added, changed or deleted."""
        if self._own is not None:
            self._own.on_pods(batch)
        self._put("pods", batch)

    def on_nodes(self, batch: Sequence[Any]) -> None:
        """Nodes were listed, added, changed or deleted."""
        if self._own is not None:
            self._own.on_nodes(batch)
        self._put("nodes", batch)

    def on_objects(self, kind: object_kinds.ObjectKind, batch: Sequence[Any]) -> None:
        """Objects of the kind were listed, added, changed or deleted."""
        if self._own is not None:
            self._own.on_objects(kind, batch)
        self._put(kind, batch)

    def _put(self, kind: object_kinds.ObjectKind | str, batch: Sequence[Any]) -> None:
        """Queue events for the comparison."""
        name = kind if isinstance(kind, str) else kind.watched.name
        self._lists[name] += sum(1 for event in batch if event.kind is EventKind.LIST_END)
        self._queue.append((kind, batch))
        self._queued += len(batch)
        self._filled.set()
        self.emptied.clear()

    async def _let_simulated_cluster_schedule(self) -> None:
        """Let other tasks run: judging takes milliseconds, and the simulated cluster measures how long pods wait."""
        await asyncio.sleep(0)
        for _ in range(_PATIENCE):
            if self._own is None or not self._own.model.is_busy:
                return
            await asyncio.sleep(_PATIENCE_SECONDS)

    async def run(self) -> None:
        """Apply the queue's events to the comparison, forever."""
        while True:
            if not self._queue:
                self._filled.clear()
                self.emptied.set()
                await self._filled.wait()
            kind, batch = self._queue.popleft()
            if kind == "nodes":
                self._comparison.apply_nodes(batch)
            elif isinstance(kind, object_kinds.ObjectKind):
                self._comparison.apply_objects(kind, batch)
            else:
                for event in batch:
                    judging = self._is_judging and self._queued <= MAX_QUEUED
                    await self._comparison.apply_pods([event], judging=judging)
                    await self._let_simulated_cluster_schedule()
            self._queued -= len(batch)
            await asyncio.sleep(0)
