"""A bind service on a Unix socket, over real gRPC, in front of an embedded cluster: what the contract tests talk to."""

import itertools
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from trireme.bind import flags, process
from trireme.frontend.phase_clients import local_phases
from trireme.rpc import dialing
from trireme.rpc.grpc_server import ReplicaServer
from trireme.v1 import bind_pb2, bind_phase_pb2, bind_phase_pb2_grpc, cycle_pb2, plugin_pb2, snapshot_pb2, status_pb2
from trireme_kube.client.rest import client
from trireme_kube.client.rest.credentials import Source
from trireme_kube.componentbase import supervision
from trireme_kube.embedded.cluster import EmbeddedCluster

CONFIG_HASH = 77
HOLDER = "host-a_1"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"

_names = itertools.count(1)


def configuration(*, remote: Sequence[snapshot_pb2.RemotePlugin] = (), **plugins: Sequence[str]) -> Any:
    """One profile; keywords are points (`permit`, `pre_bind`, `bind`, `post_bind`) with their plugins in order."""
    points = {
        "permit": plugin_pb2.EXTENSION_POINT_PERMIT,
        "pre_bind": plugin_pb2.EXTENSION_POINT_PRE_BIND,
        "bind": plugin_pb2.EXTENSION_POINT_BIND,
        "post_bind": plugin_pb2.EXTENSION_POINT_POST_BIND,
    }
    plugins.setdefault("bind", ["DefaultBinder"])
    sets = [
        snapshot_pb2.PluginSet(
            extension_point=points[point], plugins=[snapshot_pb2.WeightedPlugin(name=name) for name in names]
        )
        for point, names in plugins.items()
    ]
    profile = snapshot_pb2.Profile(scheduler_name="default-scheduler", plugin_sets=sets)
    return snapshot_pb2.Configuration(profiles=[profile], remote_plugins=remote)


@dataclass
class Bind:
    """A cluster, the bind service in front of it, and a leader that may use it."""

    cluster: EmbeddedCluster
    api: client.ApiClient
    stub: Any  # BindPhaseStub: the generated types are those of the blocking API
    channel: aio.Channel
    epoch: int = 0
    holder: str = HOLDER
    uids: dict[str, str] = field(default_factory=dict)
    address: str = ""  # where the service listens

    def fence(self, valid_ms: int = 10_000) -> cycle_pb2.Fence:
        """The leader as it says who it is."""
        return cycle_pb2.Fence(epoch=self.epoch, lease_valid_ms=valid_ms, holder_identity=self.holder)

    def cycle(self, valid_ms: int = 10_000) -> cycle_pb2.Cycle:
        """The context of a call."""
        return cycle_pb2.Cycle(fence=self.fence(valid_ms), config_hash=CONFIG_HASH, profile="default-scheduler")

    async def acquire(self, holder: str = HOLDER, duration: int = 15) -> None:
        """Writes the Lease, as an election would."""
        spec = {"holderIdentity": holder, "leaseDurationSeconds": duration, "leaseTransitions": 0}
        body: dict[str, Any] = {"metadata": {"name": "kube-scheduler", "namespace": "kube-system"}, "spec": spec}
        if self.epoch:
            lease = (await self.api.get(f"{LEASES}/kube-scheduler")).json()
            body["metadata"]["resourceVersion"] = lease["metadata"]["resourceVersion"]
            answer = await self.api.put(f"{LEASES}/kube-scheduler", body)
        else:
            answer = await self.api.post(LEASES, body)
        self.epoch, self.holder = int(answer.json()["metadata"]["resourceVersion"]), holder

    async def configure(self, config: snapshot_pb2.Configuration | None = None) -> bind_phase_pb2.FenceResponse:
        """Fence with a configuration."""
        request = bind_phase_pb2.FenceRequest(
            fence=self.fence(), config_hash=CONFIG_HASH, configuration=config or configuration()
        )
        response: bind_phase_pb2.FenceResponse = await self.stub.Fence(request, timeout=20)
        return response

    async def make_pods(self, *names: str) -> None:
        """Creates pods that nobody has placed."""
        for name in names:
            body = {
                "metadata": {"name": name},
                "spec": {"containers": [{"name": "c", "image": "x"}]},
            }
            answer = await self.api.post("/api/v1/namespaces/default/pods", body)
            self.uids[name] = answer.json()["metadata"]["uid"]

    def identity(self, name: str) -> cycle_pb2.PodIdentity:
        """The pod of that name."""
        return cycle_pb2.PodIdentity(namespace="default", name=name, uid=self.uids[name])

    def items(self, names: Iterable[str], node: str) -> list[bind_pb2.BindItem]:
        """Those pods, for that node."""
        return [bind_pb2.BindItem(pod=self.identity(name), node_name=node) for name in names]

    async def bind(self, *names: str, node: str, valid_ms: int = 10_000, timeout: float = 20.0) -> list[Any]:
        """Binds pods; their statuses, in order."""
        request = bind_pb2.BindRequest(cycle=self.cycle(valid_ms), items=self.items(names, node))
        found: dict[int, Any] = {}
        async for response in self.stub.Bind(request, timeout=timeout):
            for result in response.results:
                assert result.index not in found
                found[result.index] = result.status
        return [found[index] for index in range(len(names))]

    async def pre_bind(self, items: Sequence[bind_pb2.BindItem]) -> list[bind_pb2.PreBindResult]:
        """Prepares pods of one class; their results, in order."""
        pods = bind_pb2.PreBindRequest(cycle=self.cycle(), items=items)
        request = bind_phase_pb2.BindPhasePreBindRequest(requests=[pods], timeout_ms=5000)
        found: dict[int, bind_pb2.PreBindResult] = {}
        async for response in self.stub.PreBind(request, timeout=20):
            found |= {entry.index: entry.result for entry in response.results}
        return [found[index] for index in range(len(items))]

    async def pre_bind_pre_flight(self, items: Sequence[bind_pb2.BindItem]) -> list[status_pb2.Status]:
        """Whether there is work to prepare pods of one class, in order."""
        pods = bind_pb2.PreBindPreFlightRequest(cycle=self.cycle(), items=items)
        request = bind_phase_pb2.BindPhasePreBindPreFlightRequest(requests=[pods], timeout_ms=5000)
        found: dict[int, status_pb2.Status] = {}
        async for response in self.stub.PreBindPreFlight(request, timeout=20):
            found |= {entry.index: entry.status for entry in response.results}
        return [found[index] for index in range(len(items))]

    async def apply(self, *actions: bind_pb2.Action) -> list[Any]:
        """Carries out actions; their statuses, in order."""
        found: dict[int, Any] = {}
        async for response in self.stub.Apply(
            bind_phase_pb2.ApplyRequest(fence=self.fence(), actions=actions), timeout=20
        ):
            for result in response.results:
                found[result.index] = result.status
        return [found[index] for index in range(len(actions))]

    async def pod(self, name: str) -> dict[str, Any]:
        """The pod as the API server has it."""
        found: dict[str, Any] = (await self.api.get(f"/api/v1/namespaces/default/pods/{name}")).json()
        return found

    async def node_of(self, name: str) -> str:
        """The node that the pod is bound to; empty: none."""
        return str((await self.pod(name))["spec"].get("nodeName", ""))


@asynccontextmanager
async def running(folder: Path, *extra_flags: str, in_process: bool = False) -> AsyncIterator[Bind]:
    """Everything, without a configuration and without a leader; `in_process`: as in a frontend's own process."""
    async with EmbeddedCluster(nodes=3) as cluster:
        kubeconfig = cluster.write_kubeconfig(folder / "kubeconfig")
        socket = f"unix:{folder}/bind-{next(_names)}.sock"
        arguments = ["--kubeconfig", str(kubeconfig), "--kube-api-qps=-1", *extra_flags]
        options = flags.parse(["--listen", socket, *arguments])
        async with (
            await client.connect(client.ClientSettings(source=Source(str(kubeconfig)), qps=-1)) as api,
            serving_in_process(arguments) if in_process else serving(options) as channel,
        ):
            yield Bind(cluster, api, bind_phase_pb2_grpc.BindPhaseStub(channel), channel, address=socket)


@pytest.fixture(name="bind", params=[False, True], ids=["process", "in-process"])
async def configured(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Bind]:
    """A configured bind service and its leader, in a process of its own or as in a frontend's."""
    async with running(tmp_path, in_process=request.param) as found:
        await found.acquire()
        await found.configure()
        yield found


@asynccontextmanager
async def serving_in_process(arguments: Sequence[str]) -> AsyncIterator[aio.Channel]:
    """As a frontend serves bind itself, and the channel by which it calls it."""
    local = local_phases.LocalPhases({"bind": arguments}, {}, in_process=("bind",))
    await local.start()
    try:
        (address,) = local.addresses("bind")
        yield dialing.Dialer().channel(address, (), 0)
    finally:
        await local.stop()


@asynccontextmanager
async def serving(options: flags.Options) -> AsyncIterator[aio.Channel]:
    """A bind service, and a channel to it."""
    async with process.lifespan(options, supervision.Supervisor()) as services:
        server = ReplicaServer(options.listener, services)
        address = await server.start()
        try:
            async with aio.insecure_channel(address.text) as channel:
                yield channel
        finally:
            await server.stop(0.5)


def ok(statuses: Sequence[status_pb2.Status]) -> bool:
    """Whether all are a success."""
    return all(status.code == status_pb2.CODE_SUCCESS for status in statuses)


def details(error: aio.AioRpcError) -> tuple[grpc.StatusCode, str]:
    """The code and the machine-readable reason of a refusal."""
    trailing = dict(error.trailing_metadata() or ())
    return error.code(), str(trailing.get("trireme-reason", ""))
