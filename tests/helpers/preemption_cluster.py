"""A cluster for tests of DefaultPreemption, and a pod in it that fits nowhere."""

import itertools
from typing import Any

from tests.helpers import phase_calls
from tests.helpers.phase_calls import context
from tests.helpers.snapshot_views import SnapshotBuilder, pod_of, requesting
from trireme.filter import service
from trireme.registry import remote_makers
from trireme.v1 import core_pb2, filter_pb2, filter_phase_pb2, plugin_pb2
from trireme.wire import identities

FILTERS = ("NodeUnschedulable", "NodeName", "TaintToleration", "NodePorts", "NodeResourcesFit")
PREEMPTOR = 1000


def pod_of_priority(priority: int, cpu: str, labels: dict[str, str] | None = None, **spec: Any) -> core_pb2.Pod:
    """A pod that requests so much."""
    return pod_of({**requesting(cpu=cpu), "priority": priority, **spec}, labels=labels)


class Preemption:
    """A cluster, and a pod of class PREEMPTOR that fits nowhere."""

    def __init__(self, nodes: int, cpu: str = "4", wanted: str = "2", filters: tuple[str, ...] = FILTERS) -> None:
        self.builder = SnapshotBuilder()
        self.names = [f"n{number}" for number in range(nodes)]
        for name in self.names:
            self.builder.set_node(name, allocatable={"cpu": cpu, "pods": "110"}, labels={"host": name})
        self.builder.add_class(PREEMPTOR, pod_of_priority(100, wanted))
        self.filters = filters
        self.uid = "me"
        self._classes = itertools.count(1)
        self.service: service.FilterPhase

    def add(self, priority: int, cpu: str, *nodes: str, start: int = 0, flags: int = 0, **fields: Any) -> list[int]:
        """Pods of a class of their own, one on each node; their rows."""
        number = next(self._classes)
        self.builder.add_class(number, pod_of_priority(priority, cpu, **fields))
        rows = self.builder.place(number, *nodes, flags=flags)
        self.builder.snap.pods.start[rows] = start
        return rows

    async def ask(
        self, nominated: str = "", args: str = "{}", gates: dict[str, bool] | None = None
    ) -> filter_pb2.PostFilterResponse:
        """Filter, and PostFilter of what it answered."""
        self.service = service.FilterPhase(snap := self.builder.snap, remote_makers.no_remote_plugin)
        configuration = phase_calls.configuration(self.filters, [])
        configuration.feature_gates.update(gates or {})
        profile = configuration.profiles[0]
        profile.plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_POST_FILTER).plugins.add(
            name="DefaultPreemption"
        )
        profile.plugin_args.add(name="DefaultPreemption", args_json=args.encode())
        profile.plugin_args.add(name="PodTopologySpread", args_json=b'{"defaultingType":"List"}')
        profile.plugin_args.add(name="InterPodAffinity", args_json=b'{"hardPodAffinityWeight":1}')
        await phase_calls.greet(self.service, configuration)
        assert snap.synced
        return await self.again(nominated)

    async def again(self, nominated: str = "", number: int = PREEMPTOR) -> filter_pb2.PostFilterResponse:
        """As ask, of the same service."""
        cycle = phase_calls.cycle(self.builder, number)
        cycle.pod.metadata.uid = cycle.pod.metadata.name = self.uid
        cycle.pod.status.nominated_node_name = nominated
        filtered = await self.service.Filter(filter_phase_pb2.FilterPhaseFilterRequest(cycle=cycle, count=1), context())
        request = filter_phase_pb2.RunPostFilterRequest(
            cycle=cycle, columns=filtered.columns, preemptors=[identities.preemptor(cycle.pod, cycle.generation)]
        )
        return (await self.service.RunPostFilter(request, context())).results[0].answer
