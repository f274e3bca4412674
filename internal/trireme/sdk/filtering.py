"""Serves FilterPlugin with a plugin's pre_filter, filter, post_filter, reserve and unreserve.

Also change: sdk/go/filtering.go, sdk/go/nodestatuses.go, sdk/java/src/main/java/dev/trireme/sdk/FilterHandlers.java,
sdk/java/src/main/java/dev/trireme/sdk/Columns.java, sdk/java/src/main/java/dev/trireme/sdk/Verdict.java,
sdk/rust/src/services/filtering.rs, sdk/typescript/src/services/filter_service.ts,
sdk/typescript/src/columns.ts (the same in the other languages' SDKs).
Also change: protos/trireme/v1/filter.proto (the messages).

Tests: tests/contract/test_plugin_sdk_nodes.py, tests/contract/test_plugin_sdk_results.py,
tests/contract/test_plugin_dry_runs.py.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from grpc import aio

from trireme.framework import status
from trireme.plugin_api import interfaces
from trireme.sdk import calls, cluster_state, result_checks, state
from trireme.sdk.invoker import Invoker
from trireme.sdk.results import PreFilter, Reservation
from trireme.v1 import filter_pb2, filter_pb2_grpc
from trireme.wire import node_columns

METHODS = ("pre_filter", "filter", "filter_nodes", "post_filter", "reserve", "unreserve")

_VERDICT = "None, a number above 0, or a status"
_PRE_FILTER = "None, SKIP, a status, or a PreFilter"
_POST_FILTER = "None, a status, or a filter_pb2.PostFilterResponse"
_RESERVE = "None, a status, a Reservation, or a filter_pb2.Reservation"


class FilterServicer(filter_pb2_grpc.FilterPluginServicer):
    """One plugin's FilterPlugin."""

    def __init__(self, invoker: Invoker) -> None:
        self._invoker = invoker

    async def PreFilter(
        self, request: filter_pb2.PreFilterRequest, context: aio.ServicerContext[Any, Any]
    ) -> filter_pb2.PreFilterResponse:
        """Call pre_filter; without one every pod passes."""
        response = filter_pb2.PreFilterResponse()
        async with self._invoker.turn(context, "PreFilter", "pre_filter"):
            answer = await self._invoker.call("pre_filter", await self._invoker.call_for(request.cycle, context))
            if isinstance(answer, PreFilter):
                response.state = state.encode(answer.state)
                if answer.nodes is not None:
                    response.narrowed = True
                    response.node_names.extend(result_checks.check_names(answer.nodes))
                answer = None
            response.status.CopyFrom(self._invoker.status_message(answer, _PRE_FILTER))
        return response

    async def Filter(
        self, request: filter_pb2.FilterRequest, context: aio.ServicerContext[Any, Any]
    ) -> filter_pb2.FilterResponse:
        """Call filter for each node."""
        await self._invoker.require(context, "filter", "filter_nodes")
        response = filter_pb2.FilterResponse()
        async with self._invoker.turn(context, "Filter", self._filter_method):
            call = await self._invoker.call_for(request.cycle, context, request.count)
            verdicts = await self._call_filter(call, calls.from_selection(request.nodes, call.cluster))
            response.columns.CopyFrom(self._node_columns(verdicts, request.cycle.generation))
        return response

    async def FilterDryRun(
        self, request: filter_pb2.FilterDryRunRequest, context: aio.ServicerContext[Any, Any]
    ) -> filter_pb2.FilterDryRunResponse:
        """Call filter for each dry run."""
        await self._invoker.require(context, "filter", "filter_nodes")
        response = filter_pb2.FilterDryRunResponse()
        async with self._invoker.turn(context, "FilterDryRun", self._filter_method):
            call = await self._invoker.call_for(request.cycle, context)
            verdicts = await self._dry_runs(call, request.runs)
            response.columns.CopyFrom(self._node_columns(verdicts, request.cycle.generation))
        return response

    async def PostFilter(
        self, request: filter_pb2.PostFilterRequest, context: aio.ServicerContext[Any, Any]
    ) -> filter_pb2.PostFilterResponse:
        """Call post_filter."""
        await self._invoker.require(context, "post_filter")
        response = filter_pb2.PostFilterResponse()
        async with self._invoker.turn(context, "PostFilter", "post_filter"):
            call = await self._invoker.call_for(request.cycle, context)
            answer = await self._invoker.call("post_filter", call, request.columns)
            if isinstance(answer, filter_pb2.PostFilterResponse):
                return answer
            response.status.CopyFrom(self._invoker.status_message(answer, _POST_FILTER))
        return response

    async def Reserve(
        self, request: filter_pb2.ReserveRequest, context: aio.ServicerContext[Any, Any]
    ) -> filter_pb2.ReserveResponse:
        """Call reserve for each placement, in order."""
        await self._invoker.require(context, "reserve")
        response = filter_pb2.ReserveResponse()
        async with self._invoker.turn(context, "Reserve", "reserve"):
            call = await self._invoker.call_for(request.cycle, context)
            for placement in request.placements:
                answer = await self._invoker.call("reserve", call, placement)
                response.reservations.append(self._reservation(answer))
        return response

    async def Unreserve(
        self, request: filter_pb2.UnreserveRequest, context: aio.ServicerContext[Any, Any]
    ) -> filter_pb2.UnreserveResponse:
        """Call unreserve for each placement, in order, if the plugin has it."""
        async with self._invoker.turn(context, "Unreserve", "unreserve"):
            call = await self._invoker.call_for(request.cycle, context)
            for placement in request.placements:
                await self._invoker.call("unreserve", call, placement)
        return filter_pb2.UnreserveResponse()

    async def _dry_runs(self, call: calls.Call, runs: Sequence[filter_pb2.DryRun]) -> Sequence[object]:
        """Call filter for each dry run: a node with some pods gone and others there."""
        verdicts: list[object] = []
        for run in runs:
            if call.cluster is None:
                dry_run_call = dataclasses.replace(call, removed_pods=run.removed_pods, added_pods=run.added_pods)
                nodes = calls.from_views([run.node])
            else:
                dry_run_call, nodes = _dry_run_of_follower(call, run, call.cluster)
            verdicts += await self._call_filter(dry_run_call, nodes)
        return verdicts

    async def _call_filter(self, call: calls.Call, nodes: Sequence[calls.Node]) -> Sequence[object]:
        """The verdicts of filter_nodes, or of filter node by node. Raises: InvalidResult if their number is wrong."""
        if self._invoker.method("filter_nodes") is None:
            return await self._invoker.call_for_each_node("filter", call, nodes)
        verdicts = await self._invoker.call("filter_nodes", call, nodes)
        return result_checks.check_sequence(verdicts, len(nodes), "verdicts")

    @property
    def _filter_method(self) -> str:
        return "filter" if self._invoker.method("filter_nodes") is None else "filter_nodes"

    def _reservation(self, answer: object) -> filter_pb2.Reservation:
        """The message of reserve's result. Raises: InvalidResult: it is something else."""
        if isinstance(answer, filter_pb2.Reservation):
            return answer
        if isinstance(answer, Reservation):
            success = self._invoker.status_message(None)
            return filter_pb2.Reservation(status=success, assumed=answer.assumed, state=state.encode(answer.state))
        return filter_pb2.Reservation(status=self._invoker.status_message(answer, _RESERVE))

    def _node_columns(self, verdicts: Sequence[object], generation: int) -> filter_pb2.NodeColumns:
        """Encode verdicts as columns: the distinct statuses, and one index per node."""
        table: dict[status.Status, int] = {}
        index = np.zeros(len(verdicts), dtype=np.int32)
        capacity = np.full(len(verdicts), interfaces.UNLIMITED, dtype=np.int32)
        for at, verdict in enumerate(verdicts):
            if verdict is None or verdict == status.SUCCESS:
                continue
            if isinstance(verdict, status.Status):
                refusal = self._invoker.with_own_name(result_checks.check_status(verdict, _VERDICT))
                index[at] = table.setdefault(refusal, len(table) + 1)
                capacity[at] = 0
            else:
                capacity[at] = min(result_checks.capacity_of(verdict, _VERDICT), interfaces.UNLIMITED)
        short = index.astype(np.int16)
        return node_columns.to_message(
            node_columns.NodeColumns(generation, 0, len(verdicts), None, tuple(table), short, capacity)
        )


def _dry_run_of_follower(
    call: calls.Call, run: filter_pb2.DryRun, cluster: cluster_state.ClusterState
) -> tuple[calls.Call, list[calls.Node]]:
    """A dry run for a plugin that follows the cluster: its pods are rows and classes.

    Pods that are gone by now are left out; the host notices that the cluster has changed.
    """
    removed = [placed.pod for placed in map(cluster.pod, run.removed_rows) if placed is not None]
    added = [cluster.classes[number] for number in run.added_classes if number in cluster.classes]
    dry_run_call = dataclasses.replace(call, removed_pods=removed, added_pods=added)
    return dry_run_call, [calls.from_slot(run.slot, cluster)]
