"""Plugins that do not serve what they declare, and plugins that answer a repeated call in another way."""

from typing import Any

import grpc

from tests.contract.broken.broken_steps import Answers
from tests.contract.broken.reference_plugin import NAME, ReferencePlugin, Refused, refusal
from trireme.plugin_verification import rpcs
from trireme.v1 import bind_pb2, filter_pb2, plugin_pb2, pod_groups_pb2, queue_pb2, score_pb2, status_pb2


class _Unserved(ReferencePlugin):
    """Declares an extension point and does not serve its RPC."""

    rpc = rpcs.SCORE

    async def answer(self, rpc: rpcs.Rpc, payload: bytes) -> Any:
        if rpc is self.rpc:
            raise Refused(grpc.StatusCode.UNIMPLEMENTED, "not here")
        return await super().answer(rpc, payload)


class PreScoreNotServed(_Unserved):
    """Does not serve PreScore."""

    violates, points, rpc = "P096", (rpcs.PRE_SCORE_POINT,), rpcs.PRE_SCORE


class NormalizeScoreNotServed(_Unserved):
    """Does not serve NormalizeScore."""

    violates, points, rpc = "P099", (rpcs.SCORE_POINT, rpcs.NORMALIZE_POINT), rpcs.NORMALIZE_SCORE


class PreFilterNotServed(_Unserved):
    """Does not serve PreFilter."""

    violates, points, rpc = "P110", (rpcs.PRE_FILTER_POINT,), rpcs.PRE_FILTER


class PostFilterNotServed(_Unserved):
    """Does not serve PostFilter."""

    violates, points, rpc = "P120", (rpcs.POST_FILTER_POINT,), rpcs.POST_FILTER


class ReserveNotServed(_Unserved):
    """Does not serve Reserve."""

    violates, points, rpc = "P130", (rpcs.RESERVE_POINT,), rpcs.RESERVE


class PermitNotServed(_Unserved):
    """Does not serve Permit."""

    violates, points, rpc = "P140", (rpcs.PERMIT_POINT,), rpcs.PERMIT


class PreBindNotServed(_Unserved):
    """Does not serve PreBind."""

    violates, points, rpc = "P150", (rpcs.PRE_BIND_POINT,), rpcs.PRE_BIND


class BindNotServed(_Unserved):
    """Does not serve Bind."""

    violates, points, rpc = "P160", (rpcs.BIND_POINT,), rpcs.BIND


class PostBindNotServed(_Unserved):
    """Does not serve PostBind."""

    violates, points, rpc = "P170", (rpcs.POST_BIND_POINT,), rpcs.POST_BIND


class PreEnqueueNotServed(_Unserved):
    """Does not serve PreEnqueue."""

    violates, points, rpc = "P180", (rpcs.PRE_ENQUEUE_POINT,), rpcs.PRE_ENQUEUE


class QueueSortNotServed(_Unserved):
    """Does not serve QueueSort."""

    violates, points, rpc = "P220", (rpcs.QUEUE_SORT_POINT,), rpcs.QUEUE_SORT


class PlacementFeasibleNotServed(_Unserved):
    """Does not serve PlacementFeasible."""

    violates, points, rpc = "P230", (rpcs.PLACEMENT_FEASIBLE_POINT,), rpcs.PLACEMENT_FEASIBLE


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


class PreFlightForOnePod(Answers):
    """Answers PreBindPreFlight for the first pod alone."""

    violates, points, rpc = "P157", (rpcs.PRE_BIND_POINT,), rpcs.PRE_BIND_PRE_FLIGHT

    def change(self, response: bind_pb2.PreBindPreFlightResponse) -> None:
        response.statuses.pop()


class PostBindOnce(_Unserved):
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


class NormalizeScoreRefuses(Answers):
    """Refuses a pod at NormalizeScore."""

    violates, points, rpc = "P100", (rpcs.SCORE_POINT, rpcs.NORMALIZE_POINT), rpcs.NORMALIZE_SCORE

    def change(self, response: score_pb2.NormalizeScoreResponse) -> None:
        response.status.CopyFrom(refusal())


class PostFilterWithoutStatus(Answers):
    """Answers PostFilter without a status."""

    violates, points, rpc = "P121", (rpcs.POST_FILTER_POINT,), rpcs.POST_FILTER

    def change(self, response: filter_pb2.PostFilterResponse) -> None:
        response.ClearField("status")
        response.ClearField("actions")


class ReservesClaims(Answers):
    """Answers for device claims, as the in-tree plugin does."""

    violates, points, rpc = "P134", (rpcs.RESERVE_POINT,), rpcs.RESERVE

    def change(self, response: filter_pb2.ReserveResponse) -> None:
        response.reservations[0].claim_statuses.add()


class PermitWithoutStatus(Answers):
    """Permits without a status."""

    violates, points, rpc = "P142", (rpcs.PERMIT_POINT,), rpcs.PERMIT

    def change(self, response: bind_pb2.PermitResponse) -> None:
        response.results[0].ClearField("status")


class PreBindWithoutStatus(Answers):
    """Prepares without a status."""

    violates, points, rpc = "P152", (rpcs.PRE_BIND_POINT,), rpcs.PRE_BIND

    def change(self, response: bind_pb2.PreBindResponse) -> None:
        response.results[0].ClearField("status")


class BindWithoutStatus(Answers):
    """Binds without a status."""

    violates, points, rpc = "P163", (rpcs.BIND_POINT,), rpcs.BIND

    def change(self, response: bind_pb2.BindResponse) -> None:
        response.results[0].ClearField("status")


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


class PlacementStatusTooMany(_OfGroups):
    """Answers one status too many."""

    violates = "P233"

    def change(self, response: pod_groups_pb2.PlacementFeasibleResponse) -> None:
        response.statuses.append(response.statuses[-1])


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
