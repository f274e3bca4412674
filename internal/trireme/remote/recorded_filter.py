"""A remote filter plugin of a recording: it answers what the recorded answer of Filter says that it answered.

That answer names for each node the first plugin that refused it. So the plugin's verdict on a node is known, unless
another one refused the node before; then it does not count for Filter. It counts in dry runs of preemption, which may
lift the refusal of the other one: what they read is recorded with their own decision.

Also change: internal/trireme/remote/remote_filter.py,
internal/trireme/remote/remote_score.py (filter and score are alike here).

Tests: tests/unit/remote/test_recorded_filter.py, tests/unit/replay/test_decision_replay.py,
tests/contract/test_recorded_remote_answers.py.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.remote import recorded_plugins
from trireme.snapshot import arrays, classes, snapshot, snapshot_view
from trireme.v1 import decision_pb2
from trireme.wire import node_columns
from trireme.wire import status as wire_status


class RecordedAnswer:
    """The answer of the decision that is made again, for all remote plugins of its profile."""

    def __init__(self) -> None:
        self.pre_filter: status.Status | None = None
        self.columns: node_columns.NodeColumns | None = None
        self._recorded: node_columns.NodeColumns | None = None
        #: The class that it is about, and whether the decision that is made is Filter's own.
        self.pod_class = 0
        self.filtering = False
        #: Whether the decision is on the cluster that this answer is about.
        self.is_of_now = True
        #: The slots that have the same node as then; None: all. Shape: (slot,).
        self.same_nodes: arrays.BoolArray | None = None

    def take(self, pod_class: int, about: decision_pb2.FilterDecision) -> None:
        """The decision that is made next. Raises: ValueError for columns that do not fit together."""
        self.pod_class, self.is_of_now, self.same_nodes = pod_class, True, None
        self.pre_filter = wire_status.from_message(about.pre_filter) if about.HasField("pre_filter") else None
        self._recorded = self.columns = node_columns.from_message(about.columns) if about.HasField("columns") else None

    def assume(self, slots: Sequence[int]) -> None:
        """Pods of the class were placed on these slots since: so many fewer copies fit. Replaces the earlier ones."""
        recorded = self._recorded
        if recorded is None:
            return
        taken = np.bincount(np.array(slots, dtype=np.intp), minlength=recorded.size)[: recorded.size]
        left = np.maximum(recorded.capacity.astype(np.int64) - taken, 0).astype(np.int32)
        self.columns = dataclasses.replace(recorded, capacity=left)


class _RecordedVerdicts:
    """The recorded answer about the nodes for one class; nothing is stored."""

    unanswered = False
    nbytes = 0

    def __init__(self, plugin: "RecordedFilterPlugin", pod_class: int) -> None:
        self._plugin = plugin
        self._pod_class = pod_class

    def read(self, slots: arrays.SlotArray, table: interfaces.StatusTable) -> interfaces.Verdicts:
        """The verdicts of the answer that is decided again. Raises: MissingAnswerError."""
        return self._plugin.verdicts_about(self._pod_class, slots, table)


class RecordedFilterPlugin:
    """A remote filter plugin, for one profile. Its columns are not to be cached from one decision to the next."""

    def __init__(
        self,
        name: str,
        depends_on: interfaces.Dependency,
        answer: RecordedAnswer,
        answers: recorded_plugins.RemoteAnswers,
    ) -> None:
        """`answers` has the verdicts on dry runs."""
        self.name = name
        self.depends_on = depends_on
        self._answer = answer
        self._answers = answers

    async def pre_filter(self, pod_class: classes.PodClass, snap: snapshot.Snapshot) -> interfaces.PreFilterResult:
        """The recorded refusal of all nodes, if it is this plugin's."""
        refusal = self._answer.pre_filter
        return interfaces.PreFilterResult(
            status=refusal if refusal and refusal.plugin == self.name else None,
            state=_RecordedVerdicts(self, pod_class.id),
        )

    async def prepare(
        self,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: Any,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> status.Status | None:
        """Nothing is to be found out."""
        return None

    def filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        state: Any,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """What dry runs read of these nodes. Raises: MissingAnswerError."""
        if self._answer.filtering:
            return self.verdicts_about(pod_class.id, slots, table)
        return self._verdicts_in_dry_run(pod_class, slots, table)

    def verdicts_about(
        self, pod_class: int, slots: arrays.SlotArray, table: interfaces.StatusTable
    ) -> interfaces.Verdicts:
        """The recorded refusals that are this plugin's, and how many copies fit where nobody refuses.

        Raises: MissingAnswerError for another class than the last answer's.
        """
        index = np.zeros(slots.shape[0], dtype=np.int16)
        capacity = np.full(slots.shape[0], interfaces.UNLIMITED, dtype=np.int32)
        if pod_class != self._answer.pod_class:
            if not self._answer.filtering:
                # What is decided beside Filter reads verdicts in dry runs alone.
                return interfaces.Verdicts(index, capacity)
            raise recorded_plugins.MissingAnswerError(f"the answer of {self.name} about nodes for class {pod_class}")
        recorded = self._answer.columns
        if recorded is not None:
            known = slots < recorded.index.shape[0]
            numbers = recorded.index[slots[known]]
            index[known] = self._own_numbers(recorded, table)[numbers]
            capacity[known] = np.where(
                numbers == interfaces.PASSES, recorded.capacity[slots[known]], interfaces.UNLIMITED
            )
        return interfaces.Verdicts(index, capacity)

    def _verdicts_in_dry_run(
        self, pod_class: classes.PodClass, slots: arrays.SlotArray, table: interfaces.StatusTable
    ) -> interfaces.Verdicts:
        """What the decision's dry runs read of these nodes, or Filter's answer about them.

        Raises: MissingAnswerError for a node that neither says it of: another plugin refused it before this one.
        """
        found = self._answers.verdicts_of(self.name, pod_class.id)
        if found is None:
            index, known = np.zeros(slots.shape[0], dtype=np.int16), np.zeros(slots.shape[0], dtype=np.bool_)
        else:
            index, known = found.find(slots, table)
        left, recorded = np.flatnonzero(~known), self._answer.columns if self._answer.is_of_now else None
        if left.size and recorded is not None and pod_class.id == self._answer.pod_class:
            left = left[slots[left] < recorded.index.shape[0]]
            numbers = recorded.index[slots[left]]
            index[left] = own = self._own_numbers(recorded, table)[numbers]
            known[left] = (numbers == interfaces.PASSES) | (own != interfaces.PASSES)
            if self._answer.same_nodes is not None:
                known[left] &= self._answer.same_nodes[slots[left]]
        if not known.all():
            raise recorded_plugins.MissingAnswerError(f"the answer of {self.name} about nodes that others refused")
        return interfaces.Verdicts(index)

    def _own_numbers(self, recorded: node_columns.NodeColumns, table: interfaces.StatusTable) -> arrays.Int16Array:
        """By the number of a recorded status, the table's if the refusal is this plugin's; else PASSES."""
        own = np.zeros(len(recorded.statuses) + 1, dtype=np.int16)
        for number, refusing in enumerate(recorded.statuses, start=1):
            if refusing.plugin == self.name:
                own[number] = table.intern(refusing)
        return own

    async def dry_runs(
        self,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: Any,
        runs: Sequence[interfaces.DryRun],
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """The recorded verdicts; in Filter as `filter`: of a node with nominated pods its answer says what is found.

        Raises: MissingAnswerError.
        """
        if self._answer.filtering:
            slots = np.array([run.slot for run in runs], dtype=np.intp)
            return self.verdicts_about(pod_class.id, slots, table)
        found = [self._answers.dry_run_of(self.name, pod_class.id, run) for run in runs]
        numbers = [interfaces.PASSES if each is None else table.intern(each) for each in found]
        return interfaces.Verdicts(np.array(numbers, dtype=np.int16))
