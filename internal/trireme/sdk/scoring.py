"""Serves ScorePlugin with a plugin's pre_score, score and normalize_scores.

Also change: sdk/go/scoring.go, sdk/java/src/main/java/dev/trireme/sdk/ScoreHandlers.java,
sdk/rust/src/services/scoring.rs, sdk/typescript/src/services/score_service.ts (the same in the other languages' SDKs).
Also change: protos/trireme/v1/score.proto (the messages).
Also change: protos/trireme/v1/score_copies.proto (the messages).

Tests: tests/contract/test_plugin_sdk_nodes.py, tests/contract/test_plugin_sdk_results.py,
tests/contract/test_plugin_score_copies_cluster.py.
"""

import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

import grpc
import numpy as np
from grpc import aio

from trireme.framework import status
from trireme.rpc import grpc_server
from trireme.sdk import calls, cluster_state, result_checks, state, watched_cluster
from trireme.sdk.invoker import Invoker
from trireme.sdk.results import PreScore
from trireme.v1 import score_copies_pb2, score_pb2, score_pb2_grpc
from trireme.wire import status as wire_status

log = logging.getLogger(__name__)

METHODS = ("pre_score", "score", "score_nodes", "normalize_scores")

_ScoresOfCopies = list[list[int]]

_PRE_SCORE = "None, SKIP, a status that is an error, bytes, or a PreScore"


class ScoreServicer(score_pb2_grpc.ScorePluginServicer):
    """One plugin's ScorePlugin."""

    def __init__(self, invoker: Invoker) -> None:
        self._invoker = invoker
        self._has_logged_use = False

    async def PreScore(
        self, request: score_pb2.PreScoreRequest, context: aio.ServicerContext[Any, Any]
    ) -> score_pb2.PreScoreResponse:
        """Call pre_score; without one the plugin scores every pod."""
        response = score_pb2.PreScoreResponse()
        async with self._invoker.turn(context, "PreScore", "pre_score"):
            call = await self._invoker.call_for(request.cycle, context)
            nodes = calls.from_selection(request.nodes, call.cluster)
            answer = await self._invoker.call("pre_score", call, nodes)
            if isinstance(answer, bytes | PreScore):
                response.state = state.encode(answer.state if isinstance(answer, PreScore) else answer)
                answer = None
            response.status.CopyFrom(self._invoker.status_message(answer, _PRE_SCORE))
        return response

    async def Score(
        self, request: score_pb2.ScoreRequest, context: aio.ServicerContext[Any, Any]
    ) -> score_pb2.ScoreResponse:
        """Call score for each node."""
        await self._invoker.require(context, "score", "score_nodes")
        response = score_pb2.ScoreResponse(status=wire_status.to_message(status.SUCCESS))
        async with self._invoker.turn(context, "Score", self._score_method):
            call = await self._invoker.call_for(request.cycle, context)
            response.scores.extend(await self._scores(call, calls.from_selection(request.nodes, call.cluster)))
        return response

    async def ScoreCopies(
        self, request: score_copies_pb2.ScoreCopiesRequest, context: aio.ServicerContext[Any, Any]
    ) -> score_copies_pb2.ScoreCopiesResponse:
        """Call score for each node with one copy of the pod there, with two, and so on."""
        await self._invoker.require(context, "score", "score_nodes")
        if not request.copies:
            await grpc_server.abort(context, grpc.StatusCode.INVALID_ARGUMENT, "copies: 0, must be at least 1")
        response = score_copies_pb2.ScoreCopiesResponse(status=wire_status.to_message(status.SUCCESS))
        async with self._invoker.turn(context, "ScoreCopies", self._score_method):
            call = await self._invoker.call_for(request.cycle, context)
            if call.cluster is None:
                scores: _ScoresOfCopies | str = await self._scores_by_added_pods(call, request)
            else:
                scores = await self._scores_by_pods_of_nodes(call, call.cluster, request)
            if isinstance(scores, str):
                failed = self._invoker.with_own_name(status.error(self._invoker.name, scores))
                response.status.CopyFrom(wire_status.to_message(failed))
            else:
                response.scores.extend(np.array(scores, dtype=np.int64).T.ravel().tolist())
        return response

    async def NormalizeScore(
        self, request: score_pb2.NormalizeScoreRequest, context: aio.ServicerContext[Any, Any]
    ) -> score_pb2.NormalizeScoreResponse:
        """Call normalize_scores with the plugin's own scores."""
        await self._invoker.require(context, "normalize_scores")
        response = score_pb2.NormalizeScoreResponse(status=wire_status.to_message(status.SUCCESS))
        async with self._invoker.turn(context, "NormalizeScore", "normalize_scores"):
            call = await self._invoker.call_for(request.cycle, context)
            nodes = calls.from_selection(request.nodes, call.cluster)
            scores = await self._invoker.call("normalize_scores", call, nodes, list(request.scores))
            response.scores.extend(result_checks.check_scores(scores, len(request.scores)))
        return response

    async def _scores_by_added_pods(
        self, call: calls.Call, request: score_copies_pb2.ScoreCopiesRequest
    ) -> _ScoresOfCopies:
        """The scores with one copy of the pod in `call.added_pods`, with two, and so on. Shape: (copies, node)."""
        nodes = calls.from_views(request.nodes.nodes)
        numbers = range(1, request.copies + 1)
        added = [dataclasses.replace(call, added_pods=[request.cycle.pod] * copies) for copies in numbers]
        return [await self._scores(each, nodes) for each in added]

    async def _scores_by_pods_of_nodes(
        self, call: calls.Call, cluster: cluster_state.ClusterState, request: score_copies_pb2.ScoreCopiesRequest
    ) -> _ScoresOfCopies | str:
        """The scores with one copy of the pod in `node.pods`, with two, and so on. Shape: (copies, node).

        What is wrong, if the score used the cluster, which does not have the copies, and the author has not said that
        its scores are right all the same.
        """
        watched = watched_cluster.WatchedCluster(cluster)
        if not self._invoker.info.score_copies:
            call = dataclasses.replace(call, cluster=watched)
        scores = []
        for copies in range(1, request.copies + 1):
            number = request.cycle.pod_class
            nodes = [_node_with_copies(slot, cluster, number, copies) for slot in request.nodes.slots]
            scores.append(await self._scores(call, nodes))
            used = watched_cluster.first_use(watched)
            if used is not None:
                return self._use_of_cluster(used)
        return scores

    def _use_of_cluster(self, used: str) -> str:
        """The error for a score that used this of the cluster; it is logged once."""
        text = (
            f"ScoreCopies: {self._score_method} used call.cluster.{used}, and call.cluster does not have the copies of "
            "the pod, so pods are placed one at a time: set Info.score_copies to True if the score counts no pods of "
            "call.cluster, or to False if it does"
        )
        if not self._has_logged_use:
            self._has_logged_use = True
            log.warning("plugin %s: %s", self._invoker.name, text)
        return text

    async def _scores(self, call: calls.Call, nodes: Sequence[calls.Node]) -> list[int]:
        """The scores of score_nodes, or of score node by node. Raises: InvalidResult for what is no such list."""
        if self._invoker.method("score_nodes") is None:
            scores: Any = await self._invoker.call_for_each_node("score", call, nodes)
        else:
            scores = await self._invoker.call("score_nodes", call, nodes)
        return result_checks.check_scores(scores, len(nodes))

    @property
    def _score_method(self) -> str:
        return "score" if self._invoker.method("score_nodes") is None else "score_nodes"


def _node_with_copies(slot: int, cluster: cluster_state.ClusterState, number: int, copies: int) -> calls.Node:
    """The node at the slot with so many more pods of the class of this number, each with a made-up name and UID."""
    node = calls.from_slot(slot, cluster)
    pod = cluster.classes.get(number)
    if pod is None:
        return node
    added = [cluster_state.PlacedPod(f"copy-{copy}", f"copy-{copy}", pod, slot) for copy in range(copies)]
    return dataclasses.replace(node, pods=[*node.pods, *added])
