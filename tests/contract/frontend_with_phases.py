"""A frontend's own parts with real filter, score and insight services, and an API server that is a dict.

The services are behind real gRPC connections: whatever has to do with connections happens as in production, and ten
thousand pods take seconds.
"""

import asyncio
import collections
import contextlib
import dataclasses
import functools
import pathlib
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Any

from trireme.cache import pod_projection
from trireme.config import commandline, trireme_configuration
from trireme.filter import process as filter_process
from trireme.frontend import app, leadership_runner
from trireme.frontend.phase_clients import local_phases
from trireme.frontend.term import Term
from trireme.frontend.tracing import traced_metrics
from trireme.insight import process as insight_process
from trireme.phases import phase_process
from trireme.remote import remote_plugins
from trireme.rpc import grpc_server, listen_flags
from trireme.score import process as score_process
from trireme.snapshot import snapshot
from trireme.v1 import bind_pb2, bind_phase_pb2, bind_phase_pb2_grpc, core_pb2, cycle_pb2, status_pb2
from trireme_kube.client.informers.watch import Event, EventKind
from trireme_kube.componentbase import supervision

_PHASES: Mapping[str, phase_process.Phase[Any]] = {
    "filter": filter_process.PHASE,
    "score": score_process.PHASE,
    "insight": insight_process.INSIGHT,
}
SUCCESS = status_pb2.Status(code=status_pb2.CODE_SUCCESS)


@functools.cache
def _completed() -> commandline.CompletedConfig:
    found: list[commandline.CompletedConfig] = []
    arguments = ["--master=http://127.0.0.1:1", "--secure-port=0", "--leader-elect=false"]

    def build(completed: commandline.CompletedConfig) -> int:
        found.append(completed)
        return 0

    assert commandline.run(arguments, environment={}, build=build, log=lambda line: None) == 0
    return found[0]


class Cluster:
    """The frontend and what it knows. Pods are bound by `Bind` servers, which all write here."""

    def __init__(
        self, insight: trireme_configuration.Insight | None = None, *, in_process: Collection[str] = ()
    ) -> None:
        """`insight`: where insight runs, and what it is for. `in_process`: the phases in the frontend's process."""
        completed = _completed()
        if insight is not None:
            completed = dataclasses.replace(completed, trireme=dataclasses.replace(completed.trireme, insight=insight))
        self.local = local_phases.LocalPhases({}, {}, in_process=in_process)
        built = app.build(
            completed,
            app.Clients(None, None, {}),  # type: ignore[arg-type]  # nothing is read or written
            {},
            traced_metrics.of_configuration(completed),
        )
        # What the test has delivered is all there is.
        self.frontend = dataclasses.replace(built, informers=())
        self.pods: dict[str, dict[str, Any]] = {}  # by UID
        self.bound: dict[str, str] = {}  # UID to node
        self.bound_at: dict[str, float] = {}
        self.twice: list[str] = []
        self.changed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def scheduling(self) -> AsyncIterator[None]:
        """The frontend leads while the block runs. Raises: what ends one of its tasks."""
        frontend = self.frontend
        frontend.begin(Term(7, "me", lambda: 10.0))
        leadership = leadership_runner.LeadershipRunner(
            _completed(),
            frontend,
            None,  # type: ignore[arg-type]  # nothing is read
            self.local,
            lambda _: self.local,
            time.monotonic,
        )
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(supervision.supervise(name, work))
                for name, work in (
                    ("scheduler", frontend.scheduling.scheduler.run),
                    ("status outbox", frontend.scheduling.outbox.run),
                    ("publisher", leadership._publish_steadily),
                    ("background", frontend.raise_first_failure),
                )
            ]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
        await frontend.scheduling.preemptions.close()
        await frontend.scheduling.binding.close()
        await frontend.phases.links.close()
        await self.local.stop()

    def deliver_nodes(self, nodes: Sequence[core_pb2.Node], kind: EventKind = EventKind.ADDED) -> None:
        """The watch shows these nodes."""
        self.frontend.inbox.on_nodes([Event(kind, node) for node in nodes])

    def create(self, name: str, cpu: str) -> str:
        """Somebody creates a pod, and the watch shows it; answers its UID."""
        uid = f"uid-{name}"
        self.pods[uid] = {
            "metadata": {"namespace": "ns", "name": name, "uid": uid, "resourceVersion": "1"},
            "spec": {
                "schedulerName": "default-scheduler",
                "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
            },
            "status": {},
        }
        self._show(uid, EventKind.ADDED)
        return uid

    def bind(self, item: bind_pb2.BindItem) -> status_pb2.Status:
        """Write a binding; a pod that is bound elsewhere is refused."""
        uid = item.pod.uid
        if self.bound.setdefault(uid, item.node_name) != item.node_name:
            self.twice.append(uid)
            return status_pb2.Status(code=status_pb2.CODE_ERROR, messages=[f"is on {self.bound[uid]}"])
        if uid not in self.bound_at:
            self.bound_at[uid] = time.monotonic()
            self.pods[uid]["spec"]["nodeName"] = item.node_name
            self.pods[uid]["metadata"]["resourceVersion"] = "2"
            asyncio.get_running_loop().call_soon(self._show, uid, EventKind.MODIFIED)
            self.changed.set()
        return SUCCESS

    async def until_bound(self, count: int, seconds: float) -> None:
        """Return once so many pods are bound."""
        async with asyncio.timeout(seconds):
            while len(self.bound) < count:
                self.changed.clear()
                await self.changed.wait()

    def per_node(self) -> collections.Counter[str]:
        """How many pods each node has."""
        return collections.Counter(self.bound.values())

    def _show(self, uid: str, kind: EventKind) -> None:
        self.frontend.inbox.on_pods([Event(kind, pod_projection.parse(self.pods[uid]))])


class _Bind(bind_phase_pb2_grpc.BindPhaseServicer):
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def Fence(self, request: bind_phase_pb2.FenceRequest, context: Any) -> bind_phase_pb2.FenceResponse:
        return bind_phase_pb2.FenceResponse(epoch=request.fence.epoch)

    async def Bind(self, request: bind_pb2.BindRequest, context: Any) -> AsyncIterator[bind_pb2.BindResponse]:
        for index, item in enumerate(request.items):
            await asyncio.sleep(0)
            result = bind_pb2.BindResult(index=index, status=self._cluster.bind(item))
            yield bind_pb2.BindResponse(results=[result])

    async def Apply(
        self, request: bind_phase_pb2.ApplyRequest, context: Any
    ) -> AsyncIterator[bind_phase_pb2.ApplyResponse]:
        results = [bind_pb2.BindResult(index=index, status=SUCCESS) for index in range(len(request.actions))]
        yield bind_phase_pb2.ApplyResponse(results=results)


class Server:
    """One replica of a phase, which can be stopped and started again at its address."""

    def __init__(self, cluster: Cluster, phase: str, folder: pathlib.Path, number: int) -> None:
        self.address = f"unix:{folder}/{phase}-{number}.sock"
        self._cluster = cluster
        self._phase = phase
        #: The phase's service, once it is served; of bind none.
        self.service: Any = None
        self._server: grpc_server.ReplicaServer | None = None

    async def start(self) -> None:
        """Serve, unless it does."""
        if self._server is None:
            self._server = grpc_server.ReplicaServer(listen_flags.make_listener(self.address), self._services())
            await self._server.start()

    async def stop(self) -> None:
        """End what is under way, and stop to listen."""
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(0)

    def _services(self) -> Sequence[grpc_server.Service]:
        if self._phase == "bind":
            servicer = _Bind(self._cluster)  # type: ignore[abstract]  # no plugin: pods are bound and nothing else
            descriptor = bind_phase_pb2.DESCRIPTOR.services_by_name["BindPhase"]
            return [
                grpc_server.Service(
                    descriptor, lambda server: bind_phase_pb2_grpc.add_BindPhaseServicer_to_server(servicer, server)
                )
            ]
        phase = _PHASES[self._phase]
        snap = snapshot.Snapshot()
        service = self.service = phase.make(snap, remote_plugins.RemotePlugins(snap, cycle_pb2.Cycle), None)
        hosted = phase_process.PhasePluginService("i", {phase.point: lambda: service.chains})
        return [
            *phase_process.shared_services(service.follow, hosted),
            grpc_server.Service(phase.descriptor, lambda server: phase.add_to(service, server)),
        ]


def node(name: str, pods: int, images: Sequence[core_pb2.ContainerImage] = ()) -> core_pb2.Node:
    """A node for so many pods."""
    made = core_pb2.Node()
    made.metadata.name = made.metadata.uid = name
    for resource, amount in (("cpu", "64"), ("memory", "256Gi"), ("pods", str(pods))):
        made.status.allocatable[resource].string = amount
    made.status.images.extend(images)
    return made
