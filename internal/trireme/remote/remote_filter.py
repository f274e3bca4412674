"""Remote filter plugins, as evaluation's AsyncFilter.

Each request of the evaluation (a class and some slots) becomes calls of the contract, and the responses become
columns. Many nodes are split over several calls. A failure never raises: by the plugin's policy it becomes an error
status, worded as kube-scheduler words a failing plugin, or is ignored, and then the evaluation continues without the
plugin and prepares it again next time.

Also change: protos/trireme/v1/filter.proto (the messages).
Also change: internal/trireme/remote/remote_score.py,
internal/trireme/remote/recorded_filter.py (filter and score are alike here).

Tests: tests/unit/remote/test_remote_filter.py, tests/contract/test_plugin_client.py,
tests/contract/test_plugin_evaluation.py, tests/contract/test_plugin_dry_runs.py.
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
    filter_state,
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


FilterState = filter_state.RemoteFilterState | filter_state.SharedFilterState


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
        client, table = self._client, snap.nodes
        shared = self._shared.about(snap, client.pods.of(pod_class)) if client.shares_answers else None
        result = interfaces.PreFilterResult(state=b"")
        if client.serves(plugin_pb2.EXTENSION_POINT_PRE_FILTER):
            try:
                result = await self._find_pre_filter(pod_class, snap, shared)
            except remote_connection.PluginError as error:
                return self._result_of_failed_pre_filter(str(error))
            if result.status is not None and result.status.code is status.Code.ERROR:
                return self._result_of_failed_pre_filter(result.status.message)
        if not client.serves(plugin_pb2.EXTENSION_POINT_FILTER) and result.status is None and result.nodes is None:
            return interfaces.SKIPPED
        content = result.state or b""
        if shared is None:
            return dataclasses.replace(result, state=filter_state.RemoteFilterState(content))
        return dataclasses.replace(result, state=filter_state.SharedFilterState(content, shared, table))

    async def prepare(
        self,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: FilterState,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> status.Status | None:
        """Call Filter about the slots, and store the verdicts in `state`; a status: the plugin failed.

        If the policy ignores that, the nodes pass for now (`unanswered`), and it is called again next time.
        """

        async def call_filter(about: arrays.SlotArray, statuses: interfaces.StatusTable) -> interfaces.Verdicts:
            return await self._call_filter(pod_class, snap, state.pre_filter, about, statuses)

        if isinstance(state, filter_state.SharedFilterState):
            self._shared.about(snap, self._client.pods.of(pod_class), state.answers)
        try:
            await state.update(snap, slots, table, call_filter)
        except (remote_connection.PluginError, call_parts.PluginFailed) as error:
            failed = self._apply_filter_failure(str(error))
            if failed is not None:
                return failed
            state.pass_for_now(slots)
            state.unanswered = True
            return None
        state.unanswered = False
        return None

    def filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot_view.SnapshotView,
        state: FilterState,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """The plugin's verdicts, as of its last call; a dry run that is recorded reads them."""
        verdicts = state.read(slots, table)
        answer_recording.add_verdicts(self.name, pod_class.id, slots, verdicts.index, table)
        return verdicts

    async def dry_runs(
        self,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: FilterState,
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
            failed = self._apply_filter_failure(str(error))
            index[:] = interfaces.PASSES if failed is None else table.intern(failed)
        answer_recording.add_dry_runs(self.name, pod_class.id, runs, index, table)
        return interfaces.Verdicts(index)

    async def _find_pre_filter(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, shared: filter_state.SharedVerdicts | None
    ) -> interfaces.PreFilterResult:
        """PreFilter's answer; the classes of `shared` have the same, if it is no refusal. Raises: PluginError."""

        async def call_pre_filter() -> interfaces.PreFilterResult:
            client = self._client
            return await client.connection.call(
                _PRE_FILTER,
                remote_request.pre_filter(client.cycle(self._profile, pod_class, snap.generation, b"")),
                lambda response: remote_response.read_pre_filter(response, self.name),
            )

        if shared is None:
            return await call_pre_filter()
        return await shared.first_answer(call_pre_filter, lambda answer: answer.status is None)

    async def _call_filter(
        self,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        pre_filter: bytes,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts:
        """Call Filter about the slots, in parts. Raises: PluginError, PluginFailed."""
        client = self._client
        newest = client.newest_generation(snap.generation)
        cycle = client.cycle(self._profile, pod_class, snap.generation, pre_filter)
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

    def _apply_filter_failure(self, detail: str) -> status.Status | None:
        """The error of a failed Filter; None: the policy ignores it."""
        return self._client.apply_failure_policy(f'running "{self.name}" filter plugin', detail)

    def _result_of_failed_pre_filter(self, detail: str) -> interfaces.PreFilterResult:
        """The result of a failed PreFilter: an error, or a skip that is not cached if the policy ignores it."""
        failed = self._client.apply_failure_policy(f'running PreFilter plugin "{self.name}"', detail)
        return interfaces.PreFilterResult(status=failed, skip=failed is None, unanswered=failed is None)
