"""Makes the changes of a scenario, in order, each by the events that a watch would show.

Also change: docs/simulate.md.
Also change: protos/trireme/v1/simulation.proto (the limits).

Tests: tests/unit/insight/simulations/test_simulator.py, tests/unit/simulation/test_scenarios.py.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from typing import Any

from trireme.cache import pod_projection
from trireme.framework import amounts
from trireme.simulation import budgets, drains, known_classes, manifests, node_copies, pacing, simulation, workloads
from trireme.v1 import core_pb2, simulation_pb2, snapshot_pb2
from trireme_kube.apimachinery import golang, name_rules, well_known_labels

MAX_CHANGES = 1000
MAX_NODES = 10_000
MAX_PODS = 100_000
_INT64_MAX = 2**63 - 1


class ScenarioError(ValueError):
    """The scenario cannot be simulated: `field` is the path in the request, the text says what to do."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(f"{field}: {golang.printable(text)}")
        self.field = field
        self.text = text


class ScenarioChanges:
    """Makes changes in a simulation; `blocked` are the pods that drains could not move."""

    def __init__(self, sim: simulation.Simulation, absent: Collection[tuple[str, str]] = ()) -> None:
        """`absent` are namespace and name of the cluster's pods that take no part: they have their names still."""
        self._sim = sim
        self._absent = absent
        self._pods = self._nodes = 0
        # By the node that they are like: the numbers of further nodes.
        self._numbers: dict[str, Iterator[int]] = {}
        self.blocked: list[drains.Blocked] = []

    async def make(self, scenario: simulation_pb2.Scenario) -> None:
        """Make all changes. Raises: ScenarioError, SimulationLimitError."""
        if len(scenario.changes) > MAX_CHANGES:
            raise ScenarioError("scenario.changes", f"there are more than {MAX_CHANGES}")
        for number, change in enumerate(scenario.changes):
            kind = change.WhichOneof("change")
            field = f"scenario.changes[{number}]"
            if kind is None:
                raise ScenarioError(field, "must have one change")
            try:
                await self._make_one(f"{field}.{_json_name(kind)}", kind, change)
            except known_classes.UnknownLabelKeyError as error:
                raise ScenarioError(f"{field}.{_json_name(kind)}", str(error)) from error

    async def _make_one(self, field: str, kind: str, change: simulation_pb2.ScenarioChange) -> None:
        makers: Mapping[str, Callable[[str, Any], Awaitable[None]]] = {
            "add_nodes": self._add_nodes,
            "add_pods": self._add_pods,
            "apply": self._apply,
            "delete": self._delete,
            "drain": self._drain,
            "scale": self._scale,
        }
        await makers[kind](field, getattr(change, kind))
        await asyncio.sleep(0)

    async def _drain(self, field: str, change: simulation_pb2.DrainNodes) -> None:
        """Drain nodes, after what was changed before has settled."""
        if not change.node_names:
            raise ScenarioError(f"{field}.nodeNames", "must name a node")
        for name in change.node_names:
            self._check_node(f"{field}.nodeNames", name)
        await self._sim.run()
        self.blocked += await drains.drain(self._sim, list(change.node_names))

    async def _add_nodes(self, field: str, change: simulation_pb2.AddNodes) -> None:
        count = change.count or 1
        self._nodes += count
        if self._nodes > MAX_NODES:
            raise ScenarioError(f"{field}.count", f"at most {MAX_NODES} nodes in a scenario")
        self._check_nodes_may_be_added(field)
        if change.WhichOneof("shape") is None:
            raise ScenarioError(field, "must have likeNode or manifest")
        if change.like_node:
            slot = self._check_node(f"{field}.likeNode", change.like_node)
            async for name in pacing.paced(self._free_node_names(change.like_node, count)):
                self._sim.set_node(node_copies.node_like(self._sim.snap, slot, name))
            return
        node = _read(f"{field}.manifest", lambda: manifests.read_node(manifests.read(change.manifest)))
        if change.count > 1:
            _check_name(f"{field}.manifest", f"{node.metadata.name}-{count - 1}")
        async for number in pacing.paced(range(count)):
            one = core_pb2.Node()
            one.CopyFrom(node)
            if change.count > 1:
                one.metadata.name = f"{node.metadata.name}-{number}"
                if well_known_labels.HOSTNAME in one.metadata.labels:
                    one.metadata.labels[well_known_labels.HOSTNAME] = one.metadata.name
            if self._sim.cache.slot_of(one.metadata.name) >= 0:
                text = f"there is a node {one.metadata.name} already: name it otherwise, or apply it"
                raise ScenarioError(f"{field}.manifest.metadata.name", text)
            self._sim.set_node(one)

    async def _add_pods(self, field: str, change: simulation_pb2.AddPods) -> None:
        """Create pods."""
        count = change.count or 1
        self._pods += count
        if self._pods > MAX_PODS:
            raise ScenarioError(f"{field}.count", f"at most {MAX_PODS} pods in a scenario")
        path = f"{field}.manifest"
        raw = _read(path, lambda: manifests.read(change.manifest))
        base = _read(path, lambda: manifests.pod_name(raw))
        names = [f"{base}-{number}" for number in range(count)] if change.count > 1 else [base]
        _check_name(path, names[-1])
        first = self._read_pod(path, raw, names[0])
        check_sums(self._sim, path, first.parsed, count)
        if in_use := self._names_in_use(first.parsed.namespace, names):
            if raw["metadata"].get("name"):
                text = f"there is a pod {first.parsed.namespace}/{in_use[0]} already: name it otherwise, or apply it"
                raise ScenarioError(f"{path}.metadata.name", text)
            names = [self._sim.new_name(base) for _ in range(count)]
            first = self._read_pod(path, raw, names[0])

        def pods() -> Iterator[pod_projection.ParsedPod]:
            yield first.parsed
            for name in names[1:]:
                if first.base_has_name:
                    yield self._read_pod(path, raw, name).parsed
                else:
                    yield first.parsed._replace(name=name, uid=self._sim.new_uid(name))

        await self._sim.add_many_pods(pods(), simulation.Origin.ADDED)

    def _names_in_use(self, namespace: str, names: list[str]) -> list[str]:
        """Those of the names that a pod has, of the simulation or of the cluster beside it, in order."""
        absent = (name for name in names if (namespace, name) in self._absent)
        return sorted({*self._sim.names_in_use(namespace, frozenset(names)), *absent})

    def _read_pod(self, field: str, raw: manifests.Json, name: str) -> manifests.PodOfManifest:
        """The pod of the manifest, under this name."""
        paths = self._sim.setup.reads.paths
        made = _read(field, lambda: manifests.read_pod(raw, name, self._sim.new_uid(name), paths))
        check_pod(self._sim, field, made)
        return made

    async def _apply(self, field: str, change: simulation_pb2.ApplyObject) -> None:
        """Create or replace an object."""
        path = f"{field}.manifest"
        raw = _read(path, lambda: manifests.read(change.manifest))
        kind = _read(path, lambda: manifests.kind_of(raw))
        if kind == "Pod":
            pod = self._read_pod(path, raw, _read(path, lambda: manifests.name_of(raw)))
            check_sums(self._sim, path, pod.parsed, 1)
            known = self._sim.uid_of(pod.parsed.namespace, pod.parsed.name)
            if known is not None:
                self._sim.remove_pod(known, replace=False)
            self._sim.add_pods([pod.parsed], simulation.Origin.ADDED)
        elif kind == "Node":
            node = _read(path, lambda: manifests.read_node(raw))
            if self._sim.cache.slot_of(node.metadata.name) < 0:
                self._check_nodes_may_be_added(field)
            self._sim.set_node(node)
        else:
            object_kind, entry = _read(path, lambda: manifests.read_object(raw))
            self._sim.set_object(object_kind.field, entry)
            if object_kind.field == budgets.KIND and "status" not in raw:
                self._sim.publish()
                self._sim.set_object(budgets.KIND, budgets.with_status(entry, self._sim.snap, self._sim.pending_pods()))

    async def _delete(self, field: str, key: snapshot_pb2.ObjectKey) -> None:
        """Delete an object."""
        if key.kind == "node":
            self._check_node(f"{field}.name", key.name)
            self._sim.remove_node(key.name)
        elif key.kind == "pod":
            uid = self._sim.uid_of(key.namespace or "default", key.name)
            if uid is None:
                raise ScenarioError(f"{field}.name", f"there is no pod {key.namespace or 'default'}/{key.name}")
            self._sim.remove_pod(uid, replace=True)
        elif self._sim.cache.get_object(key.kind, key.namespace, key.name) is None:
            raise ScenarioError(f"{field}.name", f"there is no {key.kind} {key.namespace}/{key.name}")
        else:
            self._sim.remove_object(key.kind, key.namespace, key.name)

    async def _scale(self, field: str, change: simulation_pb2.ScaleWorkload) -> None:
        """Change the number of pods of a workload."""
        for name in ("kind", "namespace", "name"):
            if not getattr(change, name):
                raise ScenarioError(f"{field}.{name}", "must be given")
        self._pods += change.replicas
        if self._pods > MAX_PODS:
            raise ScenarioError(f"{field}.replicas", f"at most {MAX_PODS} pods in a scenario")
        try:
            added = await workloads.scale(self._sim, change.kind, change.namespace, change.name, change.replicas)
        except workloads.WorkloadError as error:
            raise ScenarioError(field, str(error)) from error
        await self._sim.add_many_pods(added, simulation.Origin.ADDED)

    def _check_node(self, field: str, name: str) -> int:
        """The slot of the node. Raises: ScenarioError."""
        slot = self._sim.cache.slot_of(name)
        if slot < 0:
            raise ScenarioError(field, f"there is no node {name}")
        self._sim.publish()
        return slot

    def _check_nodes_may_be_added(self, field: str) -> None:
        """Remote plugins know no nodes that do not exist. Raises: ScenarioError."""
        remote = [name for name, chain in self._sim.setup.filters.chains.items() if chain.asynchronous]
        if remote:
            text = (
                f"profile {remote[0]} has a remote filter plugin, which knows no node that does not exist: leave it out"
            )
            raise ScenarioError(field, f"{text} (withoutPlugins)")

    def _free_node_names(self, like: str, count: int) -> Iterator[str]:
        """So many names that no node has, each once the one before is taken."""
        numbers = self._numbers.setdefault(like, itertools.count(1))
        names = (f"{like}-added-{number}" for number in numbers)
        return itertools.islice((name for name in names if self._sim.cache.slot_of(name) < 0), count)


def check_pod(sim: simulation.Simulation, field: str, pod: manifests.PodOfManifest) -> None:
    """Check a manifest's scheduler and node. Raises: ScenarioError."""
    profiles = [profile.scheduler_name for profile in sim.setup.profiles]
    parsed = pod.parsed
    if parsed.scheduler_name not in profiles:
        text = f"there is no profile {parsed.scheduler_name}; known are {', '.join(profiles)}"
        raise ScenarioError(f"{field}.spec.schedulerName", text)
    if parsed.node_name and sim.cache.slot_of(parsed.node_name) < 0:
        raise ScenarioError(f"{field}.spec.nodeName", f"there is no node {parsed.node_name}")
    invalid = sim.invalid_reason(parsed)
    if invalid:
        raise ScenarioError(field, invalid)


def check_sums(sim: simulation.Simulation, field: str, pod: pod_projection.ParsedPod, count: int) -> None:
    """Check that what pods on a node request, with so many of these, is a number of 64 bits. Raises: ScenarioError.

    A pod that has a node by its manifest is there whether it fits or not, as in a cluster.
    """
    if not pod.node_name:
        return
    sim.publish()
    nodes, slot = sim.snap.nodes, sim.cache.slot_of(pod.node_name)
    requests = amounts.pod_amounts(core_pb2.Pod.FromString(pod.base), sim.snap.amount_rules).placed
    for name, amount in requests.items():
        row = nodes.resource_names.find(name)
        known = 0 if row is None or row >= nodes.requested.shape[0] else int(nodes.requested[row, slot])
        if known + count * amount > _INT64_MAX:
            text = f"the pods on node {pod.node_name} would request more {name} than 64 bits hold: request less"
            raise ScenarioError(f"{field}.spec.containers", text)


def _check_name(field: str, name: str) -> None:
    """Check a name with its number, the longest of several. Raises: ScenarioError."""
    if problems := name_rules.subdomain_problems(name):
        raise ScenarioError(f"{field}.metadata.name", f"{name}: {problems[0]}")


def _read(field: str, read: Callable[[], Any]) -> Any:
    """What `read` reads of a manifest. Raises: ScenarioError in place of ManifestError."""
    try:
        return read()
    except manifests.ManifestError as error:
        raise ScenarioError(field, str(error)) from error


def _json_name(field: str) -> str:
    first, *rest = field.split("_")
    return first + "".join(word.capitalize() for word in rest)
