"""One comparison after the other: ask insight, make the changes, and compare what became of the pods."""

from __future__ import annotations

import collections
import functools
import itertools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from tests.simulation.drawn_objects import Scenarios
from tests.simulation.scenarios import acted_controllers, compared_cluster
from tests.simulation.scenarios.compared_cluster import BUDGETS, CLAIMS, GROUPS, NODES, PODS, VOLUME_CLAIMS, VOLUMES
from trireme.v1 import simulation_pb2

Json = dict[str, Any]

NODES_AT_FIRST = 20
_KIND_OF = {
    "PodGroup": GROUPS,
    "PersistentVolumeClaim": VOLUME_CLAIMS,
    "PersistentVolume": VOLUMES,
    "ResourceClaim": CLAIMS,
}
# With more pods than that on each node, on average, half of them leave before the next scenario.
_FULL = 1.5
_WORKLOADS = 5


class Comparison:
    """The cluster and what is drawn; kinds of scenario use it. `differences` has what was not as insight said."""

    def __init__(self, cluster: compared_cluster.Cluster, seed: int) -> None:
        self.cluster = cluster
        self.drawn = Scenarios(seed, several=True)
        self.draw = self.drawn.draw
        self.controllers = acted_controllers.Controllers(cluster, self.drawn)
        self.differences: list[str] = []
        #: For names, each given once.
        self.numbers = itertools.count()
        self.counts: collections.Counter[str] = collections.Counter()
        self._title = ""
        # Undo what a scenario left that others must not see.
        self._cleanups: list[Callable[[], Awaitable[None]]] = []

    # What is there

    async def add_node(self) -> None:
        """A node more."""
        await self.cluster.create(NODES, self.drawn.node())

    async def nodes(self) -> list[str]:
        """The names of the nodes."""
        return sorted(node["metadata"]["name"] for node in await self.cluster.list(NODES))

    async def names_on(self, node: str) -> list[str]:
        """The names of the pods on a node."""
        pods = await self.cluster.list(PODS)
        return [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName") == node]

    async def begin(self, title: str) -> None:
        """Bring the cluster into a state for the next scenario: half full, all nodes schedulable, nothing pending."""
        self._title = title
        self.controllers.begin()
        for cleanup in self._cleanups:
            await cleanup()
        self._cleanups.clear()
        await self._renew_workloads()
        pods = await self.cluster.list(PODS)
        placed = sorted(pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName"))
        pending = [pod["metadata"]["name"] for pod in pods if not pod["spec"].get("nodeName")]
        nodes = await self.cluster.list(NODES)
        share = 0.5 if len(placed) > _FULL * len(nodes) else 0.0
        async with self.cluster.held():
            for name in (*pending, *self.draw.sample(placed, round(len(placed) * share))):
                await self.cluster.delete(PODS, name)
            for node in nodes:
                if node["spec"].get("unschedulable"):
                    await self.cluster.patch(NODES, node["metadata"]["name"], {"spec": {"unschedulable": None}})
            for _ in range(NODES_AT_FIRST - len(nodes)):
                await self.add_node()
        await self.controllers.settle()
        await self._fill_workloads()
        await self._delete_pending()
        self.controllers.begin()

    async def _renew_workloads(self) -> None:
        """Replace a workload by another one now and then."""
        known = self.controllers.workloads
        if len(known) >= _WORKLOADS and self.draw.random() < 0.5:
            name = self.draw.choice(sorted(known))
            app = known[name].app
            for pod in await self.cluster.list(PODS):
                if pod["metadata"]["labels"].get("app") == app:
                    await self.cluster.delete(PODS, pod["metadata"]["name"])
            await self.controllers.remove_workload(name)
        while len(known) < _WORKLOADS:
            await self.controllers.add_workload()

    async def _fill_workloads(self) -> None:
        """Let each workload have its pods."""
        pods = await self.cluster.list(PODS)
        counts = collections.Counter(pod["metadata"]["labels"].get("app") for pod in pods)
        async with self.cluster.held():
            for workload in self.controllers.workloads.values():
                await self.controllers.add_pods(workload, max(0, workload.replicas - counts[workload.app]))
        await self.controllers.settle()

    async def _delete_pending(self) -> None:
        """Delete the pods that have no node."""
        async with self.cluster.held():
            for pod in await self.cluster.list(PODS):
                if not pod["spec"].get("nodeName"):
                    await self.cluster.delete(PODS, pod["metadata"]["name"])

    def afterwards(self, cleanup: Callable[[], Awaitable[None]]) -> None:
        """Run this before the next scenario."""
        self._cleanups.append(cleanup)

    def draw_budgets(self, count: int) -> list[Json]:
        """Disruption budgets for some workloads, which are deleted before the next scenario."""
        drawn = []
        for name in self.draw.sample(sorted(self.controllers.workloads), count):
            workload = self.controllers.workloads[name]
            least = self.draw.choice((max(1, workload.replicas - 1), workload.replicas, "50%"))
            limit = self.draw.choice(({"maxUnavailable": 1}, {"minAvailable": least}))
            metadata = {"name": name, "namespace": "default"}
            spec = {"selector": {"matchLabels": {"app": workload.app}}, **limit}
            drawn.append({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec})
            self.afterwards(functools.partial(self.delete_if_there, BUDGETS, name))
        return drawn

    async def create_budgets(self, budgets: Iterable[Json]) -> None:
        """Create disruption budgets, and say what they allow."""
        for budget in budgets:
            await self.cluster.create(BUDGETS, budget)
        await self.controllers.write_budgets()
        await self.cluster.until_seen()

    async def add_budgets(self, count: int) -> None:
        """Disruption budgets for some workloads, which are deleted before the next scenario."""
        await self.create_budgets(self.draw_budgets(count))

    async def delete_if_there(self, kind: compared_cluster.Kind, name: str) -> None:
        """Delete an object, unless it is gone."""
        if await self.cluster.get(kind, name) is not None:
            await self.cluster.delete(kind, name)

    # Asking and comparing

    async def ask(self, changes: Sequence[Json] | None = None, **question: Any) -> simulation_pb2.SimulateResponse:
        """Insight's answer; `changes`: of a scenario, without the pods that are pending."""
        await self.cluster.until_seen()
        if changes is not None:
            question["scenario"] = {"changes": list(changes), "withoutPendingPods": True}
        return await self.cluster.first.ask(question)

    def differ(self, text: str) -> None:
        """Note a difference."""
        self.differences.append(f"{self._title}: {text}")

    def real(self, name: str) -> str:
        """The name of a pod that a simulation named."""
        return self.controllers.happened.names.get(name, name)

    async def compare(
        self, answer: simulation_pb2.SimulateResponse, before: Iterable[str], *, blocked: Sequence[str] = ()
    ) -> None:
        """Compare where the pods are that came since `before` (names), and who was evicted, with the answer.

        `blocked` are the pods that a drain could not evict.
        """
        known = set(before) - set(self.controllers.happened.replaced.values())
        wanted = {self.real(each.pod.name): each.node_name for each in answer.placements}
        wanted |= {self.real(pod.name): "" for group in answer.pending for pod in group.pods}
        pods = {pod["metadata"]["name"]: pod for pod in await self.cluster.list(PODS)}
        actual = {name: pod["spec"].get("nodeName", "") for name, pod in pods.items() if name not in known}
        messages = {self.real(pod.name): f" ({group.message})" for group in answer.pending for pod in group.pods}
        for name in sorted(wanted.keys() | actual.keys()):
            if wanted.get(name) != actual.get(name):
                self.differ(
                    f"{name} is on {_shown(actual, name)}, not on {_shown(wanted, name)}{messages.get(name, '')}"
                )
        self.count(actual)
        self.compare_evictions(answer)
        said = sorted(self.real(each.pod.name) for each in answer.blocked)
        if said != sorted(blocked):
            self.differ(f"{sorted(blocked)} could not be evicted, not {said}")

    def compare_evictions(self, answer: simulation_pb2.SimulateResponse) -> None:
        """Compare who was evicted."""
        evicted = sorted(self.controllers.happened.evicted)
        said = sorted(self.real(each.pod.name) for each in answer.evictions)
        self.counts["evicted"] += len(evicted)
        if evicted != said:
            self.differ(f"{evicted} were evicted, not {said}")

    def count(self, actual: dict[str, str]) -> None:
        """Count pods by whether they have a node."""
        self.counts["placed"] += sum(map(bool, actual.values()))
        self.counts["pending"] += sum(not node for node in actual.values())

    def order_of(self, answer: simulation_pb2.SimulateResponse) -> list[str]:
        """The names of the pods that the answer evicts, or would if budgets let it, in order."""
        return [each.pod.name for each in (*answer.evictions, *answer.blocked)]


def _shown(nodes: dict[str, str], name: str) -> str:
    """Where a pod is."""
    return (nodes[name] or "no node") if name in nodes else "(no such pod)"


async def names_of_pods(compared: Comparison) -> list[str]:
    """The names of all pods."""
    return [pod["metadata"]["name"] for pod in await compared.cluster.list(PODS)]


async def compare_new_pods(
    compared: Comparison, pods: list[Json], changes: Sequence[Json] = (), **question: Any
) -> None:
    """Pods at once, after changes that have been made already where they are made by `prepare`."""
    before = await names_of_pods(compared)
    answer = await compared.ask([*changes, *({"addPods": {"manifest": pod}} for pod in pods)], **question)
    async with compared.cluster.held():
        for change in changes:
            manifest = change["apply"]["manifest"]
            await compared.cluster.create(_KIND_OF[manifest["kind"]], manifest)
        await compared.cluster.until_seen()
        for pod in pods:
            await compared.cluster.create(PODS, pod)
    await compared.controllers.settle(compared.order_of(answer))
    await compared.compare(answer, before)
