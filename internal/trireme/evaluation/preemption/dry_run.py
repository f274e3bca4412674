"""The dry run of preemption: on each of some nodes, which pods have to be evicted so that a pod fits there.

First all pods of lower priority are removed from the node. If the pod fits then, they are reprieved one by one, those
first whose eviction would violate a disruption budget, the more important before the others: each that can stay beside
the pod stays. The filter plugins say whether the pod fits. Nodes are filtered together as far as the plugins allow it,
and each round reprieves one victim on each of them: the number of rounds follows from the pods of one node, not from
the number of nodes.

Source: pkg/scheduler/framework/plugins/defaultpreemption (SelectVictimsOnNode).

Tests: tests/unit/evaluation/test_dry_run.py, tests/unit/plugins/default_preemption/test_post_filter.py.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from trireme.evaluation.filtering import dry_run_filter
from trireme.evaluation.preemption import async_dry_runs, disruption_budgets
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, overlay, snapshot


@dataclass(slots=True)
class Candidate:
    """A node that has room once its victims are evicted; `rows` are the victims', the most important first."""

    slot: int
    rows: tuple[int, ...]
    # How many of them a disruption budget protects.
    violations: int
    # What candidates are compared by, empty until that is known. It holds as long as the node's pods are the same.
    cost: tuple[int, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """The result of a dry run of some nodes: candidates, and for each other slot the number of its status."""

    candidates: tuple[Candidate, ...]
    refused: tuple[tuple[int, int], ...]


# Returns the rows of the potential victims on some slots: by slot, the most important first. Shape: (victim,).
# Implementers: trireme.evaluation.preemption.potential_victims.restricted_to,
# trireme.evaluation.preemption.potential_victims.rows_on_slots.
FindVictims = Callable[[arrays.SlotArray], arrays.SlotArray]


async def filter_slots(
    dry_run: dry_run_filter.DryRunFilter,
    asynchronous: async_dry_runs.AsyncDryRuns | None,
    slots: arrays.SlotArray,
    over: overlay.SnapshotOverlay,
) -> arrays.Int16Array:
    """Filter these slots with all plugins, asynchronous ones included. Shape of the result: (slot,).

    Raises: OutOfStepError where the snapshot changed while plugins were called.
    """
    index = dry_run.filter(slots, over).index
    passing = np.flatnonzero(index == interfaces.PASSES)
    if asynchronous is not None and passing.size:
        index[passing] = await asynchronous.filter_slots(slots[passing], over.overlaid_pods.removed)
        over.check()
    return index


class DryRun:
    """Finds, node by node, the victims whose eviction would let one pod run there."""

    def __init__(
        self,
        snap: snapshot.Snapshot,
        dry_run: dry_run_filter.DryRunFilter,
        budgets: disruption_budgets.DisruptionBudgets,
        find_victims: FindVictims,
        asynchronous: async_dry_runs.AsyncDryRuns | None = None,
    ) -> None:
        """`asynchronous` are the asynchronous plugins that have to be called, if there are any."""
        self._asynchronous = asynchronous
        self._snap = snap
        self._dry_run = dry_run
        self._budgets = budgets
        self._find_victims = find_victims

    async def run(self, slots: arrays.SlotArray) -> DryRunResult:
        """Try these slots, which all have potential victims.

        Raises: OutOfStepError where the snapshot changed while plugins were called.
        """
        candidates: list[Candidate] = []
        refused: list[tuple[int, int]] = []
        for part in self._dry_run.split_slots(slots):
            with overlay.SnapshotOverlay(self._snap, overlay.Semantics.DRY_RUN) as over:
                found, others = await self._run_over_one_overlay(part, over)
            candidates += found
            refused += others
        return DryRunResult(tuple(candidates), tuple(refused))

    async def _filter_by_all_plugins(self, slots: arrays.SlotArray, over: overlay.SnapshotOverlay) -> arrays.Int16Array:
        """Filter these slots with all plugins. Shape of the result: (slot,). Raises: OutOfStepError."""
        return await filter_slots(self._dry_run, self._asynchronous, slots, over)

    async def _run_over_one_overlay(
        self, slots: arrays.SlotArray, over: overlay.SnapshotOverlay
    ) -> tuple[list[Candidate], list[tuple[int, int]]]:
        """Dry-run slots whose changes one overlay may have together.

        Returns the candidates and, for slots that refuse the pod regardless of evictions, the number of the refusal.
        All potential victims are removed; then, one a slot and round, those that fit beside the pod are put back.
        """
        victims = self._find_victims(slots)
        slot_of_victim = self._snap.pods.slot[victims]

        def victims_on(slot: int) -> list[int]:
            """Return the rows of the slot's potential victims, the most important first."""
            first, last = np.searchsorted(slot_of_victim, (slot, slot + 1))
            rows: list[int] = victims[first:last].tolist()
            return rows

        over.remove(victims)
        index = await self._filter_by_all_plugins(slots, over)
        refused = [each for each in zip(slots.tolist(), index.tolist(), strict=True) if each[1] != interfaces.PASSES]
        fitting = slots[index == interfaces.PASSES]
        queues = [self._budget_violators_first(victims_on(slot)) for slot in fitting.tolist()]
        staying = await self._reprieve_victims(fitting, [queue for queue, _ in queues], over)
        candidates = []
        for slot, (queue, violating) in zip(fitting.tolist(), queues, strict=True):
            evicted = [row for row in queue if row not in staying]
            violations = sum(row in violating for row in evicted)
            if violating:
                # The order of importance, not that in which they were reprieved.
                chosen = set(evicted)
                evicted = [row for row in victims_on(slot) if row in chosen]
            candidates.append(Candidate(slot, tuple(evicted), violations))
        return candidates, refused

    def _budget_violators_first(self, rows: list[int]) -> tuple[list[int], frozenset[int]]:
        """Return the rows, those first whose eviction violates a disruption budget, and the set of these."""
        violating = self._budgets.violating_rows(rows)
        if not violating:
            return rows, violating
        return [row for row in rows if row in violating] + [row for row in rows if row not in violating], violating

    async def _reprieve_victims(
        self, slots: arrays.SlotArray, queues: Sequence[Sequence[int]], over: overlay.SnapshotOverlay
    ) -> set[int]:
        """Reprieve victims in the order of their slot's queue, one a slot and round; return the rows that stay."""
        staying: set[int] = set()
        for at, rows in _reprieve_rounds(queues):
            over.restore(rows)
            fits = await self._filter_by_all_plugins(slots[at], over) == interfaces.PASSES
            over.remove(rows[~fits])
            staying.update(rows[fits].tolist())
        return staying


def _reprieve_rounds(queues: Sequence[Sequence[int]]) -> Iterator[tuple[arrays.SlotArray, arrays.SlotArray]]:
    """The first rows of all queues with the queues' numbers, then the second ones of those that have any, and so on."""
    for place in range(max(map(len, queues), default=0)):
        at = [number for number, queue in enumerate(queues) if len(queue) > place]
        yield np.array(at, dtype=np.intp), np.array([queues[number][place] for number in at], dtype=np.intp)
