"""Filter and score in one process on an in-memory snapshot: what evaluating and placing costs, and the memory it takes.

    python -m tools.bench.inprocess_evaluation [--nodes 100000] [--pods 100000]

Prints the time of the first evaluation and placement of a class of 100 pods, with and without plugins that normalise;
the time of the next batch of the class, after pods came to 100 other nodes; and bytes per node and per placed pod
in the frontend's cache and in the snapshot of filter and score. Times are the least of several rounds.
"""

import argparse
import asyncio
import gc
import pathlib
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from trireme.cache import class_registry, cluster_cache, pod_projection
from trireme.evaluation.filtering import filter_chain, filter_evaluator
from trireme.evaluation.scoring import class_scores, placement, score_chain, score_evaluator
from trireme.plugin_api import scorers
from trireme.registry import default_profile, filter_plugins, score_plugins
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, snapshot_pb2

ROUNDS = 5
BATCH = 100

_FILTERS = ("NodeName", "NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit")
_NORMALISED = ("TaintToleration", "NodeAffinity")
_SCORES = (*_NORMALISED, "NodeResourcesFit", "NodeResourcesBalancedAllocation", "ImageLocality")


def node(number: int) -> core_pb2.Node:
    """A node like those of a large cluster: a dozen labels, some with a soft taint."""
    out = core_pb2.Node()
    name = out.metadata.name = f"node-{number:06d}"
    out.metadata.labels.update(
        {
            "kubernetes.io/hostname": name,
            "topology.kubernetes.io/zone": f"zone-{number % 3}",
            "topology.kubernetes.io/region": "region",
            "node.kubernetes.io/instance-type": f"type-{number % 5}",
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
        }
    )
    for resource, amount in {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "500Gi", "pods": "110"}.items():
        out.status.allocatable[resource].string = amount
    if number % 10 == 0:
        out.spec.taints.add(key="example.com/spot", value="true", effect="PreferNoSchedule")
    return out


def parsed_pod(number: int, class_number: int = 0) -> pod_projection.ParsedPod:
    """A pod of one of many classes."""
    requests = {"cpu": f"{100 + class_number}m", "memory": "256Mi"}
    preference = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-1"]}
    term = {"weight": 10, "preference": {"matchExpressions": [preference]}}
    return pod_projection.parse(
        {
            "metadata": {"namespace": "default", "name": f"pod-{number:06d}", "uid": _uid(number)},
            "spec": {
                "schedulerName": "default-scheduler",
                "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}},
                "containers": [
                    {"name": "c", "image": "app:v1", "resources": {"requests": requests}}
                ],
            },
        }
    )  # fmt: skip


def _uid(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


class Cluster:
    """The frontend's cache and one snapshot that follows it."""

    def __init__(self, *, alone: bool = False) -> None:
        """`alone`: no snapshot follows, so that the cache's own memory can be told."""
        self._alone = alone
        self.registry = class_registry.ClassRegistry()
        self.cache = cluster_cache.ClusterCache(self.registry)
        self.snap = snapshot.Snapshot()

    def follow(self) -> None:
        """Bring the snapshot to the cache's state, over the wire format."""
        delta = self.cache.take_delta()
        if delta is not None and not self._alone:
            self.snap.apply(snapshot_pb2.Delta.FromString(delta.SerializeToString()))

    def add_nodes(self, count: int) -> None:
        for number in range(count):
            self.cache.set_node(node(number))
            if number % 1000 == 999:
                self.follow()
        self.follow()

    def place(self, first: int, count: int, classes: int) -> None:
        """Pods placed round robin."""
        slots = self.cache.node_names()
        for number in range(first, first + count):
            parsed = parsed_pod(number, number % classes)
            base = self.registry.intern_base(parsed.base)
            self.cache.assume(parsed.key, parsed.uid, slots[number % len(slots)], base, parsed.labels, 0)
            if number % 1000 == 999:
                self.follow()
        self.follow()


class Scheduler:
    """Filter and score evaluators over one snapshot."""

    def __init__(self, snap: snapshot.Snapshot, scores: tuple[str, ...]) -> None:
        local = [p for p in (filter_plugins.make_filter_plugin(name, b"", {}) for name in _FILTERS) if p is not None]
        self.filters = filter_evaluator.FilterEvaluator(snap, {"p": filter_chain.FilterChain(local)})
        weights = {name: default_profile.WEIGHTS[name] for name in scores}
        plugins = [p for p in (score_plugins.make_score_plugin(name, b"", {}) for name in scores) if p is not None]
        self.scores = score_evaluator.ScoreEvaluator(snap, {"p": score_chain.ScoreChain(weights, plugins)})
        self.snap = snap
        self.plugins = plugins
        self.weights = weights
        self.ties = placement.tie_order(np.arange(snap.nodes.capacity))

    async def batch(self, class_id: int) -> list[int]:
        """Filter, score and place a batch; answers the slots."""
        pod_class = self.snap.classes[class_id]
        verdicts = await self.filters.evaluate("p", pod_class)
        scored = await self.scores.evaluate("p", pod_class)
        assert isinstance(scored, class_scores.ClassScores)
        size = self.snap.nodes.size
        slots = np.flatnonzero((verdicts.capacity[:size] > 0) & (verdicts.index[:size] == 0))
        own = [p for p in self.plugins if isinstance(p, scorers.OwnNodeScore)]
        static = [
            placement.ScoredPlugin(p.name, self.weights[p.name], p.normalization, scored.plugins[p.name].raw[slots])
            for p in self.plugins
            if p not in own and scored.plugins[p.name].state is not None
        ]

        def own_scores(nodes: "np.typing.NDArray[np.intp]", copies: int) -> "np.typing.NDArray[np.int64]":
            return sum(
                p.score_copies(pod_class, self.snap, scored.plugins[p.name].state, slots[nodes], copies) for p in own
            )

        own_now = sum(scored.plugins[p.name].raw[slots] * self.weights[p.name] for p in own)
        placer = placement.Placer(
            placement.ScoredNodes(verdicts.capacity[slots], self.ties[slots], static, own_scores, own_now)
        )
        return [int(slots[choice.node_number]) for choice in placer.place(BATCH)]


def least(rounds: int, make: Callable[[], Callable[[], object]]) -> float:
    """The least time of several rounds, in milliseconds; `make` prepares each."""
    times = []
    for _ in range(rounds):
        run = make()
        gc.collect()
        started = time.perf_counter()
        run()
        times.append((time.perf_counter() - started) * 1000)
    return min(times)


def measure_times(cluster: Cluster, scores: tuple[str, ...], title: str) -> None:
    """First and next batch of a class."""
    parsed = parsed_pod(0, 7)
    class_id = cluster.registry.intern(cluster.registry.intern_base(parsed.base), parsed.labels)
    cluster.follow()
    runner = asyncio.Runner()
    chosen: list[int] = []
    spread = np.random.default_rng(1)
    scheduler = Scheduler(cluster.snap, scores)
    number = 10_000_000 * len(scores)

    def first() -> Callable[[], object]:
        nonlocal scheduler
        scheduler = Scheduler(cluster.snap, scores)
        return lambda: chosen.__setitem__(slice(None), runner.run(scheduler.batch(class_id)))

    def following() -> Callable[[], object]:
        nonlocal number
        base = cluster.registry.intern_base(parsed.base)
        for slot in spread.choice(cluster.snap.nodes.size, BATCH, replace=False).tolist():
            number += 1
            name = cluster.snap.nodes.names[slot]
            cluster.cache.assume(f"default/x{number}", f"x{number}", name, base, parsed.labels, class_id)
        cluster.follow()
        return lambda: chosen.__setitem__(slice(None), runner.run(scheduler.batch(class_id)))

    print(f"{title}: first batch of {BATCH}: {least(ROUNDS, first):.1f} ms", end="; ")
    print(f"next batch, {BATCH} slots changed: {least(ROUNDS, following):.1f} ms")
    runner.close()


def measure_memory(nodes: int, pods: int, classes: int) -> None:
    """Bytes per node and per placed pod, of the frontend's cache and of a replica's snapshot apart."""
    files = {part: str(pathlib.Path(module.__file__ or "").parent) for part, module in
             {"frontend": cluster_cache, "filter, score": snapshot}.items()}  # fmt: skip
    for part, folder in files.items():
        tracemalloc.start()
        cluster = Cluster(alone=part == "frontend")
        cluster.add_nodes(nodes)
        gc.collect()
        before = _held(folder, part)
        cluster.place(0, pods, classes)
        gc.collect()
        after = _held(folder, part)
        tracemalloc.stop()
        print(f"memory, {part}: {before / nodes:.0f} B a node, {(after - before) / pods:.0f} B a placed pod")


def _held(folder: str, part: str) -> int:
    """Memory in use; of a replica only what the snapshot's own code holds, as the cache is another process's."""
    if part == "frontend":
        return tracemalloc.get_traced_memory()[0]
    taken = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, f"{folder}/*")])
    return sum(entry.size for entry in taken.statistics("filename"))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--classes", type=int, default=100)
    options = parser.parse_args()
    cluster = Cluster()
    cluster.add_nodes(options.nodes)
    print(f"{options.nodes} nodes")
    plain = tuple(name for name in _SCORES if name not in _NORMALISED)
    measure_times(cluster, plain, "no score normalised")
    measure_times(cluster, _SCORES, "all default plugins that score a node by itself")
    del cluster
    measure_memory(options.nodes // 5, options.pods // 5, options.classes)


if __name__ == "__main__":
    main()
