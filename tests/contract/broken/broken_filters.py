"""Plugins whose Filter or FilterDryRun answers wrongly."""

import itertools
from typing import Any

import grpc

from tests.contract.broken.reference_plugin import UNLIMITED, ReferencePlugin, Refused, refusal
from trireme.plugin_verification import rpcs
from trireme.v1 import filter_pb2, plugin_pb2, status_pb2

Nodes = list[filter_pb2.NodeView]


class _Filters(ReferencePlugin):
    points = (rpcs.FILTER_POINT,)


class FilterNotServed(_Filters):
    """Fails in Filter."""

    violates = "P040"

    def Filter(self, request: filter_pb2.FilterRequest) -> filter_pb2.FilterResponse:
        raise Refused(grpc.StatusCode.INTERNAL, "KeyError: 'zone'")


class DryRunNotServed(_Filters):
    """Does not serve FilterDryRun."""

    violates = "P041"

    def FilterDryRun(self, request: filter_pb2.FilterDryRunRequest) -> filter_pb2.FilterDryRunResponse:
        raise Refused(grpc.StatusCode.UNIMPLEMENTED, "not here")


class FilterWithoutColumns(_Filters):
    """Answers Filter with an empty message."""

    violates = "P042"

    def Filter(self, request: filter_pb2.FilterRequest) -> filter_pb2.FilterResponse:
        return filter_pb2.FilterResponse()


class DryRunWithoutColumns(_Filters):
    """Answers FilterDryRun with an empty message."""

    violates = "P043"

    def FilterDryRun(self, request: filter_pb2.FilterDryRunRequest) -> filter_pb2.FilterDryRunResponse:
        return filter_pb2.FilterDryRunResponse()


class NoSize(_Filters):
    """Leaves out the size."""

    violates = "P044"

    def columns(self, nodes: Nodes) -> filter_pb2.NodeColumns:
        columns = super().columns(nodes)
        columns.ClearField("size")
        return columns


class ShortStatusIndex(_Filters):
    """Leaves out the last node."""

    violates = "P045"

    def columns(self, nodes: Nodes) -> filter_pb2.NodeColumns:
        columns = super().columns(nodes)
        columns.status_index.pop()
        return columns


class StatusIndexBeyondStatuses(_Filters):
    """Counts statuses from 2."""

    violates = "P046"

    def columns(self, nodes: Nodes) -> filter_pb2.NodeColumns:
        columns = super().columns(nodes)
        columns.status_index[:] = [index and index + 1 for index in columns.status_index]
        return columns


class NoCapacity(_Filters):
    """Leaves out the capacities."""

    violates = "P047"

    def columns(self, nodes: Nodes) -> filter_pb2.NodeColumns:
        columns = super().columns(nodes)
        columns.ClearField("capacity")
        return columns


class PassesWithoutCapacity(_Filters):
    """Has no capacity where a node passes."""

    violates = "P048"

    def columns(self, nodes: Nodes) -> filter_pb2.NodeColumns:
        columns = super().columns(nodes)
        columns.capacity[:] = [0] * len(nodes)
        return columns


class MinusOneForUnlimited(_Filters):
    """Has the capacity -1 for no limit."""

    violates = "P049"

    def columns(self, nodes: Nodes) -> filter_pb2.NodeColumns:
        columns = super().columns(nodes)
        columns.capacity[:] = [-1 if capacity else 0 for capacity in columns.capacity]
        return columns


class RefusedWithCapacity(_Filters):
    """Has capacity where a node is refused."""

    violates = "P050"

    def columns(self, nodes: Nodes) -> filter_pb2.NodeColumns:
        columns = super().columns(nodes)
        columns.capacity[:] = [UNLIMITED] * len(nodes)
        return columns


class CountsPodsOfNodesAlone(_Filters):
    """Limits capacities, and declares that it depends on the node alone."""

    violates = "P051"

    def columns(self, nodes: Nodes) -> filter_pb2.NodeColumns:
        columns = super().columns(nodes)
        columns.capacity[:] = [3 if capacity else 0 for capacity in columns.capacity]
        return columns


class StatusTwice(_Filters):
    """Repeats a status."""

    violates = "P052"

    def columns(self, nodes: Nodes) -> filter_pb2.NodeColumns:
        columns = super().columns(nodes)
        columns.statuses.extend([refusal("unused"), refusal("unused")])
        return columns


class Patch(_Filters):
    """Answers a patch."""

    violates = "P053"

    def columns(self, nodes: Nodes) -> filter_pb2.NodeColumns:
        columns = super().columns(nodes)
        columns.base_generation = 3
        return columns


class AheadOfTheCall(_Filters):
    """Names a generation that it cannot know."""

    violates = "P054"

    def columns(self, nodes: Nodes) -> filter_pb2.NodeColumns:
        columns = super().columns(nodes)
        columns.generation = 1 << 40
        return columns


class StatusOfSuccess(_Filters):
    """Has a status for nodes that pass."""

    violates = "P055"

    def verdict(self, node: filter_pb2.NodeView) -> status_pb2.Status | None:
        return super().verdict(node) or status_pb2.Status(code=status_pb2.CODE_SUCCESS)

    def columns(self, nodes: Nodes) -> filter_pb2.NodeColumns:
        columns = super().columns(nodes)
        passing = [at for at, node in enumerate(nodes) if not node.node.spec.unschedulable]
        for at in passing:
            columns.capacity[at] = 0
        return columns


class SortsNodes(_Filters):
    """Answers in the order of names."""

    violates = "P070"

    def Filter(self, request: filter_pb2.FilterRequest) -> filter_pb2.FilterResponse:
        nodes = sorted(request.nodes.nodes, key=lambda node: node.name)
        return filter_pb2.FilterResponse(columns=self.columns(nodes))


class DryRunThatPasses(_Filters):
    """Passes every dry run."""

    violates = "P071"

    def FilterDryRun(self, request: filter_pb2.FilterDryRunRequest) -> filter_pb2.FilterDryRunResponse:
        passing = [filter_pb2.NodeView(name=run.node.name) for run in request.runs]
        return filter_pb2.FilterDryRunResponse(columns=self.columns(passing))


class DryRunsInSequence(_Filters):
    """Takes the pods that one dry run adds for there in the next ones."""

    violates = "P072"

    def info(self) -> plugin_pb2.PluginInfo:
        info = super().info()
        info.depends_on = plugin_pb2.DEPENDENCY_NODE_PODS
        return info

    def FilterDryRun(self, request: filter_pb2.FilterDryRunRequest) -> filter_pb2.FilterDryRunResponse:
        columns = self.columns([run.node for run in request.runs])
        added = list(itertools.accumulate(len(run.added_pods) for run in request.runs))
        columns.capacity[:] = [capacity - count for capacity, count in zip(columns.capacity, added, strict=True)]
        return filter_pb2.FilterDryRunResponse(columns=columns)


class AlternatingFilter(_Filters):
    """Refuses all nodes every other time."""

    violates = "P073"

    def Filter(self, request: filter_pb2.FilterRequest) -> filter_pb2.FilterResponse:
        self.calls += 1
        node = filter_pb2.NodeView()
        node.node.spec.unschedulable = True
        nodes = list(request.nodes.nodes) if self.calls % 2 else [node] * len(request.nodes.nodes)
        return filter_pb2.FilterResponse(columns=self.columns(nodes))


class RefusesLargeCalls(_Filters):
    """Refuses all nodes of a call about many."""

    violates = "P076"

    def columns(self, nodes: Nodes) -> filter_pb2.NodeColumns:
        columns = super().columns(nodes)
        if len(nodes) > 3:
            del columns.statuses[:]
            columns.statuses.append(refusal())
            columns.status_index[:] = [1] * len(nodes)
            columns.capacity[:] = [0] * len(nodes)
        return columns


class GenerationMatters(_Filters):
    """Refuses all nodes at high generations."""

    violates = "P078"
    generation = 0

    def admit(self, request: Any) -> None:
        super().admit(request)
        self.generation = request.cycle.generation

    def verdict(self, node: filter_pb2.NodeView) -> status_pb2.Status | None:
        return refusal() if self.generation > 100 else super().verdict(node)


class PodsMatterUndeclared(_Filters):
    """Reads pods, and declares that it depends on the node alone."""

    violates = "P080"

    def FilterDryRun(self, request: filter_pb2.FilterDryRunRequest) -> filter_pb2.FilterDryRunResponse:
        columns = super().FilterDryRun(request).columns
        for at, run in enumerate(request.runs):
            if run.added_pods:
                if not columns.statuses:
                    columns.statuses.append(refusal())
                columns.status_index[at], columns.capacity[at] = 1, 0
        return filter_pb2.FilterDryRunResponse(columns=columns)


class _Refuses(_Filters):
    """Differs in the status of its refusals."""

    status = refusal()

    def verdict(self, node: filter_pb2.NodeView) -> status_pb2.Status | None:
        return self.status if node.node.spec.unschedulable else None


def _refuses(name: str, violates: str, status: status_pb2.Status) -> type[ReferencePlugin]:
    """Refuses with this status."""
    return type(name, (_Refuses,), {"violates": violates, "status": status})


PLUGINS = (
    _refuses("NoCode", "P060", refusal(code=status_pb2.CODE_UNSPECIFIED)),
    _refuses("UnknownCode", "P061", refusal(code=44)),
    _refuses("NameOfAnother", "P062", refusal(plugin="NodeResourcesFit")),
    _refuses("NoName", "P062", refusal(plugin="")),
    _refuses("NoMessage", "P063", refusal(messages=[])),
    _refuses("ReasonInWords", "P064", refusal(reasons=[status_pb2.Reason(code="Node is unschedulable")])),
    _refuses("FilterThatWaits", "P065", refusal(code=status_pb2.CODE_WAIT)),
    _refuses("FilterThatSkips", "P066", refusal(code=status_pb2.CODE_SKIP)),
    _refuses(
        "NamelessParameter", "P067", refusal(reasons=[status_pb2.Reason(code="unschedulable", parameters={"": "1"})])
    ),
)
