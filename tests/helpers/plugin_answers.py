"""What in-tree plugins answer about the nodes of a snapshot, by node name."""

from typing import Any

import numpy as np

from tests.helpers.snapshot_views import SnapshotBuilder
from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.snapshot import classes
from trireme.v1 import core_pb2


def class_of(pod: core_pb2.Pod, number: int = 99) -> classes.PodClass:
    """A class that is not in the snapshot: of a pod that waits."""
    return classes.PodClass(number, pod)


class Answers:
    """One plugin's answers about one class on all nodes of a snapshot."""

    def __init__(self, builder: SnapshotBuilder, plugin: Any, pod: core_pb2.Pod) -> None:
        self._snap = builder.snap
        self._plugin = plugin
        self._class = class_of(pod)
        self._table = interfaces.StatusTable()

    @property
    def pre_filter(self) -> interfaces.PreFilterResult:
        """PreFilter's answer."""
        answer: interfaces.PreFilterResult = self._plugin.pre_filter(self._class, self._snap, self._table)
        return answer

    def refusals(self) -> dict[str, status.Status]:
        """Why nodes refuse; nodes that pass are left out."""
        verdicts = self._verdicts()
        return {
            name: self._table.statuses[int(index) - 1]
            for name, index in zip(self._names(), verdicts.index, strict=True)
            if index != interfaces.PASSES
        }

    def messages(self) -> dict[str, tuple[str, ...]]:
        """The messages of refusals."""
        return {name: refusal.messages for name, refusal in self.refusals().items()}

    def copies(self) -> dict[str, int]:
        """How many copies fit on each node."""
        capacity = self._verdicts().capacity
        assert capacity is not None
        return dict(zip(self._names(), capacity.tolist(), strict=True))

    def scores(self) -> dict[str, int] | None:
        """Raw scores; None where the plugin has nothing to say."""
        state = self._plugin.pre_score(self._class, self._snap)
        if state is None:
            return None
        raw = self._plugin.score(self._class, self._snap, state, self._slots())
        return dict(zip(self._names(), raw.tolist(), strict=True))

    def scores_after_copies(self, copies: int) -> dict[str, list[int]]:
        """Raw scores for the first copy, the second, and so on."""
        state = self._plugin.pre_score(self._class, self._snap)
        rows = self._plugin.score_copies(self._class, self._snap, state, self._slots(), copies)
        return dict(zip(self._names(), rows.tolist(), strict=True))

    def _verdicts(self) -> interfaces.Verdicts:
        answer = self.pre_filter
        assert not answer.skip
        assert answer.status is None
        verdicts: interfaces.Verdicts = self._plugin.filter(
            self._class, self._snap, answer.state, self._slots(), self._table
        )
        return verdicts

    def _slots(self) -> Any:
        return np.flatnonzero(self._snap.nodes.alive[: self._snap.nodes.size])

    def _names(self) -> list[str]:
        return [self._snap.nodes.names[slot] for slot in self._slots()]
