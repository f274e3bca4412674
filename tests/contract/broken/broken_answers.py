"""Plugins that do not serve an RPC that they declare, and plugins that change one thing in a good answer."""

from collections.abc import Callable, Sequence
from typing import Any

import grpc

from tests.contract.broken.broken_steps import Answers
from tests.contract.broken.reference_plugin import SUCCESS, ReferencePlugin, Refused, refusal
from trireme.plugin_verification import rpcs
from trireme.v1 import status_pb2

_NORMALIZING = (rpcs.SCORE_POINT, rpcs.NORMALIZE_POINT)


class Unserved(ReferencePlugin):
    """Declares an extension point and does not serve its RPC."""

    rpc = rpcs.SCORE

    async def answer(self, rpc: rpcs.Rpc, payload: bytes) -> Any:
        if rpc is self.rpc:
            raise Refused(grpc.StatusCode.UNIMPLEMENTED, "not here")
        return await super().answer(rpc, payload)


def _unserved(violates: str, rpc: rpcs.Rpc, points: Sequence[int] = ()) -> type[ReferencePlugin]:
    """Does not serve the RPC."""
    fields = {"violates": violates, "rpc": rpc, "points": points or rpc.points}
    return type(f"{rpc.name}NotServed", (Unserved,), fields)


def _changed(
    name: str, violates: str, rpc: rpcs.Rpc, change: Callable[[Any], object], points: Sequence[int] = ()
) -> type[ReferencePlugin]:
    """Answers the RPC as the reference does, but for the change."""
    fields = {"violates": violates, "rpc": rpc, "points": points or rpc.points}
    return type(name, (Answers,), {**fields, "change": lambda self, response: change(response)})


PLUGINS = (
    _unserved("P090", rpcs.SCORE),
    _unserved("P136", rpcs.UNRESERVE),
    _unserved("P184", rpcs.QUEUEING_HINT, (rpcs.FILTER_POINT,)),
    _unserved("P096", rpcs.PRE_SCORE),
    _unserved("P099", rpcs.NORMALIZE_SCORE, _NORMALIZING),
    _unserved("P110", rpcs.PRE_FILTER),
    _unserved("P120", rpcs.POST_FILTER),
    _unserved("P130", rpcs.RESERVE),
    _unserved("P140", rpcs.PERMIT),
    _unserved("P150", rpcs.PRE_BIND),
    _unserved("P160", rpcs.BIND),
    _unserved("P170", rpcs.POST_BIND),
    _unserved("P180", rpcs.PRE_ENQUEUE),
    _unserved("P220", rpcs.QUEUE_SORT),
    _unserved("P230", rpcs.PLACEMENT_FEASIBLE),
    _changed("ScoreWithoutStatus", "P091", rpcs.SCORE, lambda answer: answer.ClearField("status")),
    _changed("TooFewScores", "P092", rpcs.SCORE, lambda answer: answer.scores.pop()),
    _changed("SortsScores", "P095", rpcs.SCORE, lambda answer: answer.scores.sort()),
    _changed("PreScoreRefuses", "P097", rpcs.PRE_SCORE, lambda answer: answer.status.CopyFrom(refusal())),
    _changed("TooFewNormalizedScores", "P101", rpcs.NORMALIZE_SCORE, lambda answer: answer.scores.pop(), _NORMALIZING),
    _changed("PreFilterWithoutStatus", "P111", rpcs.PRE_FILTER, lambda answer: answer.ClearField("status")),
    _changed("NamesWithoutNarrowed", "P112", rpcs.PRE_FILTER, lambda answer: answer.node_names.append("verify-0")),
    _changed("ActionsOfARefusal", "P122", rpcs.POST_FILTER, lambda answer: answer.status.CopyFrom(refusal())),
    _changed("VictimWithoutUid", "P123", rpcs.POST_FILTER, lambda answer: answer.actions[0].pod.ClearField("uid")),
    _changed(
        "EvictionWithoutMessage", "P124", rpcs.POST_FILTER, lambda answer: answer.actions[0].evict.ClearField("message")
    ),
    _changed(
        "ReservationWithoutStatus", "P132", rpcs.RESERVE, lambda answer: answer.reservations[0].ClearField("status")
    ),
    _changed("OnePermitResult", "P141", rpcs.PERMIT, lambda answer: answer.results.pop()),
    _changed("PermitWithoutTimeout", "P143", rpcs.PERMIT, lambda answer: answer.results[1].ClearField("timeout")),
    _changed("OnePreBindResult", "P151", rpcs.PRE_BIND, lambda answer: answer.results.pop()),
    _changed("WaitsForNothing", "P153", rpcs.PRE_BIND, lambda answer: answer.results[0].ClearField("wait_for")),
    _changed("PreBindWithoutTimeout", "P155", rpcs.PRE_BIND, lambda answer: answer.results[0].ClearField("timeout")),
    _changed("BindsTheFirst", "P161", rpcs.BIND, lambda answer: answer.results.pop()),
    _changed(
        "BindIndexFromOne",
        "P162",
        rpcs.BIND,
        lambda answer: answer.results.add(index=len(answer.results), status=SUCCESS),
    ),
    _changed("KeyWithoutLevel", "P222", rpcs.QUEUE_SORT, lambda answer: answer.keys[-1].ClearField("level")),
    _changed(
        "OneStatusForAllKeys", "P224", rpcs.QUEUE_SORT, lambda answer: answer.statuses.add(code=status_pb2.CODE_SUCCESS)
    ),
    _changed("PreFlightForOnePod", "P157", rpcs.PRE_BIND_PRE_FLIGHT, lambda answer: answer.statuses.pop()),
    _changed(
        "NormalizeScoreRefuses",
        "P100",
        rpcs.NORMALIZE_SCORE,
        lambda answer: answer.status.CopyFrom(refusal()),
        _NORMALIZING,
    ),
    _changed("ReservesClaims", "P134", rpcs.RESERVE, lambda answer: answer.reservations[0].claim_statuses.add()),
    _changed("PermitWithoutStatus", "P142", rpcs.PERMIT, lambda answer: answer.results[0].ClearField("status")),
    _changed("PreBindWithoutStatus", "P152", rpcs.PRE_BIND, lambda answer: answer.results[0].ClearField("status")),
    _changed("BindWithoutStatus", "P163", rpcs.BIND, lambda answer: answer.results[0].ClearField("status")),
    _changed(
        "PlacementStatusTooMany",
        "P233",
        rpcs.PLACEMENT_FEASIBLE,
        lambda answer: answer.statuses.append(answer.statuses[-1]),
        (rpcs.FILTER_POINT, rpcs.PLACEMENT_FEASIBLE_POINT),
    ),
)
