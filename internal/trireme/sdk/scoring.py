"""Serves ScorePlugin with a plugin's pre_score, score and normalize_scores."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import grpc
import numpy as np
from grpc import aio

from trireme.framework import status
from trireme.rpc import grpc_server
from trireme.sdk import calls, cluster_state, result_checks, state
from trireme.sdk.invoker import Invoker
from trireme.sdk.results import PreScore
from trireme.v1 import score_copies_pb2, score_pb2, score_pb2_grpc
from trireme.wire import status as wire_status

METHODS = ("pre_score", "score", "score_nodes", "normalize_scores")

_PRE_SCORE = "None, SKIP, a status that is an error, bytes, or a PreScore"


class ScoreServicer(score_pb2_grpc.ScorePluginServicer):
    """One plugin's ScorePlugin."""

    def __init__(self, invoker: Invoker) -> None:
        self._invoker = invoker

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
            scores = []
            for copies in range(1, request.copies + 1):
                if call.cluster is None:
                    with_copies = dataclasses.replace(call, added_pods=[request.cycle.pod] * copies)
                    scores.append(await self._scores(with_copies, calls.from_views(request.nodes.nodes)))
                else:
                    number = request.cycle.pod_class
                    nodes = [_node_with_copies(slot, call.cluster, number, copies) for slot in request.nodes.slots]
                    scores.append(await self._scores(call, nodes))
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

    async def _scores(self, call: calls.Call, nodes: Sequence[calls.Node]) -> list[int]:
        """The scores of score_nodes, or of score node by node. Raises: InvalidResult for what is no such list."""
        if self._invoker.method("score_nodes") is None:
            scores: Any = await self._invoker.call_for_each_node("score", call, nodes)
        else:
            scores = await self._invoker.call("score_nodes", call, nodes)
        return result_checks.check_scores(scores, len(nodes))

    @property
    def _score_method(self) -> str:
        """The method that answers Score."""
        return "score" if self._invoker.method("score_nodes") is None else "score_nodes"


def _node_with_copies(slot: int, cluster: cluster_state.ClusterState, number: int, copies: int) -> calls.Node:
    """The node at the slot with so many more pods of the class of this number, each with a made-up name and UID."""
    node = calls.from_slot(slot, cluster)
    pod = cluster.classes.get(number)
    if pod is None:
        return node
    added = [cluster_state.PlacedPod(f"copy-{copy}", f"copy-{copy}", pod, slot) for copy in range(copies)]
    return dataclasses.replace(node, pods=[*node.pods, *added])
