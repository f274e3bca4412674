"""Compares what insight says would happen with what a whole Trireme then does, on random scenarios.

    python -m tests.simulation.scenarios.simulated_questions [--seed 1] [--scenarios 1000] [--several]

Frontend, filter, score and bind run on simulated time against the embedded cluster, as in `simulate.py`, without
faults. Before each scenario insight's simulator gets the state of the frontend's cache as deltas, and is asked; then
the same changes are made in the cluster. Every pod has to come to the node that was said, or stay pending.

Nodes, pods and their constraints are drawn; some pods preempt, some nodes are added or cordoned. Prints the differences
and a summary; the exit code is 1 if there is one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import pathlib
import sys
import tempfile
from typing import Any

from tests.simulation import substituted_sources
from tests.simulation.scenarios import drawn_objects
from tests.simulation.scenarios.drawn_objects import Scenarios
from tests.simulation.scenarios.findings import Findings
from tests.simulation.virtual_loop import VirtualLoop

Json = dict[str, Any]

NODES = 10
# Within so long, of simulated time, everything that follows from a scenario has happened. Units: seconds.
SETTLED = 90.0
# Within so long, of simulated time, the frontend has seen pods that were created. Units: seconds.
SEEN = 2.0


class Comparison:
    """A whole Trireme, and insight's answers about it."""

    def __init__(self, loop: VirtualLoop, folder: pathlib.Path, seed: int, several: bool) -> None:
        from tests.simulation import simulated_cluster
        from tests.simulation.scenarios import phase_program
        from trireme.frontend import app
        from trireme_kube.embedded.api.resources import BY_KEY, NODES, PODS

        simulated_cluster._SCHEDULER_CONFIGURATION = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
        }
        self._by_key, self._nodes, self._pods = BY_KEY, NODES, PODS
        self._loop = loop
        self._cluster = simulated_cluster.Cluster(loop, folder, seed, lambda line: None)
        self._scenarios = Scenarios(seed, several)
        self._built: list[Any] = []
        original = app.build

        def build(*arguments: Any, **named: Any) -> Any:
            made = original(*arguments, **named)
            self._built.append(made)
            return made

        app.build = build
        self.findings = Findings()
        phase_program.choose_equal_victims_alike()

    async def run(self, count: int) -> None:
        """Compare so many scenarios."""
        self._cluster.build(1, 1, 1, 1)
        await self._cluster.start()
        classes = self._by_key["priorityclasses.scheduling.k8s.io"]
        for priority_class in drawn_objects.PRIORITY_CLASSES:
            self._cluster.registry.create(classes, "", priority_class)
        self._cluster.registry.create(self._by_key["services"], "default", drawn_objects.SERVICE)
        for _ in range(NODES):
            self._add_node(self._scenarios.node())
        await asyncio.sleep(SETTLED)
        for number in range(count):
            await self._compare(number)
            if (number + 1) % 50 == 0:
                print(f"{number + 1} scenarios, {len(self.findings.differences)} differences", flush=True)

    async def _compare(self, number: int) -> None:
        """Ask, make the changes, and compare."""
        await self._make_room()
        changes: list[Json] = []
        added: list[Json] = []
        if self._scenarios.happens(0.15):
            node = self._scenarios.node()
            changes.append({"addNodes": {"manifest": node}})
            added.append(node)
        gone = self._scenarios.one_of(self._names(self._nodes)) if self._scenarios.happens(0.1) else ""
        if gone:
            changes.append({"apply": {"manifest": self._cordoned(gone)}})
        pods = self._scenarios.pods()
        changes += [{"addPods": {"manifest": pod}} for pod in pods]
        before = self._names(self._pods)
        said = await self._ask({"scenario": {"changes": changes, "withoutPendingPods": True}})
        for node in added:
            self._add_node(node)
        if gone:
            record = self._cluster.store.get(self._nodes, "", gone)
            self._cluster.registry.store_update(self._nodes, record, self._cordoned(gone, record))
        if added or gone:
            await asyncio.sleep(5)
        # A simulation has all pods before it schedules one. Were the first tried as the second comes, the classes of a
        # priority would take their turns otherwise, and so would pods of different priorities.
        async with self._built[-1].scheduling.scheduler.between_cycles():
            for pod in pods:
                self._cluster.registry.create(self._pods, "default", json.loads(json.dumps(pod)))
            await asyncio.sleep(SEEN)
        await asyncio.sleep(SETTLED)
        self._count(number, said, [pod["metadata"]["name"] for pod in pods], before)

    def _count(self, number: int, said: Any, names: list[str], before: list[str]) -> None:
        """Compare where each pod is, and who left of the pods that were there before."""
        self.findings.begin(f"scenario {number}")
        answered = dict.fromkeys(names, "") | {each.pod.name: each.node_name for each in said.placements}
        self.findings.compare_placements(answered, {name: self._node_of(name) for name in names}, {})
        left = (name for name in before if self._cluster.store.get(self._pods, "default", name) is None)
        self.findings.compare_evictions((each.pod.name for each in said.evictions), left)

    def _node_of(self, name: str) -> str:
        """The node of a pod; empty: it has none, or is gone."""
        record = self._cluster.store.get(self._pods, "default", name)
        return "" if record is None else str(record.object["spec"].get("nodeName", ""))

    async def _make_room(self) -> None:
        """Delete what is pending and some of the rest, so that the cluster stays about half full; uncordon nodes."""
        pods = list(self._cluster.store.scan(self._pods))
        pending = [record.name for record in pods if not record.object["spec"].get("nodeName")]
        placed = [record.name for record in pods if record.object["spec"].get("nodeName")]
        leaving = self._scenarios.leaving(placed, 0.5) if len(placed) > 3 * NODES else []
        for name in (*pending, *leaving):
            self._cluster.registry.delete(self._pods, "default", name, {"gracePeriodSeconds": 0})
        for name in self._names(self._nodes):
            record = self._cluster.store.get(self._nodes, "", name)
            if record.object["spec"].get("unschedulable"):
                spec = {**record.object["spec"], "unschedulable": False}
                spec["taints"] = [each for each in spec.get("taints", ()) if "unschedulable" not in each["key"]]
                self._cluster.registry.store_update(self._nodes, record, _with_spec(record.object, spec))
        await asyncio.sleep(SETTLED)

    def _add_node(self, node: Json) -> None:
        """Create a node, and let it be ready at once: admission taints it until it is."""
        record = self._cluster.registry.create(self._nodes, "", json.loads(json.dumps(node)))
        self._cluster.registry.store_update(self._nodes, record, _with_spec(record.object, node["spec"]))

    def _names(self, resource: Any) -> list[str]:
        """The names of all objects of a kind."""
        return [record.name for record in self._cluster.store.scan(resource)]

    def _cordoned(self, name: str, record: Any = None) -> Json:
        """The node, cordoned, as the API server stores it then."""
        record = record or self._cluster.store.get(self._nodes, "", name)
        return _with_spec(record.object, {**record.object["spec"], "unschedulable": True})

    async def _ask(self, question: Json) -> Any:
        """Insight's answer, on the state that the frontend would stream."""
        from google.protobuf import json_format

        from trireme.framework import amounts
        from trireme.insight import observed_cluster
        from trireme.insight.simulations import setups, simulator
        from trireme.snapshot import snapshot
        from trireme.v1 import cycle_pb2, simulation_pb2, snapshot_pb2

        built = self._built[-1]
        configuration = built.context.settings.configuration
        snap = snapshot.Snapshot()
        snap.amount_rules = amounts.rules_of(configuration.feature_gates)
        built.phases.publisher.publish()
        for delta in built.cluster.cache.full_sync():
            snap.apply(snapshot_pb2.Delta.FromString(delta.SerializeToString()))
        setup = setups.make_setup(configuration, cycle_pb2.Cycle())
        asking = simulator.Simulator(observed_cluster.ObservedCluster(snap), lambda request: setup)
        request = json_format.ParseDict(question, simulation_pb2.SimulateRequest())
        return await asking.simulate(request, "comparison")


def _with_spec(body: Json, spec: Json) -> Json:
    """The object with another spec."""
    return {**body, "metadata": dict(body["metadata"]), "spec": spec}


def main() -> int:
    """Compare, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scenarios", type=int, default=1000)
    parser.add_argument("--several", action="store_true", help="copies of pods, and pods of several kinds, at once")
    options = parser.parse_args()
    loop = VirtualLoop()
    substituted_sources.install(loop, options.seed)
    from tests.simulation import simulation  # noqa: F401  # the product, which comes after what it is to see

    substituted_sources.replace_what_leaves_the_process()
    with tempfile.TemporaryDirectory() as folder:
        compared = Comparison(loop, pathlib.Path(folder), options.seed, options.several)
        asyncio.set_event_loop(loop)
        loop.run_until_complete(compared.run(options.scenarios))
    for line in compared.findings.differences:
        print(line)
    print(f"{options.scenarios} scenarios of seed {options.seed}: {compared.findings.summary()}", flush=True)
    return bool(compared.findings.differences)


if __name__ == "__main__":
    sys.exit(main())
