"""Plugins that answer a repeated call in another way, and others that are wrong at several steps."""

from typing import Any

import grpc

from tests.contract.broken import broken_answers
from tests.contract.broken.broken_steps import Answers
from tests.contract.broken.reference_plugin import NAME, ReferencePlugin, Refused, refusal
from trireme.plugin_verification import rpcs
from trireme.v1 import bind_pb2, filter_pb2, plugin_pb2, pod_groups_pb2, queue_pb2, score_pb2, status_pb2


class NamelessPlugin(ReferencePlugin):
    """Has no name."""

    violates, points = "P003", (rpcs.POST_BIND_POINT,)

    def info(self) -> plugin_pb2.PluginInfo:
        info = super().info()
        info.name = ""
        return info


class ConfigureFails(ReferencePlugin):
    """Fails to read any arguments."""

    violates, points = "P020", (rpcs.POST_BIND_POINT,)

    def Configure(self, request: plugin_pb2.ConfigureRequest) -> plugin_pb2.ConfigureResponse:
        self.hashes.add(request.config_hash)
        raise Refused(grpc.StatusCode.INTERNAL, "no such file")


class DryRunOnce(Answers):
    """Refuses in a dry run what it has let pass in one."""

    violates, points, rpc = "P075", (rpcs.FILTER_POINT,), rpcs.FILTER_DRY_RUN
    seen: frozenset[bytes] = frozenset()
    runs = b""

    def FilterDryRun(self, request: filter_pb2.FilterDryRunRequest) -> filter_pb2.FilterDryRunResponse:
        self.runs = request.SerializeToString(deterministic=True)
        return super().FilterDryRun(request)

    def change(self, response: filter_pb2.FilterDryRunResponse) -> None:
        if self.runs in self.seen:
            columns = response.columns
            columns.statuses.append(refusal("seen before"))
            columns.status_index[:] = [len(columns.statuses)] * columns.size
            columns.capacity[:] = [0] * columns.size
        self.seen |= {self.runs}


class ScoresByGeneration(ReferencePlugin):
    """Scores by the generation of the call."""

    violates, points = "P079", (rpcs.SCORE_POINT,)

    def Score(self, request: score_pb2.ScoreRequest) -> score_pb2.ScoreResponse:
        response = super().Score(request)
        response.scores[:] = [(score + request.cycle.generation) % 101 for score in response.scores]
        return response


class _Once(Answers):
    """Answers a repeated call by another status."""

    status = status_pb2.Status(code=status_pb2.CODE_ERROR, plugin=NAME, messages=["was called before"])

    def change(self, response: Any) -> None:
        self.calls += 1
        if self.calls > self.first_calls:
            self.entry(response).CopyFrom(self.status)

    #: How many different calls there are before the first one is repeated.
    first_calls = 1

    def entry(self, response: Any) -> status_pb2.Status:
        """The status that changes."""
        status: status_pb2.Status = response.status
        return status


class PreScoreOnce(_Once):
    """Fails at PreScore for a pod that it has seen."""

    violates, points, rpc, first_calls = "P098", (rpcs.PRE_SCORE_POINT,), rpcs.PRE_SCORE, 2


class NormalizeScoreOnce(_Once):
    """Fails to normalise what it has normalised."""

    violates, points, rpc = "P103", (rpcs.SCORE_POINT, rpcs.NORMALIZE_POINT), rpcs.NORMALIZE_SCORE
    first_calls = 2


class PostFilterOnce(_Once):
    """Makes room for a pod once."""

    violates, points, rpc = "P125", (rpcs.POST_FILTER_POINT,), rpcs.POST_FILTER
    first_calls = 2

    def change(self, response: filter_pb2.PostFilterResponse) -> None:
        super().change(response)
        if self.calls > self.first_calls:
            response.ClearField("actions")


class PreBindOnce(_Once):
    """Fails to prepare again."""

    violates, points, rpc = "P156", (rpcs.PRE_BIND_POINT,), rpcs.PRE_BIND

    def entry(self, response: bind_pb2.PreBindResponse) -> status_pb2.Status:
        return response.results[0].status


class PostBindOnce(broken_answers.Unserved):
    """Fails to be told twice."""

    # With Filter the other checks call that.
    violates, points, rpc = "P171", (rpcs.FILTER_POINT, rpcs.POST_BIND_POINT), rpcs.POST_BIND

    async def answer(self, rpc: rpcs.Rpc, payload: bytes) -> Any:
        self.calls += rpc is rpcs.POST_BIND
        if self.calls > 1:
            return await super().answer(rpc, payload)
        return await ReferencePlugin.answer(self, rpc, payload)  # Not as one that does not serve it.


class PreEnqueueOnce(_Once):
    """Gates a pod that it has let in."""

    violates, points, rpc = "P183", (rpcs.PRE_ENQUEUE_POINT,), rpcs.PRE_ENQUEUE
    status = refusal("came before")

    def entry(self, response: queue_pb2.PreEnqueueResponse) -> status_pb2.Status:
        return response.statuses[0]


class HintsInTurns(Answers):
    """Answers a hint and its opposite in turns."""

    violates, points, rpc = "P187", (rpcs.FILTER_POINT,), rpcs.QUEUEING_HINT

    def change(self, response: queue_pb2.QueueingHintResponse) -> None:
        self.calls += 1
        if self.calls % 2:
            response.hints[0] = queue_pb2.HINT_QUEUE_SKIP


class PostFilterWithoutStatus(Answers):
    """Answers PostFilter without a status."""

    violates, points, rpc = "P121", (rpcs.POST_FILTER_POINT,), rpcs.POST_FILTER

    def change(self, response: filter_pb2.PostFilterResponse) -> None:
        response.ClearField("status")
        response.ClearField("actions")


class _OfGroups(Answers):
    # With Filter the other checks call that.
    points, rpc = (rpcs.FILTER_POINT, rpcs.PLACEMENT_FEASIBLE_POINT), rpcs.PLACEMENT_FEASIBLE


class PlacementUnresolvable(_OfGroups):
    """Refuses a placement by a code that it does not have."""

    violates = "P231"

    def change(self, response: pod_groups_pb2.PlacementFeasibleResponse) -> None:
        never = refusal("never", code=status_pb2.CODE_UNSCHEDULABLE_AND_UNRESOLVABLE)
        del response.statuses[:]
        response.statuses.append(never)


class PlacementOnce(_OfGroups):
    """Refuses a placement that it has let pass."""

    violates = "P232"

    def change(self, response: pod_groups_pb2.PlacementFeasibleResponse) -> None:
        self.calls += 1
        if self.calls > 4:
            del response.statuses[:]
            response.statuses.append(refusal("came before"))


class PlacementWaitsWithoutMessage(_OfGroups):
    """Does not say what a group waits for."""

    violates = "P234"

    def change(self, response: pod_groups_pb2.PlacementFeasibleResponse) -> None:
        del response.statuses[0].messages[:]


class PlacementWaitsAgain(_OfGroups):
    """Has a group wait that has what it needs."""

    violates = "P235"

    def change(self, response: pod_groups_pb2.PlacementFeasibleResponse) -> None:
        statuses = list(response.statuses)[::-1]
        del response.statuses[:]
        response.statuses.extend(statuses)
