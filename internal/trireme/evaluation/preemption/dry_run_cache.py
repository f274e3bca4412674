"""The results of dry runs for one class, by slot, for the next preemptor of the class.

Preemptors of one class often come in a row, and between two of them little changes: the node that the first one is
nominated to, and the nodes whose pods were deleted. Where the result on a node follows from the node, its pods and the
pods nominated to it alone, it holds for the next preemptor until one of these changes. Nothing is cached where a plugin
depends on the whole cluster, plugins are asynchronous, or disruption budgets count victims.

Tests: tests/unit/evaluation/test_preemption_victims.py, tests/unit/evaluation/test_post_filter_results.py.
"""

from collections.abc import MutableMapping, Sequence
from typing import Protocol

from trireme.evaluation.filtering import class_verdicts
from trireme.evaluation.preemption import dry_run
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, pods, snapshot
from trireme.v1 import cycle_pb2

# The result on one slot: the candidate, or the number of the status that refuses the pod.
SlotResult = dry_run.Candidate | int

# About the memory of one slot's result, in bytes.
_RESULT_BYTES = 300


class DryRunCache:
    """Results of dry runs for one class by slot, as of the generation of the last refresh."""

    def __init__(self, reads: Sequence[tuple[str, ...]]) -> None:
        """`reads` are the kinds of object that the class's plugins depend on beside nodes and pods."""
        self.results: dict[int, SlotResult] = {}
        self._reads = reads
        self._generation = -1

    @property
    def nbytes(self) -> int:
        """Memory, in bytes, about."""
        return _RESULT_BYTES * len(self.results)

    def refresh(self, snap: snapshot.Snapshot) -> None:
        """Drop the results that may not hold any more."""
        if any(snap.last_change(reads) > self._generation for reads in self._reads):
            self.results.clear()
        elif self.results:
            for slot in snap.nodes.differing_since(self._generation).tolist():
                self.results.pop(slot, None)
        self._generation = snap.generation


class DryRuns(Protocol):
    """Dry runs for one pod.

    Implementers: trireme.evaluation.preemption.dry_run.DryRun,
    trireme.evaluation.preemption.whole_group_dry_run.WholeGroupDryRun,
    trireme.evaluation.preemption.dry_run_cache._CachedDryRuns.
    """

    async def run(self, slots: arrays.SlotArray) -> dry_run.DryRunResult:
        """Try these slots, which all have potential victims."""
        ...


def dry_runs_with_cache(
    runs: DryRuns,
    class_columns: class_verdicts.ClassVerdicts,
    snap: snapshot.Snapshot,
    plugins: Sequence[interfaces.FilterPlugin],
    cycle: cycle_pb2.Cycle,
    pending: MutableMapping[int, SlotResult | None],
) -> DryRuns:
    """Return dry runs for the cycle's pod that use the cache of its class.

    `pending` are the results on slots with nominations that are not in the snapshot yet; None: not known.
    """
    # Results name statuses by their numbers in the columns' table: columns that are made anew begin with no results.
    key = ("dry_runs", class_columns.identity)
    cache = snap.derived(key, lambda _: DryRunCache([plugin.reads for plugin in plugins]))
    own = snap.nominations.get(cycle.pod.metadata.uid)
    return _CachedDryRuns(cache, runs, pods.NO_SLOT if own is None else own.slot, pending)


class _CachedDryRuns:
    """Runs what is not in the cache."""

    def __init__(
        self, cache: DryRunCache, runs: DryRuns, own_slot: int, pending: MutableMapping[int, SlotResult | None]
    ) -> None:
        """`own_slot` is the slot that the pod is nominated to: the result there holds for this pod alone."""
        self._cache = cache
        self._runs = runs
        self._own_slot = own_slot
        self._pending = pending

    async def run(self, slots: arrays.SlotArray) -> dry_run.DryRunResult:
        """Return the results of these slots, cached where nothing has changed since; all have potential victims.

        Results of nominations in this call count before cached ones. Dry runs are made for slots without a result, and
        for the slot where the preemptor itself is nominated.
        """
        results = list(map(self._cache.results.get, slots.tolist()))
        if self._pending:
            for at, slot in enumerate(slots.tolist()):
                if slot in self._pending:
                    results[at] = self._pending[slot]
        missing = [
            at
            for at, (slot, result) in enumerate(zip(slots.tolist(), results, strict=True))
            if result is None or slot == self._own_slot
        ]
        if missing:
            found = await self._runs.run(slots[missing])
            fresh = self._store_reusable_results(found)
            if len(missing) == slots.size:
                return found
            for at in missing:
                results[at] = fresh[int(slots[at])]
        candidates = tuple(each for each in results if isinstance(each, dry_run.Candidate))
        refused = [(slot, each) for slot, each in zip(slots.tolist(), results, strict=True) if isinstance(each, int)]
        return dry_run.DryRunResult(candidates, tuple(refused))

    def _store_reusable_results(self, found: dry_run.DryRunResult) -> dict[int, SlotResult]:
        """Store the results that hold for other pods; return all of them, by slot."""
        fresh: dict[int, SlotResult] = dict(found.refused)
        fresh.update((candidate.slot, candidate) for candidate in found.candidates)
        for slot, each in fresh.items():
            if slot in self._pending:
                self._pending[slot] = each
            elif slot != self._own_slot:
                self._cache.results[slot] = each
        return fresh
