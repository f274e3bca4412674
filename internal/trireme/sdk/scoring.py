"""Serves ScorePlugin with a plugin's pre_score, score and normalize_scores."""

import operator
from collections.abc import Sequence
from typing import Any

from grpc import aio

from trireme.framework import status
from trireme.sdk import calls
from trireme.sdk.invoker import InvalidResult, Invoker
from trireme.v1 import score_pb2, score_pb2_grpc
from trireme.wire import status as wire_status

METHODS = ("pre_score", "score", "score_nodes", "normalize_scores")


class ScoreServicer(score_pb2_grpc.ScorePluginServicer):
    """One plugin's ScorePlugin."""

    def __init__(self, invoker: Invoker) -> None:
        self._invoker = invoker

    async def PreScore(
        self, request: score_pb2.PreScoreRequest, context: aio.ServicerContext[Any, Any]
    ) -> score_pb2.PreScoreResponse:
        """Call pre_score; without one the plugin scores every pod."""
        response = score_pb2.PreScoreResponse()
        async with self._invoker.turn(context):
            call = await self._invoker.call_for(request.cycle, context)
            nodes = calls.from_selection(request.nodes, call.cluster)
            answer = await self._invoker.call("pre_score", call, nodes)
            if isinstance(answer, bytes):
                response.state = answer
                answer = None
            response.status.CopyFrom(self._invoker.status_message("pre_score", answer))
        return response

    async def Score(
        self, request: score_pb2.ScoreRequest, context: aio.ServicerContext[Any, Any]
    ) -> score_pb2.ScoreResponse:
        """Call score for each node."""
        await self._invoker.require(context, "score", "score_nodes")
        response = score_pb2.ScoreResponse(status=wire_status.to_message(status.SUCCESS))
        async with self._invoker.turn(context):
            call = await self._invoker.call_for(request.cycle, context)
            nodes = calls.from_selection(request.nodes, call.cluster)
            if self._invoker.method("score_nodes") is None:
                scores = await self._invoker.call_for_each_node("score", call, nodes)
            else:
                scores = await self._invoker.call("score_nodes", call, nodes)
            response.scores.extend(_check_scores("score", scores, len(nodes)))
        return response

    async def NormalizeScore(
        self, request: score_pb2.NormalizeScoreRequest, context: aio.ServicerContext[Any, Any]
    ) -> score_pb2.NormalizeScoreResponse:
        """Call normalize_scores with the plugin's own scores."""
        await self._invoker.require(context, "normalize_scores")
        response = score_pb2.NormalizeScoreResponse(status=wire_status.to_message(status.SUCCESS))
        async with self._invoker.turn(context):
            call = await self._invoker.call_for(request.cycle, context)
            nodes = calls.from_selection(request.nodes, call.cluster)
            scores = await self._invoker.call("normalize_scores", call, nodes, list(request.scores))
            response.scores.extend(_check_scores("normalize_scores", scores, len(request.scores)))
        return response


def _check_scores(step: str, scores: Sequence[Any], count: int) -> list[int]:
    """The scores as integers. Raises: InvalidResult for another number of scores, or what is no whole number."""
    if len(scores) != count:
        raise InvalidResult(f"{step} returned {len(scores)} scores of {count} nodes")
    try:
        # Also accepts integer types such as NumPy's.
        return [operator.index(score) for score in scores]
    except TypeError as error:
        raise InvalidResult(f"{step} returned scores that are not whole numbers: {error}") from error
