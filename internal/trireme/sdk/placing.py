"""Serves PodGroupPlugin with a plugin's placement_feasible.

Also change: sdk/go/placing.go, sdk/java/src/main/java/dev/trireme/sdk/PodGroupHandlers.java,
sdk/java/src/main/java/dev/trireme/sdk/PlacementTrial.java, sdk/rust/src/services/placing.rs,
sdk/typescript/src/services/pod_group_service.ts (the same in the other languages' SDKs).
Also change: protos/trireme/v1/pod_groups.proto (the messages).

Tests: tests/contract/test_plugin_placement_feasible.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grpc import aio

from trireme.framework import status
from trireme.sdk import result_checks
from trireme.sdk.invoker import Invoker
from trireme.v1 import core_pb2, pod_groups_pb2, pod_groups_pb2_grpc, scheduling_pb2, status_pb2

METHODS = ("placement_feasible",)

_EXPECTED = "None, more_members, unschedulable, or an error"
_CODES = (status.Code.SUCCESS, status.Code.WAIT, status.Code.UNSCHEDULABLE, status.Code.ERROR)
_GOES_ON = (status_pb2.CODE_SUCCESS, status_pb2.CODE_WAIT)


@dataclass(frozen=True, slots=True)
class TriedPod:
    """A pod of the group that was tried in the placement, and the node that it would get; empty: none takes it."""

    pod: core_pb2.Pod
    node_name: str


@dataclass(frozen=True, slots=True)
class PlacementTrial:
    """A group that is being tried in a placement, and how far the trial has come.

    `placement` is the placement's name, of a topology domain its label's value, and `node_names` its nodes; both empty:
    the group is tried on all nodes. `tried` are the pods that were tried so far, in order; of a group of groups those
    that fit in their groups. `remaining` pods were not tried yet, `scheduled` fit, those included that had a node
    before, and `unschedulable` do not; of a group of groups its groups are counted. `min_count` of them have to fit by
    the group's policy.
    """

    group: scheduling_pb2.PodGroup | scheduling_pb2.CompositePodGroup
    min_count: int
    placement: str
    node_names: Sequence[str]
    tried: Sequence[TriedPod]
    remaining: int
    scheduled: int
    unschedulable: int


class PodGroupServicer(pod_groups_pb2_grpc.PodGroupPluginServicer):
    """One plugin's PodGroupPlugin."""

    def __init__(self, invoker: Invoker) -> None:
        self._invoker = invoker

    async def PlacementFeasible(
        self, request: pod_groups_pb2.PlacementFeasibleRequest, context: aio.ServicerContext[Any, Any]
    ) -> pod_groups_pb2.PlacementFeasibleResponse:
        """Call placement_feasible for each step, up to the first that ends the trial."""
        await self._invoker.require(context, "placement_feasible")
        response = pod_groups_pb2.PlacementFeasibleResponse()
        async with self._invoker.turn(context, "PlacementFeasible", "placement_feasible"):
            call = await self._invoker.call_for(request.cycle, context)
            tried = [_tried_pod(request, each) for each in request.tried]
            for step in request.steps:
                answer = await self._invoker.call("placement_feasible", call, _trial(request, step, tried))
                response.statuses.append(self._status(answer))
                if response.statuses[-1].code not in _GOES_ON:
                    break
        return response

    def _status(self, answer: object) -> status_pb2.Status:
        """The status of one step. Raises: result_checks.InvalidResult."""
        if isinstance(answer, status.Status) and answer.code not in _CODES:
            raise result_checks.reject(answer, _EXPECTED)
        return self._invoker.status_message(answer, _EXPECTED)


def _tried_pod(request: pod_groups_pb2.PlacementFeasibleRequest, tried: pod_groups_pb2.TriedPod) -> TriedPod:
    """The pod with its fields, which it shares with others of the request."""
    pod = core_pb2.Pod()
    for fields in request.pod_fields[tried.fields : tried.fields + 1]:
        pod.CopyFrom(fields)
    pod.MergeFrom(tried.pod)
    return TriedPod(pod, tried.node_name)


def _trial(
    request: pod_groups_pb2.PlacementFeasibleRequest, step: pod_groups_pb2.PlacementStep, tried: Sequence[TriedPod]
) -> PlacementTrial:
    composite = request.HasField("composite_pod_group")
    return PlacementTrial(
        request.composite_pod_group if composite else request.pod_group,
        request.min_count,
        request.placement,
        request.node_names,
        tried[: step.tried],
        step.remaining,
        step.scheduled,
        step.unschedulable,
    )
