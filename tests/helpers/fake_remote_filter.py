"""A remote filter plugin without a process: the base of fakes that decide in the test."""

import abc
from typing import Any

import numpy as np

from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.remote import filter_state
from trireme.snapshot import arrays, classes, snapshot, snapshot_view


class FakeRemoteFilter(abc.ABC):
    """Judges the nodes as they are when its call begins, and answers after `answering`."""

    def __init__(self, name: str, depends_on: interfaces.Dependency) -> None:
        self.name = name
        self.depends_on = depends_on

    @abc.abstractmethod
    def passes(self, snap: snapshot.Snapshot, slot: int) -> bool:
        """Whether the plugin lets the node at the slot take pods."""

    async def answering(self) -> status.Status | None:
        """What happens while the plugin answers; a status: it fails with that."""
        return None

    @property
    def unanswered(self) -> bool:
        """Whether it failed and its failure policy ignores that."""
        return False

    async def pre_filter(self, pod_class: classes.PodClass, snap: snapshot.Snapshot) -> interfaces.PreFilterResult:
        """Nothing, and the state that `prepare` fills."""
        return interfaces.PreFilterResult(state=filter_state.RemoteFilterState(b""))

    async def prepare(
        self,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: filter_state.RemoteFilterState,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> status.Status | None:
        """The call: ask about the nodes at the slots, and note the answers in the state."""
        passing = [self.passes(snap, slot) for slot in slots.tolist()]
        failure = await self.answering()
        if failure is not None:
            return failure
        refusal = table.intern(status.unschedulable(self.name, "no"))
        index = [0 if self.unanswered or passes else refusal for passes in passing]
        state.write(slots, interfaces.Verdicts(np.array(index, dtype=np.int16)))
        state.unanswered = self.unanswered
        return None

    def filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        state: filter_state.RemoteFilterState,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """The answers that were noted."""
        return state.read(slots, table)

    async def dry_runs(self, *request: Any) -> interfaces.Verdicts:
        """The plugin's answer about nodes as they would be."""
        raise AssertionError("not part of these tests")
