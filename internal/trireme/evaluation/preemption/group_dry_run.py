"""The dry run of preemption on nodes where pods of a group that is disrupted as one are: slot by slot.

Such a victim goes, and is let back, everywhere at once, so what is tried on one node is not what is tried on another,
and what depends on the whole cluster is asked with the group's pods gone everywhere. It is a victim of each of its
nodes; of the candidates one is chosen, so it goes once.

Source: pkg/scheduler/framework/plugins/defaultpreemption (SelectVictimsOnNode).
"""

from collections.abc import Sequence

import numpy as np

from trireme.evaluation.filtering import dry_run_filter
from trireme.evaluation.preemption import group_victims, preemption_budgets, preemption_victims
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, overlay, snapshot


class GroupDryRun:
    """Looks for the victims of one pod."""

    def __init__(
        self,
        snap: snapshot.Snapshot,
        dry_run: dry_run_filter.DryRunFilter,
        budgets: preemption_budgets.Budgets,
        priority: int,
        services: preemption_victims.Services | None = None,
    ) -> None:
        """`dry_run` counts changes everywhere. `priority` is that of the pod."""
        self._snap = snap
        self._dry_run = dry_run
        self._budgets = budgets
        self._priority = priority
        self._services = services

    async def run(self, slots: arrays.SlotArray) -> preemption_victims.Outcome:
        """As DryRun.run."""
        candidates, refused = [], []
        for slot in slots.tolist():
            units = group_victims.units(self._snap, self._priority, np.array([slot]))
            with overlay.SnapshotOverlay(self._snap, overlay.Semantics.DRY_RUN) as over:
                found = await self._on(slot, units, over)
            if isinstance(found, int):
                refused.append((slot, found))
            else:
                candidates.append(found)
        return preemption_victims.Outcome(tuple(candidates), tuple(refused))

    async def _on(
        self, slot: int, units: Sequence[group_victims.Unit], over: overlay.SnapshotOverlay
    ) -> preemption_victims.Candidate | int:
        """The candidate, or the status that the node has though everybody is gone."""
        rows = [row for unit in units for row in unit.rows]
        over.remove(np.array(rows, dtype=np.intp))
        refusal = await self._verdict(slot, over)
        if refusal != interfaces.PASSES:
            return refusal
        violating = self._budgets.violating(rows)
        going = []
        # In each half they keep their order.
        for unit in sorted(units, key=lambda each: violating.isdisjoint(each.rows)):
            back = np.array(unit.rows, dtype=np.intp)
            over.restore(back)
            if await self._verdict(slot, over) != interfaces.PASSES:
                over.remove(back)
                going.append(unit)
        victims = [row for unit in sorted(going, key=lambda each: each.importance) for row in unit.rows]
        return preemption_victims.Candidate(slot, tuple(victims), sum(row in violating for row in victims))

    async def _verdict(self, slot: int, over: overlay.SnapshotOverlay) -> int:
        at = np.array([slot], dtype=np.intp)
        return int((await preemption_victims.verdicts(self._dry_run, self._services, at, over))[0])
