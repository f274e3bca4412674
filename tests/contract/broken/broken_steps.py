"""Plugins that are wrong at Score, PreFilter, PostFilter, Reserve, Permit, PreBind, Bind, PreEnqueue or in hints."""

import asyncio
from typing import Any

import grpc

from tests.contract.broken.reference_plugin import NAME, SUCCESS, ReferencePlugin, Refused, refusal
from trireme.plugin_verification import rpcs
from trireme.v1 import bind_pb2, filter_pb2, plugin_pb2, queue_pb2, score_pb2, status_pb2


class Answers(ReferencePlugin):
    """Changes the answers of one RPC."""

    rpc = rpcs.SCORE

    def change(self, response: Any) -> None:
        """Make the answer wrong."""

    async def answer(self, rpc: rpcs.Rpc, payload: bytes) -> Any:
        response = await super().answer(rpc, payload)
        if rpc is self.rpc:
            self.change(response)
        return response


class _Scores(Answers):
    points = (rpcs.SCORE_POINT,)


class ScoreOf1000(_Scores):
    """Scores up to 1000."""

    violates = "P093"

    def score(self, node: filter_pb2.NodeView) -> int:
        return super().score(node) * 10


class NegativeScoreToDivide(_Scores):
    """Has negative scores divided by the largest."""

    violates = "P094"

    def info(self) -> plugin_pb2.PluginInfo:
        info = super().info()
        info.normalization = plugin_pb2.NORMALIZATION_MAX
        return info

    def score(self, node: filter_pb2.NodeView) -> int:
        return super().score(node) - 50


class RandomScores(_Scores):
    """Scores differently each time."""

    violates = "P074"

    def score(self, node: filter_pb2.NodeView) -> int:
        self.calls += 1
        return self.calls % 101


class RelativeScores(_Scores):
    """Scores by the number of nodes in the call."""

    violates = "P077"

    def Score(self, request: score_pb2.ScoreRequest) -> score_pb2.ScoreResponse:
        count = len(request.nodes.nodes)
        scores = [self.score(node) // count for node in request.nodes.nodes]
        return score_pb2.ScoreResponse(status=SUCCESS, scores=scores)


class _Normalizes(Answers):
    points = (rpcs.SCORE_POINT, rpcs.NORMALIZE_POINT)
    rpc = rpcs.NORMALIZE_SCORE


class NormalizedAbove100(_Normalizes):
    """Normalises to more than 100."""

    violates = "P102"

    def change(self, response: score_pb2.NormalizeScoreResponse) -> None:
        response.scores[:] = [score * 10 for score in response.scores]


class _PreFilters(Answers):
    points = (rpcs.PRE_FILTER_POINT,)
    rpc = rpcs.PRE_FILTER


class PreFilterOnce(_PreFilters):
    """Refuses a pod that it has seen."""

    violates = "P113"

    def change(self, response: filter_pb2.PreFilterResponse) -> None:
        self.calls += 1
        if self.calls > 2:
            response.status.CopyFrom(refusal("seen before"))


class _PostFilters(Answers):
    points = (rpcs.POST_FILTER_POINT,)
    rpc = rpcs.POST_FILTER


class _Reserves(Answers):
    points = (rpcs.RESERVE_POINT,)
    rpc = rpcs.RESERVE


class OneReservation(_Reserves):
    """Answers more reservations than placements."""

    violates = "P131"

    def change(self, response: filter_pb2.ReserveResponse) -> None:
        del response.reservations[1:]
        response.reservations.add(status=SUCCESS)
        response.reservations.add(status=SUCCESS)


class ReserveWithGeneration(_Reserves):
    """Names a generation, as a phase does."""

    violates = "P133"

    def change(self, response: filter_pb2.ReserveResponse) -> None:
        response.evaluated_generation = 7


class CountsRepeatedReserve(_Reserves):
    """Takes each call for another pod."""

    violates = "P135"

    def Reserve(self, request: filter_pb2.ReserveRequest) -> filter_pb2.ReserveResponse:
        for placement in request.placements:
            if placement.pod.uid in self.reserved:
                self.reserved.add(f"{placement.pod.uid} {len(self.reserved)}")
        return super().Reserve(request)

    def Unreserve(self, request: filter_pb2.UnreserveRequest) -> filter_pb2.UnreserveResponse:
        self.reserved.clear()
        return filter_pb2.UnreserveResponse()


class UnreserveOfUnknownFails(_Reserves):
    """Fails to release what is not reserved."""

    violates = "P137"

    def Unreserve(self, request: filter_pb2.UnreserveRequest) -> filter_pb2.UnreserveResponse:
        for placement in request.placements:
            if placement.pod.uid not in self.reserved:
                raise Refused(grpc.StatusCode.NOT_FOUND, f"{placement.pod.name} has no reservation")
        return super().Unreserve(request)


class ForgetsToRelease(_Reserves):
    """Releases nothing."""

    violates = "P138"

    def Unreserve(self, request: filter_pb2.UnreserveRequest) -> filter_pb2.UnreserveResponse:
        return filter_pb2.UnreserveResponse()


class TakesAfterUnreserve(_Reserves):
    """Goes on with a Reserve whose caller has given up, and takes for it after its Unreserve."""

    violates = "P139"

    async def answer(self, rpc: rpcs.Rpc, payload: bytes) -> Any:
        answer = super().answer(rpc, payload)
        if rpc is not rpcs.RESERVE:
            return await answer

        async def work() -> Any:
            await asyncio.sleep(0.03)
            return await answer

        return await asyncio.shield(asyncio.ensure_future(work()))


class _Permits(Answers):
    points = (rpcs.PERMIT_POINT,)
    rpc = rpcs.PERMIT


class PermitOnce(_Permits):
    """Refuses a pod that it has permitted."""

    violates = "P144"

    def change(self, response: bind_pb2.PermitResponse) -> None:
        self.calls += 1
        if self.calls > 1:
            response.results[0].status.CopyFrom(refusal("is permitted already"))


class _PreBinds(Answers):
    points = (rpcs.PRE_BIND_POINT,)
    rpc = rpcs.PRE_BIND


class WaitsForAnUnknownKind(_PreBinds):
    """Names a kind as manifests do."""

    violates = "P154"

    def change(self, response: bind_pb2.PreBindResponse) -> None:
        response.results[0].wait_for[0].kind = "PersistentVolumeClaim"


class _Binds(Answers):
    points = (rpcs.BIND_POINT,)
    rpc = rpcs.BIND


class BindOnce(_Binds):
    """Fails for a pod that it has bound."""

    violates = "P164"

    def change(self, response: bind_pb2.BindResponse) -> None:
        self.calls += 1
        if self.calls > 1:
            failed = status_pb2.Status(code=status_pb2.CODE_ERROR, plugin=NAME, messages=["is bound already"])
            response.results[0].status.CopyFrom(failed)


class _PreEnqueues(Answers):
    points = (rpcs.PRE_ENQUEUE_POINT,)
    rpc = rpcs.PRE_ENQUEUE


class OneStatusForAllPods(_PreEnqueues):
    """Has one status for all pods."""

    violates = "P181"

    def change(self, response: queue_pb2.PreEnqueueResponse) -> None:
        del response.statuses[1:]


class _SortsQueue(Answers):
    points = (rpcs.QUEUE_SORT_POINT,)
    rpc = rpcs.QUEUE_SORT


class OneKeyForAllPods(_SortsQueue):
    """Has one key for all pods."""

    violates = "P221"

    def change(self, response: queue_pb2.QueueSortResponse) -> None:
        del response.keys[1:]


class RefusalOfKey(_SortsQueue):
    """Refuses a pod at QueueSort, which only orders the queue."""

    violates = "P224"

    def change(self, response: queue_pb2.QueueSortResponse) -> None:
        response.statuses.extend(status_pb2.Status(code=status_pb2.CODE_SUCCESS) for _ in response.keys)
        response.statuses[-1].code = status_pb2.CODE_UNSCHEDULABLE
        response.statuses[-1].messages.append("not here")


class ErrorOfKeyWithoutMessage(_SortsQueue):
    """Has no key for a pod, and does not say why."""

    violates = "P224"

    def change(self, response: queue_pb2.QueueSortResponse) -> None:
        response.statuses.extend(status_pb2.Status(code=status_pb2.CODE_SUCCESS) for _ in response.keys)
        response.statuses[-1].code = status_pb2.CODE_ERROR
        response.keys[-1].ClearField("level")


class KeyByCalls(_SortsQueue):
    """Orders pods by when it is called."""

    violates = "P223"

    def change(self, response: queue_pb2.QueueSortResponse) -> None:
        self.calls += 1
        for key in response.keys:
            key.level[:] = [self.calls]


class _Hints(Answers):
    points = (rpcs.FILTER_POINT,)
    rpc = rpcs.QUEUEING_HINT


class OneHintForAllPods(_Hints):
    """Has one hint for all pods."""

    violates = "P185"

    def change(self, response: queue_pb2.QueueingHintResponse) -> None:
        del response.hints[1:]


class UnknownHint(_Hints):
    """Has a hint of no release."""

    violates = "P186"

    def change(self, response: queue_pb2.QueueingHintResponse) -> None:
        response.hints[0] = 9
