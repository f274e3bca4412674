"""What preemption's dry runs of one class found, slot by slot, for the next preemptor of the class.

Preemptors come in crowds of one class, and between two of them little changes: the node that the first was promised,
and those whose pods went. Where an answer about a node follows from that node, its pods and who is nominated to it
alone, it holds for the next preemptor until one of these changes. Where a plugin looks at the whole cluster, a service
is asked, or disruption budgets count what goes, nothing is remembered.
"""

from collections.abc import MutableMapping, Sequence
from typing import Protocol

from trireme.evaluation.filtering import columns
from trireme.evaluation.preemption import preemption_victims
from trireme.plugin_api import interfaces
from trireme.snapshot import arrays, pods, snapshot
from trireme.v1 import cycle_pb2

Found = preemption_victims.Candidate | int

# About what one slot's outcome takes, in bytes.
_OUTCOME_BYTES = 300


class DryRunMemory:
    """Outcomes by slot, as they were at the generation: a candidate, or the number of the status that refuses."""

    def __init__(self, reads: Sequence[tuple[str, ...]]) -> None:
        """`reads` is what the class's plugins read beside nodes and pods."""
        self.outcomes: dict[int, Found] = {}
        self._reads = reads
        self._generation = -1

    @property
    def nbytes(self) -> int:
        """Memory, in bytes, about."""
        return _OUTCOME_BYTES * len(self.outcomes)

    def refresh(self, snap: snapshot.Snapshot) -> None:
        """Forget what may not hold any more."""
        if any(snap.changed(reads) > self._generation for reads in self._reads):
            self.outcomes.clear()
        elif self.outcomes:
            for slot in snap.nodes.differing_since(self._generation).tolist():
                self.outcomes.pop(slot, None)
        self._generation = snap.generation


def remembering(
    kept: columns.ClassColumns,
    runs: "Runs",
    snap: snapshot.Snapshot,
    plugins: Sequence[interfaces.FilterPlugin],
    cycle: cycle_pb2.Cycle,
    decided: MutableMapping[int, Found | None],
) -> "Runs":
    """These runs of the cycle's pod, with what is remembered of its class. `decided` is what is remembered of slots
    about which something was decided in the same call.
    """
    # Outcomes name statuses by their numbers in this table: columns that are made anew begin with no outcomes.
    memory = snap.derived(("dry_runs", kept.table), lambda _: DryRunMemory([plugin.reads for plugin in plugins]))
    own = snap.nominations.get(cycle.pod.metadata.uid)
    return RememberedRuns(memory, runs, pods.NO_SLOT if own is None else own.slot, decided)


class Runs(Protocol):
    """Dry runs of one pod."""

    async def run(self, slots: arrays.SlotArray) -> preemption_victims.Outcome:
        """Try these slots, which all have potential victims."""
        ...


class RememberedRuns:
    """As DryRun, of slots that are not remembered."""

    def __init__(
        self, memory: DryRunMemory, runs: Runs, besides: int, decided: MutableMapping[int, Found | None]
    ) -> None:
        """`besides` is a slot of which the answer holds for this pod alone: it is nominated there. Of the slots in
        `decided` what is there is remembered.
        """
        self._memory = memory
        self._runs = runs
        self._besides = besides
        self._decided = decided

    async def run(self, slots: arrays.SlotArray) -> preemption_victims.Outcome:
        """Try these slots, which all have potential victims."""
        outcomes = list(map(self._memory.outcomes.get, slots.tolist()))
        if self._decided:
            for at, slot in enumerate(slots.tolist()):
                if slot in self._decided:
                    outcomes[at] = self._decided[slot]
        missing = [
            at
            for at, (slot, known) in enumerate(zip(slots.tolist(), outcomes, strict=True))
            if known is None or slot == self._besides
        ]
        if missing:
            found = await self._runs.run(slots[missing])
            fresh = self._remember(found)
            if len(missing) == slots.size:
                return found
            for at in missing:
                outcomes[at] = fresh[int(slots[at])]
        candidates = tuple(each for each in outcomes if isinstance(each, preemption_victims.Candidate))
        refused = [(slot, each) for slot, each in zip(slots.tolist(), outcomes, strict=True) if isinstance(each, int)]
        return preemption_victims.Outcome(candidates, tuple(refused))

    def _remember(self, found: preemption_victims.Outcome) -> dict[int, Found]:
        """Keep what was found for others; answers all of it."""
        fresh: dict[int, Found] = dict(found.refused)
        fresh.update((candidate.slot, candidate) for candidate in found.candidates)
        for slot, each in fresh.items():
            if slot in self._decided:
                self._decided[slot] = each
            elif slot != self._besides:
                self._memory.outcomes[slot] = each
        return fresh
