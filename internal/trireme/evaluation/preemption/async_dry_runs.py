"""Runs asynchronous filter plugins, such as remote ones, in the dry runs of preemption.

The column of an asynchronous plugin that depends on the node alone holds: no victim changes it. The others are called
about each node with its victims removed: once beside the pods nominated to the node, if there are any, and once without
them, as the synchronous plugins are. They are called in the profile's order, each about the nodes that passed those
before it.

Tests: tests/unit/evaluation/test_dry_run.py, tests/contract/test_recorded_dry_runs.py.
"""

from collections.abc import Sequence

import numpy as np

from trireme.evaluation.filtering import class_verdicts, filter_chain, nominated_pods
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, classes, snapshot


def async_dry_runs_of_class(
    chain: filter_chain.FilterChain,
    class_columns: class_verdicts.ClassVerdicts,
    pod_class: classes.PodClass,
    snap: snapshot.Snapshot,
    nominees: nominated_pods.Nominees,
) -> "AsyncDryRuns | None":
    """Return the dry runs of the plugins that have to be called for the class; None if there are none."""
    plugins = [
        plugin
        for plugin in chain.asynchronous
        if plugin.depends_on is not interfaces.Dependency.NODE
        and plugin.name in class_columns.plugins
        and not class_columns.plugins[plugin.name].prefilter.skip
    ]
    return AsyncDryRuns(plugins, class_columns, pod_class, snap, nominees) if plugins else None


class AsyncDryRuns:
    """Calls asynchronous plugins about one class."""

    def __init__(
        self,
        plugins: Sequence[interfaces.AsyncFilter],
        class_columns: class_verdicts.ClassVerdicts,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        nominees: nominated_pods.Nominees,
    ) -> None:
        self.names = frozenset(plugin.name for plugin in plugins)
        self._plugins = plugins
        self._columns = class_columns
        self._class = pod_class
        self._snap = snap
        self._nominees = nominees

    @property
    def slots_affect_each_other(self) -> bool:
        """Whether a change on one node may change the verdict on another."""
        return any(plugin.depends_on is interfaces.Dependency.CLUSTER for plugin in self._plugins)

    async def filter_slots(self, slots: arrays.SlotArray, removed: arrays.RowArray) -> arrays.Int16Array:
        """Filter each slot with these rows removed. Shape of the result: (slot,), numbers of the class's statuses."""
        on = self._snap.pods.slot[removed]
        return await self.run([interfaces.DryRun(slot, removed[on == slot].tolist()) for slot in slots.tolist()])

    async def run(self, dry_runs: Sequence[interfaces.DryRun]) -> arrays.Int16Array:
        """Filter these hypothetical nodes by each asynchronous plugin, in order, those that passed before.

        Where nominated pods count, a node is tried with and without them, and the first refusal counts. Shape of the
        result: (dry run,), numbers of the class's statuses.
        """
        index = np.zeros(len(dry_runs), dtype=np.int16)
        for plugin in self._plugins:
            passing = np.flatnonzero(index == interfaces.PASSES)
            if not passing.size:
                break
            runs, owners = [], []
            for at in passing.tolist():
                for run in self._with_and_without_nominees(dry_runs[at]):
                    runs.append(run)
                    owners.append(at)
            table, state = self._columns.table, self._columns.plugins[plugin.name].prefilter.state
            verdicts = await plugin.dry_runs(self._class, self._snap, state, runs, table)
            # The first refusal of two runs about one node counts.
            for at, number in reversed(list(zip(owners, verdicts.index.tolist(), strict=True))):
                index[at] = number or index[at]
        return index

    def _with_and_without_nominees(self, run: interfaces.DryRun) -> Sequence[interfaces.DryRun]:
        """The hypothetical nodes to try: with the pods nominated there, then without; one where there are none."""
        nominated = self._nominees.class_ids[self._nominees.slots == run.slot].tolist()
        if not nominated:
            return (run,)
        return interfaces.DryRun(run.slot, run.removed_rows, [*run.added_classes, *nominated]), run
