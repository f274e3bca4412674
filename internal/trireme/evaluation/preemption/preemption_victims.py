"""Who would have to go from each of some nodes, so that a pod fits there: the dry run of preemption.

From a node first go all pods of lower priority. If the pod fits then, they are let back one by one, those first whose
going would break a disruption budget, the more important before the others, and who can stay stays. Each question of
whether the pod fits goes to the filter plugins themselves. Nodes are asked about together as far as the plugins allow
it, so a round lets one pod back on each of them: how many rounds there are follows the pods of one node, not the nodes.

Source: pkg/scheduler/framework/plugins/defaultpreemption (SelectVictimsOnNode).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from trireme.evaluation import class_priorities
from trireme.evaluation.filtering import dry_run_filter
from trireme.evaluation.preemption import preemption_budgets
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, overlay, snapshot

# Where a start time is missing: the pod starts now, after all others.
NOT_STARTED = np.iinfo(np.int64).max


@dataclass(slots=True)
class Candidate:
    """A node that has room once the victims are gone. `rows` are the victims', most important first; `harm` is what
    candidates are compared by, once they were: it holds for as long as the node's pods are the same.
    """

    slot: int
    rows: tuple[int, ...]
    violations: int
    harm: tuple[int, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a dry run of some nodes found: candidates, and of the other slots the status that each has now."""

    candidates: tuple[Candidate, ...]
    refused: tuple[tuple[int, int], ...]


# Rows of the potential victims on some slots: by slot, the most important first. Shape: (victim,).
VictimsOn = Callable[[arrays.SlotArray], arrays.SlotArray]


def with_victims(snap: snapshot.Snapshot, priority: int) -> arrays.BoolArray:
    """Which slots have pods of lower priority. Shape: (slot,)."""
    table = snap.pods
    out = np.zeros(snap.nodes.size + 1, dtype=np.bool_)
    # Rows without a pod are at slot −1: the last entry, which is left off.
    lower = class_priorities.of(snap)[table.pod_class[: table.size]] < priority
    out[table.slot[: table.size][lower]] = True
    return out[:-1]


def of_slots(snap: snapshot.Snapshot, victims: arrays.SlotArray, slots: arrays.SlotArray) -> arrays.SlotArray:
    """Those of the victims that are on these slots, in their order. Shape: (victim,)."""
    return victims[np.isin(snap.pods.slot[victims], slots)]


def potential_victims(snap: snapshot.Snapshot, slots: arrays.SlotArray, *, priority: int) -> arrays.SlotArray:
    """Rows of the pods on these slots that have a lower priority: by slot, the most important first. Shape: (victim,).

    Of two pods of one priority the one that started earlier is more important.
    """
    table = snap.pods
    # Rows without a pod are at slot −1: the last entry, which stays false.
    wanted = np.zeros(snap.nodes.size + 1, dtype=np.bool_)
    wanted[slots] = True
    by_class = class_priorities.of(snap)
    rows = np.flatnonzero(wanted[table.slot[: table.size]])
    rows = rows[by_class[table.pod_class[rows]] < priority]
    start = table.start[rows]
    keys = (np.where(start == 0, NOT_STARTED, start), -by_class[table.pod_class[rows]], table.slot[rows])
    return rows[np.lexsort(keys)]


class Services(Protocol):
    """Filter plugins that are services of their own."""

    async def verdicts(self, slots: arrays.SlotArray, gone: arrays.SlotArray) -> arrays.Int16Array:
        """What they say of each slot as if these rows were gone, as numbers of the class's statuses. Shape: (slot,)."""
        ...


async def verdicts(
    dry_run: dry_run_filter.DryRunFilter,
    services: Services | None,
    slots: arrays.SlotArray,
    over: overlay.SnapshotOverlay,
) -> arrays.Int16Array:
    """What all plugins say, services included. Shape: (slot asked,). Raises: OutOfStepError where the snapshot moved on
    while services were asked.
    """
    index = dry_run.filter(slots, over).index
    passing = np.flatnonzero(index == interfaces.PASSES)
    if services is not None and passing.size:
        index[passing] = await services.verdicts(slots[passing], over.changes.removed)
        over.check()
    return index


class DryRun:
    """Looks for the victims of one pod."""

    def __init__(
        self,
        snap: snapshot.Snapshot,
        dry_run: dry_run_filter.DryRunFilter,
        budgets: preemption_budgets.Budgets,
        victims_on: VictimsOn,
        services: Services | None = None,
    ) -> None:
        """`services` are the plugins in other processes that look at the pods of a node, where there are any."""
        self._services = services
        self._snap = snap
        self._dry_run = dry_run
        self._budgets = budgets
        self._victims_on = victims_on

    async def run(self, slots: arrays.SlotArray) -> Outcome:
        """Try these slots, which all have potential victims. Raises: OutOfStepError where the snapshot moved on while
        services were asked.
        """
        candidates: list[Candidate] = []
        refused: list[tuple[int, int]] = []
        for part in self._dry_run.parts(slots):
            with overlay.SnapshotOverlay(self._snap, overlay.Semantics.DRY_RUN) as over:
                found, others = await self._together(part, over)
            candidates += found
            refused += others
        return Outcome(tuple(candidates), tuple(refused))

    async def _verdicts(self, slots: arrays.SlotArray, over: overlay.SnapshotOverlay) -> arrays.Int16Array:
        return await verdicts(self._dry_run, self._services, slots, over)

    async def _together(
        self, slots: arrays.SlotArray, over: overlay.SnapshotOverlay
    ) -> tuple[list[Candidate], list[tuple[int, int]]]:
        victims = self._victims_on(slots)
        on = self._snap.pods.slot[victims]

        def rows_of(slot: int) -> list[int]:
            first, last = np.searchsorted(on, (slot, slot + 1))
            rows: list[int] = victims[first:last].tolist()
            return rows

        over.remove(victims)
        index = await self._verdicts(slots, over)
        refused = list(zip(slots.tolist(), index.tolist(), strict=True))
        helped = slots[index == interfaces.PASSES]
        queues = [self._order_of_reprieve(rows_of(slot)) for slot in helped.tolist()]
        staying = await self._reprieve(helped, [queue for queue, _ in queues], over)
        candidates = []
        for slot, (queue, violating) in zip(helped.tolist(), queues, strict=True):
            going = [row for row in queue if row not in staying]
            violations = sum(row in violating for row in going)
            if violating and len(violating) < len(queue):
                kept = set(going)
                going = [row for row in rows_of(slot) if row in kept]
            candidates.append(Candidate(slot, tuple(going), violations))
        return candidates, [each for each in refused if each[1] != interfaces.PASSES]

    def _order_of_reprieve(self, rows: list[int]) -> tuple[list[int], frozenset[int]]:
        violating = self._budgets.violating(rows)
        if not violating:
            return rows, violating
        return [row for row in rows if row in violating] + [row for row in rows if row not in violating], violating

    async def _reprieve(
        self, slots: arrays.SlotArray, queues: Sequence[Sequence[int]], over: overlay.SnapshotOverlay
    ) -> set[int]:
        """Let victims back in the order of their slot's queue, one a slot and round; the rows of those that stay."""
        staying: set[int] = set()
        for at, rows in _rounds(queues):
            over.restore(rows)
            fits = await self._verdicts(slots[at], over) == interfaces.PASSES
            over.remove(rows[~fits])
            staying.update(rows[fits].tolist())
        return staying


def _rounds(queues: Sequence[Sequence[int]]) -> Iterator[tuple[arrays.SlotArray, arrays.SlotArray]]:
    """The first rows of all queues with the queues' numbers, then the second ones of those that have any, and so on."""
    for place in range(max(map(len, queues), default=0)):
        at = [number for number, queue in enumerate(queues) if len(queue) > place]
        yield np.array(at, dtype=np.intp), np.array([queues[number][place] for number in at], dtype=np.intp)
