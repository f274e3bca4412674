"""What kubelets and controllers do in a comparison: this program does it, in the order that the simulation says.

ReplicaSets and StatefulSets make pods in place of those that left; pods with a node run and are ready; victims of
preemption end when no pod can be tried; disruption budgets count healthy pods; a workload that shrinks chooses as
Kubernetes' controller does.
"""

from __future__ import annotations

import asyncio
import collections
import itertools
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.scenarios import compared_cluster
from tests.simulation.scenarios.compared_cluster import BUDGETS, NODES, PODS, REPLICA_SETS, STATEFUL_SETS
from tests.simulation.scenarios.drawn_objects import Scenarios

Json = dict[str, Any]

# How long it waits before it looks again whether pods have backed off. Units: seconds.
_POLL = 0.1
# Within so long nothing more happens. Units: seconds.
_SECONDS = 60.0
# A group may back off again and again meanwhile.
_LONGEST_BACK_OFF_SECONDS = 12.0
# When the first pod starts, in Unix seconds; each other one starts a second later.
_FIRST_START = 1_700_000_000

_KINDS = {"ReplicaSet": REPLICA_SETS, "StatefulSet": STATEFUL_SETS}


@dataclass(slots=True)
class Workload:
    """A controller, its template, and how many pods it should have. `deployment` owns a ReplicaSet."""

    kind: str
    name: str
    deployment: str
    app: str
    spec: Json
    replicas: int
    uid: str = ""


@dataclass(slots=True)
class Happened:
    """What happened in a scenario: names of the pods that were evicted, in order, and of those that came.

    `names` has the real name of each pod that a simulation names by itself, by that name.
    """

    evicted: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    #: By the UID of a pod that left, the name of the one in its place.
    replaced: dict[str, str] = field(default_factory=dict)
    #: How many names a simulation has given.
    given: int = 0


class _Tried:
    """Whether the pods that back off were tried since the last of the others was placed.

    A group that does not fit backs off again and again; other pods come out of it.
    """

    def __init__(self) -> None:
        self._placed = -1
        self._attempts: dict[str, int] = {}

    def again(self, cluster: compared_cluster.Cluster, pods: Iterable[Json]) -> bool:
        """Whether nothing more comes of those that back off."""
        found = {uid: entry for each in cluster.triremes for uid, entry in each.backing_off().items()}
        placed = sum(bool(pod["spec"].get("nodeName")) for pod in pods)
        if placed != self._placed:
            self._placed = placed
            self._attempts = {uid: attempts for uid, (attempts, _) in found.items()}
        return all(
            of_group and attempts > self._attempts.get(uid, attempts) for uid, (attempts, of_group) in found.items()
        )


class Controllers:
    """Acts as kubelets and controllers."""

    def __init__(self, cluster: compared_cluster.Cluster, drawn: Scenarios) -> None:
        self._cluster = cluster
        self._drawn = drawn
        self._numbers = itertools.count()
        self._starts = itertools.count()
        self.workloads: dict[str, Workload] = {}
        self.happened = Happened()

    def begin(self) -> None:
        """Forget what happened."""
        self.happened = Happened()

    # Workloads

    async def add_workload(self) -> Workload:
        """A new workload, with a template that is drawn and without pods."""
        draw, number = self._drawn.draw, next(self._numbers)
        kind = draw.choice(("ReplicaSet", "ReplicaSet", "StatefulSet"))
        app, deployment = f"load-{number}", f"web-{number}" if kind == "ReplicaSet" else ""
        name = f"{deployment}-7d9f" if deployment else f"db-{number}"
        made = Workload(kind, name, deployment, app, self._drawn.pod_spec(app), draw.choice((1, 2, 3, 5)))
        template = {"metadata": {"labels": {"app": app}}, "spec": _without_priority(made.spec)}
        spec: Json = {"replicas": made.replicas, "selector": {"matchLabels": {"app": app}}, "template": template}
        body: Json = {"metadata": {"name": name}, "spec": spec}
        if deployment:
            owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment, "uid": f"uid-{deployment}"}
            body["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        else:
            spec["serviceName"] = name
        created = await self._cluster.create(_KINDS[kind], {"apiVersion": "apps/v1", "kind": kind, **body})
        made.uid = created["metadata"]["uid"]
        self.workloads[name] = made
        return made

    async def remove_workload(self, name: str) -> None:
        """Delete a workload; its pods are left to the garbage collector."""
        await self._cluster.delete(_KINDS[self.workloads.pop(name).kind], name)

    def pod_of(self, workload: Workload, name: str) -> Json:
        """A pod of the workload."""
        owner = {"apiVersion": "apps/v1", "kind": workload.kind, "name": workload.name, "uid": workload.uid}
        metadata = {
            "name": name,
            "namespace": "default",
            "labels": {"app": workload.app},
            "ownerReferences": [{**owner, "controller": True}],
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": workload.spec}

    async def add_pods(self, workload: Workload, count: int) -> list[str]:
        """More pods of the workload; returns their names."""
        taken = {pod["metadata"]["name"] for pod in await self._cluster.list(PODS)}
        ordinals = (number for number in itertools.count() if f"{workload.name}-{number}" not in taken)
        added = []
        for _ in range(count):
            name = f"{workload.name}-{next(ordinals)}" if workload.kind == "StatefulSet" else self._new_name(workload)
            if workload.kind != "StatefulSet":
                self._give_name(workload.deployment or workload.name, name)
            await self._cluster.create(PODS, self.pod_of(workload, name))
            added.append(name)
        return added

    async def scale(self, workload: Workload, replicas: int) -> list[str]:
        """Make or delete pods as the controller does. Returns the names of those that were deleted."""
        pods = [each for each in await self._cluster.list(PODS) if _owner(each) == workload.name]
        workload.replicas = replicas
        await self._cluster.patch(_KINDS[workload.kind], workload.name, {"spec": {"replicas": replicas}})
        if replicas >= len(pods):
            await self.add_pods(workload, replicas - len(pods))
            return []
        leaving = _ordered_for_removal(pods, workload.kind)[: len(pods) - replicas]
        for name in leaving:
            await self._cluster.delete(PODS, name)
        return leaving

    async def replace(self, pod: Json) -> None:
        """Make another pod in the place of one that left, if it has a controller that does."""
        workload = self.workloads.get(_owner(pod))
        if workload is None:
            return
        name = pod["metadata"]["name"]
        if workload.kind != "StatefulSet":
            name = self._new_name(workload)
            self._give_name(workload.name, name)
        self.happened.replaced[pod["metadata"]["uid"]] = name
        await self._cluster.create(PODS, self.pod_of(workload, name))

    def _new_name(self, workload: Workload) -> str:
        return f"{workload.name}-r{next(self._numbers)}"

    def _give_name(self, prefix: str, name: str) -> None:
        """Note the name that a simulation gives the pod."""
        self.happened.given += 1
        self.happened.names[f"{prefix}-simulated-{self.happened.given}"] = name

    # Budgets

    async def write_budgets(self) -> None:
        """Write what each budget allows, as the disruption controller does."""
        found = await self._cluster.list(BUDGETS)
        if not found:
            return
        pods = await self._cluster.list(PODS)
        for budget in found:
            app = budget["spec"]["selector"]["matchLabels"]["app"]
            own = [pod for pod in pods if pod["metadata"]["labels"].get("app") == app]
            healthy = sum(bool(pod["spec"].get("nodeName")) for pod in own if not _is_ending(pod))
            expected = sum(each.replicas for each in self.workloads.values() if each.app == app) or len(own)
            desired = _desired(budget["spec"], expected)
            status = {
                "observedGeneration": budget["metadata"]["generation"],
                "currentHealthy": healthy,
                "desiredHealthy": desired,
                "expectedPods": expected,
                "disruptionsAllowed": max(0, healthy - desired),
            }
            before = {name: budget.get("status", {}).get(name, 0) for name in status}
            if before != status or budget.get("status", {}).get("disruptedPods"):
                change = {"status": {**status, "disruptedPods": None, "conditions": []}}
                await self._cluster.patch(BUDGETS, budget["metadata"]["name"], change, "status")

    # Kubelets

    async def settle(self, order: Sequence[str] = ()) -> list[Json]:
        """Return all pods once nothing more happens; victims of preemption end in this order of names.

        They do so after the back-off of those that they leave for, as in a cluster, where they have time to end.
        Raises: NotSettledError.
        """
        ends, tried, began_to_end = time.monotonic() + _SECONDS, _Tried(), 0.0
        while True:
            await self._cluster.until_idle(backing_off=False)
            pods = await self._cluster.list(PODS)
            ending = [pod for pod in pods if _is_ending(pod)]
            if not ending and not tried.again(self._cluster, pods):
                if time.monotonic() > ends:
                    doing = [each.doing() for each in self._cluster.triremes]
                    raise compared_cluster.NotSettledError(f"for {_SECONDS:.0f} s: {doing}")
                await asyncio.sleep(_POLL)
                continue
            if not ending:
                await self._run_pods(pods)
                await self.write_budgets()
                await self._cluster.until_seen()
                await self._cluster.until_idle(backing_off=False)
                return pods
            began_to_end = began_to_end or time.monotonic()
            if time.monotonic() - began_to_end < _LONGEST_BACK_OFF_SECONDS and any(
                each.has_recent_failures() for each in self._cluster.triremes
            ):
                await asyncio.sleep(_POLL)
                continue
            tried, began_to_end = _Tried(), 0.0
            ranks = self._ranks(order)
            ending.sort(key=lambda pod: (ranks.get(pod["metadata"]["name"], len(ranks)), pod["metadata"]["name"]))
            async with self._cluster.held():
                for pod in ending:
                    await self._cluster.delete(PODS, pod["metadata"]["name"])
                    self.happened.evicted.append(pod["metadata"]["name"])
                    await self.replace(pod)
                await self.write_budgets()

    def _ranks(self, order: Sequence[str]) -> dict[str, int]:
        """The places of pods in an order that a simulation gave, by their real names."""
        return {self.happened.names.get(name, name): rank for rank, name in enumerate(order)}

    async def _run_pods(self, pods: Iterable[Json]) -> None:
        """Have pods with a node run and be ready: an API server lets others leave whatever budgets say."""
        for pod in pods:
            if pod["spec"].get("nodeName") and pod["status"].get("phase") != "Running":
                started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(_FIRST_START + next(self._starts)))
                ready = {"type": "Ready", "status": "True", "lastTransitionTime": started}
                conditions = [*pod["status"].get("conditions", ()), ready]
                change = {"status": {"phase": "Running", "startTime": started, "conditions": conditions}}
                await self._cluster.patch(PODS, pod["metadata"]["name"], change, "status")

    # Administrators

    async def cordon(self, name: str) -> None:
        """Cordon a node."""
        await self._cluster.patch(NODES, name, {"spec": {"unschedulable": True}})

    async def drain(self, nodes: Sequence[str], order: Sequence[str]) -> list[str]:
        """Cordon the nodes and evict their pods by the API, again and again as long as some can leave.

        Pods are evicted in this order of names, as the simulation has it. Returns the names of those that stay.
        """
        async with self._cluster.held():
            for name in nodes:
                await self.cordon(name)
        pods = {pod["metadata"]["name"]: pod for pod in await self._cluster.list(PODS)}
        there = [name for name, pod in pods.items() if pod["spec"].get("nodeName") in nodes]
        ranks = self._ranks(order)
        there.sort(key=lambda name: ranks.get(name, len(ranks)))
        while there:
            left = []
            async with self._cluster.held():
                for name in there:
                    if not await self._cluster.evict(name):
                        left.append(name)
                        continue
                    self.happened.evicted.append(name)
                    await self.replace(pods[name])
            if len(left) == len(there):
                break
            now = {pod["metadata"]["uid"] for pod in await self.settle(order)}
            there = [name for name in left if pods[name]["metadata"]["uid"] in now]
        return there


def _desired(spec: Json, expected: int) -> int:
    """How many of so many pods have to be healthy."""
    if "maxUnavailable" in spec:
        return max(0, expected - int(spec["maxUnavailable"]))
    least = str(spec["minAvailable"])
    return math.ceil(int(least[:-1]) * expected / 100) if least.endswith("%") else int(least)


def _owner(pod: Json) -> str:
    """The name of the pod's controller; empty: it has none."""
    owners = (each["name"] for each in pod["metadata"].get("ownerReferences", ()) if each.get("controller"))
    return next(owners, "")


def _is_ending(pod: Json) -> bool:
    """Whether the pod is being deleted."""
    return "deletionTimestamp" in pod["metadata"]


def _without_priority(spec: Json) -> Json:
    """A template's spec, to which admission adds the priority."""
    return {name: value for name, value in spec.items() if name != "priority"}


def _ordered_for_removal(pods: list[Json], kind: str) -> list[str]:
    """The names of pods in the order in which the controller deletes them.

    Source: ActivePodsWithRanks.Less of pkg/controller/controller_utils.go, for pods that are ready as soon as they have
    a node; ages count as they are, not by their logarithm.
    """
    if kind == "StatefulSet":
        return sorted((pod["metadata"]["name"] for pod in pods), key=lambda name: -int(name.rpartition("-")[2]))
    on_node = collections.Counter(pod["spec"].get("nodeName") for pod in pods)

    def rank(pod: Json) -> tuple[bool, int]:
        node = pod["spec"].get("nodeName")
        return bool(node), -on_node[node] if node else 0

    # `sort` keeps the order of equals.
    youngest_first = sorted(pods, key=lambda pod: pod["status"].get("startTime", ""), reverse=True)
    return [pod["metadata"]["name"] for pod in sorted(youngest_first, key=rank)]
