"""Serves ScorePlugin with a plugin's pre_score, score and normalize_scores."""

from typing import Any

from grpc import aio

from trireme.framework import status
from trireme.sdk import calls, result_checks, state
from trireme.sdk.invoker import Invoker
from trireme.sdk.results import PreScore
from trireme.v1 import score_pb2, score_pb2_grpc
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
        many = self._invoker.method("score_nodes") is not None
        async with self._invoker.turn(context, "Score", "score_nodes" if many else "score"):
            call = await self._invoker.call_for(request.cycle, context)
            nodes = calls.from_selection(request.nodes, call.cluster)
            if not many:
                scores: Any = await self._invoker.call_for_each_node("score", call, nodes)
            else:
                scores = await self._invoker.call("score_nodes", call, nodes)
            response.scores.extend(result_checks.check_scores(scores, len(nodes)))
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
