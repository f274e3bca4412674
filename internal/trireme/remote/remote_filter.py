"""Remote filter plugins, as evaluation's AsyncFilter.

Each request of the evaluation (a class and some slots) becomes calls of the contract, and the responses become
columns. Many nodes are split over several calls. A failure never raises: by the plugin's policy it becomes an error
status, worded as kube-scheduler words a failing plugin, or is ignored, and then the evaluation continues without the
plugin and prepares it again next time.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.remote import (
    answer_recording,
    call_parts,
    dry_run_request,
    remote_client,
    remote_connection,
    remote_request,
    remote_response,
    shared_answers,
)
from trireme.snapshot import arrays, classes, snapshot, snapshot_view
from trireme.v1 import filter_pb2, plugin_pb2

# The most dry runs in one call; each contains the removed pods.
RUNS_PER_CALL = 200

_PRE_FILTER = remote_connection.Method("/trireme.v1.FilterPlugin/PreFilter", filter_pb2.PreFilterResponse)
_FILTER = remote_connection.Method("/trireme.v1.FilterPlugin/Filter", filter_pb2.FilterResponse)
_FILTER_DRY_RUN = remote_connection.Method("/trireme.v1.FilterPlugin/FilterDryRun", filter_pb2.FilterDryRunResponse)


class RemoteFilterState:
    """What a plugin answered about one class: PreFilter's state and, by slot, verdicts. Shapes: (slot,).

    `as_of` is the generation of the snapshot when the last call began; `unanswered`: its failure was ignored.
    """

    __slots__ = ("as_of", "capacity", "index", "pre_filter", "unanswered")

    def __init__(self, pre_filter: bytes) -> None:
        self.pre_filter = pre_filter
        self.index = np.zeros(0, dtype=np.int16)
        self.capacity = np.zeros(0, dtype=np.int32)
        self.as_of = -1
        self.unanswered = False

    def write(self, slots: arrays.SlotArray, verdicts: interfaces.Verdicts) -> None:
        """Store the verdicts about these slots."""
        self._ensure_capacity(slots)
        self.index[slots] = verdicts.index
        self.capacity[slots] = interfaces.UNLIMITED if verdicts.capacity is None else verdicts.capacity

    def read(self, slots: arrays.SlotArray) -> interfaces.Verdicts:
        """The verdicts about these slots."""
        self._ensure_capacity(slots)
        return interfaces.Verdicts(
            self.index[slots], self.capacity[slots], as_of=self.as_of, unanswered=self.unanswered
        )

    def _ensure_capacity(self, slots: arrays.SlotArray) -> None:
        """Grow the columns to include the slots."""
        size = int(slots.max(initial=-1)) + 1
        if self.index.shape[0] < size:
            self.index = arrays.grow_last_axis(self.index, size)
            self.capacity = arrays.grow_last_axis(self.capacity, size)


class RemoteFilterPlugin:
    """A remote filter plugin, for one profile."""

    def __init__(self, client: remote_client.PluginClient, profile: str) -> None:
        self.name = client.name
        self.depends_on = client.depends_on
        self._client = client
        self._profile = profile
        self._shared: shared_answers.SharedAnswers[interfaces.PreFilterResult, np.int16] = shared_answers.SharedAnswers(
            np.int16
        )
        #: What its answers would change, if it is in mode Shadow.
        self.comparisons = client.connection.comparisons

    async def pre_filter(self, pod_class: classes.PodClass, snap: snapshot.Snapshot) -> interfaces.PreFilterResult:
        """Call PreFilter; a failure becomes an error status, or a skip if the policy ignores it."""
        client = self._client
        result = interfaces.PreFilterResult(state=b"")
        if client.serves(plugin_pb2.EXTENSION_POINT_PRE_FILTER):
            try:
                result = await self._shared_pre_filter(pod_class, snap)
            except remote_connection.PluginError as error:
                return self._result_of_failed_pre_filter(str(error))
            if result.status is not None and result.status.code is status.Code.ERROR:
                return self._result_of_failed_pre_filter(result.status.message)
        if not client.serves(plugin_pb2.EXTENSION_POINT_FILTER) and result.status is None and result.nodes is None:
            return interfaces.SKIPPED
        return dataclasses.replace(result, state=RemoteFilterState(result.state or b""))

    async def prepare(
        self,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: RemoteFilterState,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> status.Status | None:
        """Call Filter about the slots, and keep the verdicts in `state`; a status: the plugin failed.

        If the policy ignores that, the nodes pass for now (`unanswered`), and it is called again next time.
        """
        generation = snap.generation
        verdicts = await self._filter(pod_class, snap, state, slots, table)
        if isinstance(verdicts, status.Status):
            return verdicts
        state.unanswered = verdicts is None
        passes = interfaces.Verdicts(np.zeros(slots.shape[0], dtype=np.int16))
        state.write(slots, passes if verdicts is None else verdicts)
        state.as_of = generation
        return None

    def filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        state: RemoteFilterState,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """The plugin's verdicts, as of its last call."""
        verdicts = state.read(slots)
        if snap.dry_run is not None:
            answer_recording.add_verdicts(self.name, pod_class.id, slots, verdicts.index, table)
        return verdicts

    async def dry_runs(
        self,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: RemoteFilterState,
        runs: Sequence[interfaces.DryRun],
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """Filter dry runs: nodes with some pods removed and others added.

        A failure refuses all, or passes all if the policy ignores it.
        """
        client = self._client
        newest = client.newest_generation(snap.generation)
        cycle = client.cycle(self._profile, pod_class, snap.generation, state.pre_filter)
        index = np.zeros(len(runs), dtype=np.int16)
        parts = [slice(start, start + RUNS_PER_CALL) for start in range(0, len(runs), RUNS_PER_CALL)]

        async def call_dry_run_part(part: slice, request: bytes) -> None:
            def read_dry_run_answers(response: filter_pb2.FilterDryRunResponse) -> status.Status | None:
                count = len(runs[part])
                answers = remote_response.read_filter(response, self.name, count, self.depends_on, newest)
                index[part] = answers.intern(table)
                return answers.error()

            error_status = await client.connection.call(_FILTER_DRY_RUN, request, read_dry_run_answers)
            if error_status is not None:
                raise call_parts.PluginFailed(error_status.message)

        requests = ((part, dry_run_request.serialize_request(cycle, client, snap, runs[part])) for part in parts)
        try:
            await call_parts.call_in_parts(requests, call_dry_run_part)
        except (remote_connection.PluginError, call_parts.PluginFailed) as error:
            failed = self._status_of_failed_filter(str(error))
            index[:] = interfaces.PASSES if failed is None else table.intern(failed)
        answer_recording.add_dry_runs(self.name, pod_class.id, runs, index, table)
        return interfaces.Verdicts(index)

    def _answers_to_share(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot
    ) -> shared_answers.AnswersAboutPod[interfaces.PreFilterResult, np.int16] | None:
        """The answers about the class's pod as the plugin gets it; None: they hold for this class alone."""
        return self._shared.about(snap, self._client.pods.of(pod_class)) if self._client.shares_answers else None

    async def _shared_pre_filter(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot
    ) -> interfaces.PreFilterResult:
        """PreFilter's answer, which other classes share if it is no refusal. Raises: PluginError."""

        async def call_pre_filter() -> interfaces.PreFilterResult:
            client = self._client
            return await client.connection.call(
                _PRE_FILTER,
                remote_request.pre_filter(client.cycle(self._profile, pod_class, snap.generation, b"")),
                lambda response: remote_response.read_pre_filter(response, self.name),
            )

        shared = self._answers_to_share(pod_class, snap)
        if shared is None:
            return await call_pre_filter()
        return await shared.first_answer(call_pre_filter, lambda answer: answer.status is None)

    async def _filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: RemoteFilterState,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts | status.Status | None:
        """Find Filter's verdicts on the slots; returns a status if the plugin failed, None if the policy ignores that.

        The plugin is called about those on which it has not answered for another class that is equal to it.
        """
        shared = self._answers_to_share(pod_class, snap)
        try:
            if shared is None:
                return await self._call_filter(pod_class, snap, state, slots, table)

            async def call_filter(missing: arrays.SlotArray) -> arrays.Int16Array:
                return (await self._call_filter(pod_class, snap, state, missing, shared.statuses)).index

            numbers = await shared.complete(snap, slots, state.pre_filter, call_filter)
        except (remote_connection.PluginError, call_parts.PluginFailed) as error:
            return self._status_of_failed_filter(str(error))
        # A plugin that depends on the node alone sets no limit where it lets pods pass.
        return interfaces.Verdicts(table.translate(shared.statuses.statuses, numbers))

    async def _call_filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: RemoteFilterState,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """Call Filter about the slots, in parts. Raises: PluginError, PluginFailed."""
        client = self._client
        newest = client.newest_generation(snap.generation)
        cycle = client.cycle(self._profile, pod_class, snap.generation, state.pre_filter)
        index = np.zeros(slots.shape[0], dtype=np.int16)
        capacity = np.full(slots.shape[0], interfaces.UNLIMITED, dtype=np.int32)

        async def call_filter_part(part: slice, selection: bytes) -> None:
            def read_filter_answers(response: filter_pb2.FilterResponse) -> status.Status | None:
                count = part.stop - part.start
                answers = remote_response.read_filter(response, self.name, count, self.depends_on, newest)
                error_status = answers.error()
                if error_status is None:
                    index[part] = answers.intern(table)
                    capacity[part] = answers.capacity
                return error_status

            error_status = await client.connection.call(
                _FILTER, remote_request.filter_nodes(cycle, selection), read_filter_answers
            )
            if error_status is not None:
                raise call_parts.PluginFailed(error_status.message)

        await call_parts.call_in_parts(client.nodes.split(snap.nodes, slots), call_filter_part)
        return interfaces.Verdicts(index, capacity)

    def _status_of_failed_filter(self, detail: str) -> status.Status | None:
        """The error of a failed Filter; None: the policy ignores it."""
        return self._client.apply_failure_policy(f'running "{self.name}" filter plugin', detail)

    def _result_of_failed_pre_filter(self, detail: str) -> interfaces.PreFilterResult:
        """The result of a failed PreFilter: an error, or a skip that is not cached if the policy ignores it."""
        failed = self._client.apply_failure_policy(f'running PreFilter plugin "{self.name}"', detail)
        return interfaces.PreFilterResult(status=failed, skip=failed is None, unanswered=failed is None)
