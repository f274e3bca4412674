"""Remote score plugins, as evaluation's AsyncScore.

Each request of the evaluation (a class and some slots) becomes calls of the contract, and the responses become
columns. Many nodes are split over several calls. A failure never raises: by the plugin's policy it becomes an error
status, worded as kube-scheduler words a failing plugin, or is ignored, and then the evaluation continues without the
plugin and prepares it again next time.

PreScore's result is cached with the class while the plugin's results depend on nodes alone, so a class whose nodes are
already scored costs no call.

Also change: protos/trireme/v1/score.proto (the messages).
Also change: protos/trireme/v1/score_copies.proto (the messages).
Also change: internal/trireme/remote/remote_filter.py,
internal/trireme/remote/recorded_filter.py (filter and score are alike here).

Tests: tests/unit/remote/test_remote_score.py, tests/contract/test_plugin_evaluation.py,
tests/contract/test_plugin_client.py.
"""

import logging

import numpy as np

from trireme.framework import status
from trireme.plugin_api import interfaces, scorers
from trireme.remote import (
    answer_recording,
    call_parts,
    remote_client,
    remote_connection,
    remote_request,
    remote_response,
    shared_answers,
)
from trireme.snapshot import arrays, classes, snapshot
from trireme.v1 import plugin_pb2, score_copies_pb2, score_pb2

log = logging.getLogger(__name__)

_PRE_SCORE = remote_connection.Method("/trireme.v1.ScorePlugin/PreScore", score_pb2.PreScoreResponse)
_SCORE = remote_connection.Method("/trireme.v1.ScorePlugin/Score", score_pb2.ScoreResponse)
_SCORE_COPIES = remote_connection.Method("/trireme.v1.ScorePlugin/ScoreCopies", score_copies_pb2.ScoreCopiesResponse)
_NORMALIZE = remote_connection.Method("/trireme.v1.ScorePlugin/NormalizeScore", score_pb2.NormalizeScoreResponse)

PreScoreAnswer = tuple[status.Status, bytes]
"""PreScore's status, and the state that it gave for Score."""


class RemoteScoreState:
    """What a plugin answered about one class: PreScore's result, None before the first call, and raw scores (slot,)."""

    __slots__ = ("pre_score", "raw")

    def __init__(self) -> None:
        self.pre_score: PreScoreAnswer | None = None
        self.raw = np.zeros(0, dtype=np.int64)

    @property
    def pre_score_state(self) -> bytes:
        """The state that PreScore gave for Score and NormalizeScore."""
        return b"" if self.pre_score is None else self.pre_score[1]

    def write(self, slots: arrays.SlotArray, raw: arrays.Int64Array) -> None:
        """Store the raw scores of these slots."""
        size = int(slots.max(initial=-1)) + 1
        if self.raw.shape[0] < size:
            self.raw = arrays.grow_last_axis(self.raw, size)
        self.raw[slots] = raw


class RemoteScorePlugin:
    """A remote score plugin, for one profile."""

    def __init__(self, client: remote_client.PluginClient, profile: str) -> None:
        self.name = client.name
        self.depends_on = client.depends_on
        self.normalization = client.normalization
        self.scores_copies = client.info.score_copies
        self._client = client
        self._profile = profile
        self._shared: shared_answers.SharedAnswers[PreScoreAnswer, np.int64] = shared_answers.SharedAnswers(np.int64)
        #: What its answers would change, if it is in mode Shadow.
        self.comparisons = client.connection.comparisons

    async def prepare(
        self,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: RemoteScoreState | None,
        slots: arrays.SlotArray,
    ) -> scorers.PreparedScores:
        """Call PreScore, if its result may have changed, and Score about the slots.

        The result is `silent` where the plugin has nothing to say, or where its failure is ignored.
        """
        state = state or RemoteScoreState()
        try:
            pre_score_status = await self._pre_score(pod_class, snap, state, slots)
        except remote_connection.PluginError as error:
            pre_score_status = status.error(self.name, str(error), reasons=(status.Reason("pluginCallFailed"),))
        if pre_score_status.code is status.Code.SKIP:
            return scorers.PreparedScores(state, silent=True)
        if pre_score_status.code is not status.Code.SUCCESS:
            return self._scores_after_failure(state, f'running PreScore plugin "{self.name}"', pre_score_status.message)
        try:
            raw = await self._score(pod_class, snap, state, slots)
        except (remote_connection.PluginError, call_parts.PluginFailed) as error:
            return self._scores_after_failure(
                state, f'running Score plugins: plugin "{self.name}" failed with', str(error)
            )
        state.write(slots, raw)
        return scorers.PreparedScores(state)

    def score(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: RemoteScoreState, slots: arrays.SlotArray
    ) -> arrays.Int64Array:
        """The plugin's raw scores, as of its last call."""
        raw: arrays.Int64Array = state.raw[slots]
        return raw

    async def prepare_copies(
        self,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: RemoteScoreState,
        slots: arrays.SlotArray,
        copies: int,
    ) -> arrays.Int64Array | None:
        """Call ScoreCopies about the slots; None if that failed: then pods are placed one by one, by Score."""
        client = self._client
        cycle = client.cycle(self._profile, pod_class, snap.generation, state.pre_score_state)
        scores = np.zeros((slots.shape[0], copies), dtype=np.int64)

        async def call_copies_part(part: slice, selection: bytes) -> None:
            count = (part.stop - part.start) * copies

            def read_scores(response: score_copies_pb2.ScoreCopiesResponse) -> arrays.Int64Array | status.Status:
                return remote_response.read_score(response, self.name, count, self.normalization)

            request = remote_request.score_copies(cycle, selection, copies)
            answer = await client.connection.call(_SCORE_COPIES, request, read_scores)
            if isinstance(answer, status.Status):
                raise call_parts.PluginFailed(answer.message)
            scores[part] = answer.reshape(-1, copies)

        try:
            await call_parts.call_in_parts(client.nodes.split(snap.nodes, slots), call_copies_part)
        except (remote_connection.PluginError, call_parts.PluginFailed) as error:
            log.debug("plugin %s: ScoreCopies failed, its pods are placed one by one: %s", self.name, error)
            return None
        return scores

    async def normalize(
        self,
        pod_class: classes.PodClass,
        snap: snapshot.Snapshot,
        state: RemoteScoreState,
        slots: arrays.SlotArray,
        raw: arrays.Int64Array,
    ) -> arrays.Int64Array | status.Status:
        """Call NormalizeScore: the raw scores of all feasible slots become 0 to 100; 0 if a failure is ignored."""
        client = self._client
        cycle = client.cycle(self._profile, pod_class, snap.generation, state.pre_score_state)
        request = remote_request.normalize_score(cycle, client.nodes.names(snap.nodes, slots), raw)

        def read_normalized_scores(response: score_pb2.NormalizeScoreResponse) -> arrays.Int64Array | status.Status:
            return remote_response.read_score(response, self.name, slots.shape[0], scorers.Normalization.NONE)

        try:
            answer = await client.connection.call(_NORMALIZE, request, read_normalized_scores)
        except remote_connection.PluginError as error:
            answer = status.error(self.name, str(error), reasons=(status.Reason("pluginCallFailed"),))
        if isinstance(answer, status.Status):
            prefix = f'running Normalize on Score plugins: plugin "{self.name}" failed with'
            answer = client.apply_failure_policy(prefix, answer.message) or np.zeros_like(raw)
        answer_recording.add_normalized(self.name, slots, answer)
        return answer

    async def _pre_score(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: RemoteScoreState, slots: arrays.SlotArray
    ) -> status.Status:
        """Call PreScore, unless an earlier answer holds; SUCCESS if the plugin does not serve it. Raises: PluginError.

        An answer holds for good unless the plugin depends on the whole cluster; an error is not kept.
        """
        client = self._client
        if not client.serves(plugin_pb2.EXTENSION_POINT_PRE_SCORE):
            return status.SUCCESS
        if state.pre_score is not None and self.depends_on is not interfaces.Dependency.CLUSTER:
            return state.pre_score[0]

        async def call_pre_score() -> PreScoreAnswer:
            cycle = client.cycle(self._profile, pod_class, snap.generation, b"")
            return await client.connection.call(
                _PRE_SCORE,
                remote_request.score(cycle, client.nodes.names(snap.nodes, slots)),
                lambda response: remote_response.read_pre_score(response, self.name),
            )

        shared = self._answers_to_share(pod_class, snap)
        result = await (call_pre_score() if shared is None else shared.first_answer(call_pre_score, _holds))
        if _holds(result):
            state.pre_score = result
        return result[0]

    def _answers_to_share(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot
    ) -> shared_answers.AnswersAboutPod[PreScoreAnswer, np.int64] | None:
        """The answers about the class's pod as the plugin gets it; None: they hold for this class alone."""
        return self._shared.about(snap, self._client.pods.of(pod_class)) if self._client.shares_answers else None

    async def _score(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: RemoteScoreState, slots: arrays.SlotArray
    ) -> arrays.Int64Array:
        """Find the raw scores of the slots. Shape: as `slots`. Raises: PluginError, PluginFailed.

        The plugin is called about those that it has not scored for another class that is equal to it.
        """

        async def call_score(missing: arrays.SlotArray) -> arrays.Int64Array:
            return await self._call_score(pod_class, snap, state, missing)

        shared = self._answers_to_share(pod_class, snap)
        if shared is None:
            return await call_score(slots)
        return await shared.complete(snap, slots, state.pre_score_state, call_score)

    async def _call_score(
        self, pod_class: classes.PodClass, snap: snapshot.Snapshot, state: RemoteScoreState, slots: arrays.SlotArray
    ) -> arrays.Int64Array:
        """Call Score about the slots, in parts; returns raw scores as `slots`. Raises: PluginError, PluginFailed."""
        client = self._client
        cycle = client.cycle(self._profile, pod_class, snap.generation, state.pre_score_state)
        scores = np.zeros(slots.shape[0], dtype=np.int64)

        async def call_score_part(part: slice, selection: bytes) -> None:
            def read_raw_scores(response: score_pb2.ScoreResponse) -> arrays.Int64Array | status.Status:
                return remote_response.read_score(response, self.name, part.stop - part.start, self.normalization)

            answer = await client.connection.call(_SCORE, remote_request.score(cycle, selection), read_raw_scores)
            if isinstance(answer, status.Status):
                raise call_parts.PluginFailed(answer.message)
            scores[part] = answer

        await call_parts.call_in_parts(client.nodes.split(snap.nodes, slots), call_score_part)
        return scores

    def _scores_after_failure(self, state: RemoteScoreState, prefix: str, detail: str) -> scorers.PreparedScores:
        """The error of a failed call; silent, so without scores, if the policy ignores it."""
        failed = self._client.apply_failure_policy(prefix, detail)
        return scorers.PreparedScores(state, silent=failed is None, failure=failed)


def _holds(answer: PreScoreAnswer) -> bool:
    """Whether PreScore's answer is kept: it is no error."""
    return answer[0].code is not status.Code.ERROR
