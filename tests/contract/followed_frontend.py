"""An insight process, and the frontend's end of its stream: a cluster and a queue as a test says."""

import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

from tests.contract.contract_services import DEADLINE, ROOT
from tests.helpers import polling
from trireme.cache import class_registry, cluster_cache, pod_projection
from trireme.frontend import phase_configuration
from trireme.frontend.phase_clients import insight_replicas, snapshot_publisher
from trireme.rpc import dialing
from trireme.v1 import core_pb2, cycle_pb2, insight_pb2, plugin_pb2, simulation_pb2, snapshot_pb2

PROFILE = "default-scheduler"
# Simulations wait for one another. Units: seconds.
SIMULATION_DEADLINE = 5 * DEADLINE


class Frontend:
    """The frontend's end: a cache, the publisher of what is in it, and the queue as the test says."""

    def __init__(self, address: str, dialer: dialing.Dialer | None = None) -> None:
        self.registry = class_registry.ClassRegistry()
        self.cache = cluster_cache.ClusterCache(self.registry)
        configuration = _configuration()
        hello = snapshot_pb2.Hello(
            fence=cycle_pb2.Fence(epoch=1),
            config_hash=phase_configuration.config_hash(configuration),
            configuration=configuration,
        )
        self.publisher = snapshot_publisher.SnapshotPublisher(self.cache, lambda: hello)
        self.insight = insight_replicas.InsightReplicas(
            self.publisher, dialer or dialing.Dialer(), DEADLINE, time.monotonic
        )
        self.publisher.add_followers(self.insight.replicas)
        self._address = address

    @contextlib.asynccontextmanager
    async def leading(self) -> AsyncIterator["Frontend"]:
        """Its links are up while the block runs."""
        self.insight.replicas.set_endpoints([self._address])
        try:
            await polling.until(lambda: bool(self.insight.replicas.available))
            yield self
        finally:
            await self.insight.replicas.close()

    def add_node(self, name: str, cpu: str) -> None:
        node = core_pb2.Node()
        node.metadata.name = name
        node.status.allocatable["cpu"].string, node.status.allocatable["pods"].string = cpu, "9"
        self.cache.set_node(node)

    def enqueue(self, name: str, cpu: str) -> None:
        """The pod waits, and the stream says so to insight."""
        parsed = _parsed(name, cpu)
        number = self.registry.intern(self.registry.intern_base(parsed.base), ())
        self.publisher.publish()
        pod = cycle_pb2.PodIdentity(namespace="ns", name=name, uid=parsed.uid)
        queued = snapshot_pb2.QueuedPod(
            pod=pod, pod_class=number, profile=PROFILE, state=snapshot_pb2.QUEUED_POD_STATE_UNSCHEDULABLE, attempts=2
        )
        self.insight.publish_queue(snapshot_pb2.QueueDelta(pods=[queued]), self.cache.generation)

    def base_of(self, name: str, cpu: str) -> int:
        return self.registry.intern_base(_parsed(name, cpu).base)

    def assume(self, name: str, cpu: str, node: str) -> None:
        parsed = _parsed(name, cpu)
        self.cache.assume(parsed.key, parsed.uid, node, self.registry.intern_base(parsed.base), (), 0)

    def delete(self, name: str, cpu: str, node: str) -> None:
        """The pod on the node is being deleted."""
        parsed = _parsed(name, cpu)._replace(node_name=node, flags=pod_projection.TERMINATING)
        base = self.registry.intern_base(parsed.base)
        self.cache.set_pod(parsed, self.registry.intern(base, ()), base)

    async def explain(self, name: str, **fields: Any) -> insight_pb2.ExplainResponse:
        pod = cycle_pb2.PodIdentity(namespace="ns", name=name)
        return await self.insight.explain(insight_pb2.ExplainRequest(pod=pod, **fields))

    async def simulate(self, request: simulation_pb2.SimulateRequest) -> simulation_pb2.SimulateResponse:
        """The answer, once insight follows: the stream begins again where the machine is too busy for a while."""
        async with asyncio.timeout(SIMULATION_DEADLINE):
            while True:
                with contextlib.suppress(insight_replicas.InsightUnavailable):
                    return await self.insight.simulate(request)
                await asyncio.sleep(0.02)

    async def explained(self, name: str, seconds: float = DEADLINE, **fields: Any) -> insight_pb2.ExplainResponse:
        """As explain, once the pod and its class have arrived."""
        async with asyncio.timeout(seconds):
            while True:
                try:
                    response = await self.explain(name, **fields)
                except (insight_replicas.InsightRefusal, insight_replicas.InsightUnavailable):
                    await asyncio.sleep(0.02)
                    continue
                if response.evaluated_generation >= self.cache.generation:
                    return response
                await asyncio.sleep(0.02)


def _configuration() -> snapshot_pb2.Configuration:
    plugins = (
        (plugin_pb2.EXTENSION_POINT_FILTER, "NodeResourcesFit"),
        (plugin_pb2.EXTENSION_POINT_SCORE, "NodeResourcesFit"),
    )
    sets = [
        snapshot_pb2.PluginSet(extension_point=point, plugins=[snapshot_pb2.WeightedPlugin(name=name, weight=1)])
        for point, name in plugins
    ]
    return snapshot_pb2.Configuration(profiles=[snapshot_pb2.Profile(scheduler_name=PROFILE, plugin_sets=sets)])


def _parsed(name: str, cpu: str) -> Any:
    return pod_projection.parse(
        {
            "metadata": {"namespace": "ns", "name": name, "uid": f"uid-{name}"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        }
    )


@contextlib.contextmanager
def process(address: str, *arguments: str, program: str = "insight") -> Any:
    """A process of that phase that listens there."""
    command = [sys.executable, str(ROOT / "cmd" / program), "--listen", address, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as running:
        try:
            assert running.stdout is not None
            line = running.stdout.readline().strip()
            assert line.startswith("listening on ")
            yield line.removeprefix("listening on ")
        finally:
            running.send_signal(signal.SIGTERM)
            assert running.wait(DEADLINE) == 0
