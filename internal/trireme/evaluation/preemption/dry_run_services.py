"""The filter plugins that are services of their own, called in preemption's dry runs.

A service that depends on the node alone is believed: no victim changes its column. The others are called about each
node with its victims removed: once beside the pods that are nominated to the node, where there are such, and once
without them, as the filters of this process are. They are called in the profile's order, each about what those before
it passed.
"""

from collections.abc import Sequence

import numpy as np

from trireme.evaluation.filtering import columns, filter_chain, nominated_pods
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, classes, snapshot


def of(
    chain: filter_chain.FilterChain,
    kept: columns.ClassColumns,
    pod_class: classes.PodClass,
    snap: snapshot.Snapshot,
    nominees: nominated_pods.Nominees,
) -> "DryRunServices | None":
    """The services that have to be asked; None where there are none."""
    asked = [
        remote
        for remote in chain.asynchronous
        if remote.depends_on is not interfaces.Dependency.NODE
        and remote.name in kept.plugins
        and not kept.plugins[remote.name].prefilter.skip
    ]
    return DryRunServices(asked, kept, pod_class, snap, nominees) if asked else None


class DryRunServices:
    """Asks about one class; see preemption_victims.Services."""

    def __init__(
        self,
        asked: Sequence[interfaces.AsyncFilter],
        kept: columns.ClassColumns,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        nominees: nominated_pods.Nominees,
    ) -> None:
        self.names = frozenset(remote.name for remote in asked)
        self._asked = asked
        self._kept = kept
        self._class = pod_class
        self._snap = snap
        self._nominees = nominees

    @property
    def one_by_one(self) -> bool:
        """What is so on one node may change what one of them says of another."""
        return any(remote.depends_on is interfaces.Dependency.CLUSTER for remote in self._asked)

    async def verdicts(self, slots: arrays.SlotArray, gone: arrays.SlotArray) -> arrays.Int16Array:
        """What they say of each slot as if these rows were gone. Shape: (slot asked,)."""
        on = self._snap.pods.slot[gone]
        return await self.dry_runs([interfaces.DryRun(slot, gone[on == slot].tolist()) for slot in slots.tolist()])

    async def dry_runs(self, wanted: Sequence[interfaces.DryRun]) -> arrays.Int16Array:
        """What they say of nodes as if they were so. Shape: (node asked,)."""
        index = np.zeros(len(wanted), dtype=np.int16)
        for remote in self._asked:
            left = np.flatnonzero(index == interfaces.PASSES)
            if not left.size:
                break
            runs, owners = [], []
            for at in left.tolist():
                run = wanted[at]
                nominated = self._nominees.class_ids[self._nominees.slots == run.slot].tolist()
                for besides in ([nominated] if nominated else []) + [[]]:
                    runs.append(interfaces.DryRun(run.slot, run.removed_rows, [*run.added_classes, *besides]))
                    owners.append(at)
            said = await self._ask(remote, runs)
            # Of a node that was asked about twice the first refusal counts.
            for at, number in reversed(list(zip(owners, said.tolist(), strict=True))):
                index[at] = number or index[at]
        return index

    async def _ask(self, remote: interfaces.AsyncFilter, runs: Sequence[interfaces.DryRun]) -> arrays.Int16Array:
        table, state = self._kept.table, self._kept.plugins[remote.name].prefilter.state
        return (await remote.dry_runs(self._class, self._snap, state, runs, table)).index
