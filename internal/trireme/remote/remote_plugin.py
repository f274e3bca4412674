"""Remote filter and score plugins, behind the evaluators' plugin interfaces.

Each converts one request of the evaluation (a class and some slots) to calls of the contract, and the responses to
columns. Many nodes are split over several calls, a few at a time. A failure never raises: by the plugin's policy it
becomes an error status, worded as kube-scheduler words a failing plugin, or is ignored, and then the evaluation
continues without the plugin and calls it again next time.

PreScore's state is cached with the class while the plugin's results depend on nodes alone, so a class whose nodes are
already scored costs no call.
"""

import asyncio
import itertools
import weakref
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

import numpy as np

from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.remote import (
    remote_client,
    remote_connection,
    remote_dry_run,
    remote_request,
    remote_response,
    remote_stages,
)
from trireme.snapshot import arrays, classes, derived, snapshot
from trireme.v1 import cycle_pb2, filter_pb2, plugin_pb2, score_pb2, snapshot_pb2

# Concurrent calls of one request.
CALLS_PER_QUESTION = 8

# The most dry runs in one call; each contains the removed pods.
RUNS_PER_CALL = 200

_PRE_FILTER = remote_connection.Method("/trireme.v1.FilterPlugin/PreFilter", filter_pb2.PreFilterResponse)
_FILTER = remote_connection.Method("/trireme.v1.FilterPlugin/Filter", filter_pb2.FilterResponse)
_FILTER_DRY_RUN = remote_connection.Method("/trireme.v1.FilterPlugin/FilterDryRun", filter_pb2.FilterDryRunResponse)
_PRE_SCORE = remote_connection.Method("/trireme.v1.ScorePlugin/PreScore", score_pb2.PreScoreResponse)
_SCORE = remote_connection.Method("/trireme.v1.ScorePlugin/Score", score_pb2.ScoreResponse)
_NORMALIZE = remote_connection.Method("/trireme.v1.ScorePlugin/NormalizeScore", score_pb2.NormalizeScoreResponse)


class RemotePlugins:
    """The remote plugins of one replica; profiles with the same plugin share its connection and concurrency limit."""

    def __init__(
        self,
        snap: snapshot.Snapshot,
        caller_identity: remote_client.CallerIdentity = cycle_pb2.Cycle,
    ) -> None:
        self._snap = snap
        self._caller_identity = caller_identity
        # A connection lives while a plugin chain uses it; a new configuration makes new chains.
        self._connections: weakref.WeakValueDictionary[bytes, remote_connection.PluginConnection] = (
            weakref.WeakValueDictionary()
        )

    def statistics(self) -> Mapping[str, remote_connection.ConnectionStatistics]:
        """The call counters of each plugin in use, by name."""
        return {connection.name: connection.statistics() for connection in list(self._connections.values())}

    def filter_plugin(self, config: snapshot_pb2.RemotePlugin) -> "RemoteFilterPlugin":
        """The plugin for Filter. Raises: ValueError naming the plugin and the field that is wrong."""
        return RemoteFilterPlugin(self._client(config))

    def score_plugin(self, config: snapshot_pb2.RemotePlugin) -> "RemoteScorePlugin":
        """The plugin for Score. Raises: ValueError naming the plugin and the field that is wrong."""
        return RemoteScorePlugin(self._client(config))

    def reserve_plugin(self, config: snapshot_pb2.RemotePlugin) -> remote_stages.RemoteReservePlugin:
        """The plugin for Reserve. Raises: ValueError naming the plugin and the field that is wrong."""
        return remote_stages.RemoteReservePlugin(self._client(config))

    async def close(self) -> None:
        """Abort all calls and disconnect."""
        for connection in list(self._connections.values()):
            await connection.close()

    def _client(self, config: snapshot_pb2.RemotePlugin) -> remote_client.PluginClient:
        key = config.SerializeToString(deterministic=True)
        connection = self._connections.get(key)
        if connection is None:
            connection = remote_connection.PluginConnection(
                config, config_hash=lambda: self._caller_identity().config_hash
            )
            self._connections[key] = connection
        self._snap.keep_nodes(
            messages=config.info.node_data == plugin_pb2.NODE_DATA_MESSAGES,
            json=config.info.node_data == plugin_pb2.NODE_DATA_JSON,
        )
        return remote_client.PluginClient(config, self._caller_identity, connection)


class RemoteFilterPlugin:
    """A remote filter plugin."""

    def __init__(self, client: remote_client.PluginClient) -> None:
        self.name = client.name
        self.depends_on = client.depends_on
        self._client = client

    async def pre_filter(
        self, profile: str, pod_class: classes.PodClass, generation: int
    ) -> interfaces.PreFilterResult:
        """Call PreFilter; a failure becomes an error status, or a skip if the policy ignores it."""
        client = self._client
        result = interfaces.PreFilterResult(state=b"")
        if client.serves(plugin_pb2.EXTENSION_POINT_PRE_FILTER):
            request = remote_request.pre_filter(client.cycle(profile, pod_class, generation, b""))
            try:
                result = await client.connection.ask(
                    _PRE_FILTER, request, lambda response: remote_response.read_pre_filter(response, self.name)
                )
            except remote_connection.PluginError as error:
                return self._pre_filter_failed(str(error))
            if result.status is not None and result.status.code is status.Code.ERROR:
                return self._pre_filter_failed(result.status.message)
        if not client.serves(plugin_pb2.EXTENSION_POINT_FILTER) and result.status is None and result.nodes is None:
            return interfaces.SKIPPED
        return result

    async def filter(
        self,
        profile: str,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: object,
        slots: arrays.SlotArray,
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts | status.Status | None:
        """Filter the slots; returns a status if the plugin failed, None if the policy ignores that."""
        client = self._client
        newest = client.newest_generation(snap.generation)
        cycle = client.cycle(profile, pod_class, snap.generation, state if isinstance(state, bytes) else b"")
        verdicts = interfaces.Verdicts(
            np.zeros(slots.shape[0], dtype=np.int16), np.full(slots.shape[0], interfaces.UNLIMITED, dtype=np.int32)
        )

        async def ask(part: slice, selection: bytes) -> None:
            def read(response: filter_pb2.FilterResponse) -> status.Status | None:
                answers = remote_response.read_filter(
                    response, self.name, part.stop - part.start, self.depends_on, newest
                )
                error_status = answers.error()
                if error_status is None:
                    verdicts.index[part] = answers.intern(table)
                    capacity[part] = answers.capacity
                return error_status

            error_status = await client.connection.ask(_FILTER, remote_request.filter_nodes(cycle, selection), read)
            if error_status is not None:
                raise _Failed(error_status.message)

        assert verdicts.capacity is not None
        capacity = verdicts.capacity
        try:
            await _in_parts(client.nodes.split(snap.nodes, slots), ask)
        except (remote_connection.PluginError, _Failed) as error:
            return client.failure(f'running "{self.name}" filter plugin', str(error))
        return verdicts

    async def dry_runs(
        self,
        profile: str,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: object,
        runs: Sequence[interfaces.DryRun],
        table: interfaces.StatusTable,
    ) -> interfaces.Verdicts | status.Status | None:
        """Filter dry runs: nodes with some pods removed and others added."""
        client = self._client
        newest = client.newest_generation(snap.generation)
        cycle = client.cycle(profile, pod_class, snap.generation, state if isinstance(state, bytes) else b"")
        index = np.zeros(len(runs), dtype=np.int16)
        parts = [slice(start, start + RUNS_PER_CALL) for start in range(0, len(runs), RUNS_PER_CALL)]

        async def ask(part: slice, request: bytes) -> None:
            def read(response: filter_pb2.FilterDryRunResponse) -> status.Status | None:
                count = len(runs[part])
                answers = remote_response.read_filter(response, self.name, count, self.depends_on, newest)
                index[part] = answers.intern(table)
                return answers.error()

            error_status = await client.connection.ask(_FILTER_DRY_RUN, request, read)
            if error_status is not None:
                raise _Failed(error_status.message)

        try:
            await _in_parts(((part, remote_dry_run.request(cycle, client, snap, runs[part])) for part in parts), ask)
        except (remote_connection.PluginError, _Failed) as error:
            return client.failure(f'running "{self.name}" filter plugin', str(error))
        return interfaces.Verdicts(index)

    def _pre_filter_failed(self, detail: str) -> interfaces.PreFilterResult:
        failed = self._client.failure(f'running PreFilter plugin "{self.name}"', detail)
        return interfaces.PreFilterResult(status=failed, skip=failed is None, unanswered=failed is None)


class _CachedPreScore:
    """The PreScore result of one class, kept in the snapshot's store; `known` once the plugin has given one."""

    __slots__ = ("known", "value")

    nbytes = derived.SMALL

    def __init__(self, snap: snapshot.Snapshot) -> None:
        self.known = False
        self.value: tuple[status.Status, bytes] = status.SUCCESS, b""

    def refresh(self, snap: snapshot.Snapshot) -> None:
        """Nothing to update: the plugin says by its dependency how long the result holds."""


class RemoteScorePlugin:
    """A remote score plugin."""

    def __init__(self, client: remote_client.PluginClient) -> None:
        self.name = client.name
        self.depends_on = client.depends_on
        self.normalization = client.normalization
        self._client = client

    async def score(
        self, profile: str, pod_class: classes.PodClass, snap: snapshot.Snapshot, slots: arrays.SlotArray
    ) -> arrays.Int64Array | status.Status | None:
        """Raw scores of the slots; a status where the plugin failed; None where it has nothing to say, or where its
        failure is ignored.
        """
        client = self._client
        try:
            pre_score_status, state = await self._pre_score(profile, pod_class, snap, slots)
            if pre_score_status.code is status.Code.SKIP:
                return None
            if pre_score_status.code is not status.Code.SUCCESS:
                return client.failure(f'running PreScore plugin "{self.name}"', pre_score_status.message)
        except remote_connection.PluginError as error:
            return client.failure(f'running PreScore plugin "{self.name}"', str(error))
        cycle = client.cycle(profile, pod_class, snap.generation, state)
        scores = np.zeros(slots.shape[0], dtype=np.int64)

        async def ask(part: slice, selection: bytes) -> None:
            def read(response: score_pb2.ScoreResponse) -> arrays.Int64Array | status.Status:
                return remote_response.read_score(response, self.name, part.stop - part.start, self.normalization)

            answer = await client.connection.ask(_SCORE, remote_request.score(cycle, selection), read)
            if isinstance(answer, status.Status):
                raise _Failed(answer.message)
            scores[part] = answer

        try:
            await _in_parts(client.nodes.split(snap.nodes, slots), ask)
        except (remote_connection.PluginError, _Failed) as error:
            return client.failure(f'running Score plugins: plugin "{self.name}" failed with', str(error))
        return scores

    async def normalize(
        self,
        profile: str,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        slots: arrays.SlotArray,
        raw: arrays.Int64Array,
    ) -> arrays.Int64Array | status.Status | None:
        """Normalize the raw scores of all feasible slots to 0 to 100 by the plugin's NormalizeScore."""
        client = self._client
        cycle = client.cycle(profile, pod_class, snap.generation, self._pre_score_of(profile, pod_class, snap).value[1])
        request = remote_request.normalize_score(cycle, client.nodes.names(snap.nodes, slots), raw)

        def read(response: score_pb2.NormalizeScoreResponse) -> arrays.Int64Array | status.Status:
            return remote_response.read_score(response, self.name, slots.shape[0], interfaces.Normalization.NONE)

        prefix = f'running Normalize on Score plugins: plugin "{self.name}" failed with'
        try:
            answer = await client.connection.ask(_NORMALIZE, request, read)
        except remote_connection.PluginError as error:
            return client.failure(prefix, str(error))
        return client.failure(prefix, answer.message) if isinstance(answer, status.Status) else answer

    async def _pre_score(
        self, profile: str, pod_class: classes.PodClass, snap: snapshot.Snapshot, slots: arrays.SlotArray
    ) -> tuple[status.Status, bytes]:
        client = self._client
        if not client.serves(plugin_pb2.EXTENSION_POINT_PRE_SCORE):
            return status.SUCCESS, b""
        cached = self._pre_score_of(profile, pod_class, snap)
        if cached.known and self.depends_on is not interfaces.Dependency.CLUSTER:
            return cached.value
        cycle = client.cycle(profile, pod_class, snap.generation, b"")
        result = await client.connection.ask(
            _PRE_SCORE,
            remote_request.score(cycle, client.nodes.names(snap.nodes, slots)),
            lambda response: remote_response.read_pre_score(response, self.name),
        )
        if result[0].code is not status.Code.ERROR:
            cached.known, cached.value = True, result
        return result

    def _pre_score_of(self, profile: str, pod_class: classes.PodClass, snap: snapshot.Snapshot) -> _CachedPreScore:
        return snap.derived(("remote_pre_score", self.name, profile, pod_class.id), _CachedPreScore)


class _Failed(Exception):
    """The plugin responded with an error; the text is its message."""


async def _in_parts(parts: Iterator[tuple[slice, bytes]], ask: Callable[[slice, bytes], Awaitable[None]]) -> None:
    """Run `ask` for each part, a few at a time. Raises: the first failure; the other calls are cancelled."""
    first = next(parts, None)
    if first is None:
        return
    second = next(parts, None)
    if second is None:
        await ask(*first)
        return
    remaining = itertools.chain((first, second), parts)

    async def work() -> None:
        for part, selection in remaining:
            await ask(part, selection)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(CALLS_PER_QUESTION):
                group.create_task(work())
    except ExceptionGroup as group_error:
        raise group_error.exceptions[0] from None
