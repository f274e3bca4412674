"""The dry run of preemption on nodes with pods of groups that are disrupted as a whole: slot by slot.

Such a group is removed, and reprieved, on all its nodes at once, so what is tried on one node is not what is tried on
another, and plugins that depend on the whole cluster see all of it gone. The group is a victim on each of its nodes;
one candidate is selected in the end, so it is evicted once.

Source: pkg/scheduler/framework/plugins/defaultpreemption (SelectVictimsOnNode).

Tests: tests/unit/evaluation/test_dry_run.py, tests/unit/plugins/default_preemption/test_post_filter.py.
"""

from collections.abc import Sequence

import numpy as np

from trireme.evaluation.filtering import dry_run_filter
from trireme.evaluation.preemption import async_dry_runs, disruption_budgets, dry_run, victims_with_groups
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, overlay, snapshot


class WholeGroupDryRun:
    """Finds the victims for one pod where some potential victims are groups that are disrupted as a whole."""

    def __init__(
        self,
        snap: snapshot.Snapshot,
        dry_run_filters: dry_run_filter.DryRunFilter,
        budgets: disruption_budgets.DisruptionBudgets,
        priority: int,
        asynchronous: async_dry_runs.AsyncDryRuns | None = None,
    ) -> None:
        """`dry_run_filters` count changes everywhere. `priority` is the pod's."""
        self._snap = snap
        self._filters = dry_run_filters
        self._budgets = budgets
        self._priority = priority
        self._asynchronous = asynchronous

    async def run(self, slots: arrays.SlotArray) -> dry_run.DryRunResult:
        """Try these slots, which all have potential victims."""
        candidates, refused = [], []
        for slot in slots.tolist():
            victims = victims_with_groups.victims(self._snap, self._priority, np.array([slot]))
            with overlay.SnapshotOverlay(self._snap, overlay.Semantics.DRY_RUN) as over:
                result = await self._evict_and_reprieve_on_slot(slot, victims, over)
            if isinstance(result, int):
                refused.append((slot, result))
            else:
                candidates.append(result)
        return dry_run.DryRunResult(tuple(candidates), tuple(refused))

    async def _evict_and_reprieve_on_slot(
        self, slot: int, victims: Sequence[victims_with_groups.Victim], over: overlay.SnapshotOverlay
    ) -> dry_run.Candidate | int:
        """Return the candidate, or the number of the status that the node has though all victims are removed.

        All victims are removed; then each that still fits beside the pod is put back, first those that would violate a
        budget.
        """
        rows = [row for victim in victims for row in victim.rows]
        over.remove(np.array(rows, dtype=np.intp))
        refusal = await self._status_number_of_slot(slot, over)
        if refusal != interfaces.PASSES:
            return refusal
        violating = self._budgets.violating_rows(rows)
        evicted = []
        # In each half they keep their order.
        for victim in sorted(victims, key=lambda each: violating.isdisjoint(each.rows)):
            reprieved = np.array(victim.rows, dtype=np.intp)
            over.restore(reprieved)
            if await self._status_number_of_slot(slot, over) != interfaces.PASSES:
                over.remove(reprieved)
                evicted.append(victim)
        rows = [row for victim in sorted(evicted, key=lambda each: each.importance) for row in victim.rows]
        return dry_run.Candidate(slot, tuple(rows), sum(row in violating for row in rows))

    async def _status_number_of_slot(self, slot: int, over: overlay.SnapshotOverlay) -> int:
        """Filter one slot with all plugins; returns the number of its status."""
        at = np.array([slot], dtype=np.intp)
        return int((await dry_run.filter_slots(self._filters, self._asynchronous, at, over))[0])
