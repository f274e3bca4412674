"""What a pod costs as the cluster fills: CPU time a pod for clusters of several sizes with more and more pods in them.

    python -m tools.bench.inprocess_filling [--nodes 500 5000 50000] [--pods 1000 10000 100000] [--workloads basic …]
        [--batch 32] [--render]

The frontend's cache, and filter and score services that follow it by deltas over the wire format, all in this process:
everything between a batch's leaving the queue and its being assumed, but for the network. Each figure is the CPU time
(µs a pod) of one batch after another of the same class, each seeing the pods before it, best of several; beside the
sum, its shares: cache and deltas, the replicas' snapshots, Filter, Place. It should stay level from left to right, and
nearly so from top to bottom. `--batch 1` is what a pod costs that comes alone. `--render` writes the sums into
tools/bench/README.md.
"""

# Also change: docs/performance.md.

import argparse
import gc
import os
import pathlib
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tests.helpers import domain_cluster
from tests.helpers.domain_cluster import affinity, pod, spread, term
from tools.bench.driver import report
from trireme.cache import pod_projection
from trireme.snapshot import snapshot
from trireme.v1 import snapshot_pb2
from trireme.wire import node_columns

Json = dict[str, Any]

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
DOCUMENT = pathlib.Path(__file__).parent / "README.md"
BEGIN, END = "<!-- filling: made by tools/bench/inprocess_filling.py --render -->", "<!-- /filling -->"
BATCH = 32
BATCHES = 20
WARM = 3
PLAIN_CLASSES = 50
OWN = {"app": "own"}

WORKLOADS: dict[str, Callable[[], Json]] = {
    "basic": lambda: pod(OWN),
    "hard-spread": lambda: pod(OWN, topologySpreadConstraints=[spread(ZONE, True, OWN, 5)]),
    "soft-spread": lambda: pod(OWN, topologySpreadConstraints=[spread(ZONE, False, OWN, 5)]),
    "anti-affinity": lambda: pod(OWN, affinity=affinity((), [term(HOST, OWN)])),
    "affinity": lambda: pod(OWN, affinity=affinity([term(ZONE, OWN)])),
    "preferred-affinity": lambda: pod(OWN, affinity=affinity(rather_near=[(1, term(HOST, OWN))])),
}
# Only so many fit as there are nodes: for each batch that comes another one goes.
ONE_A_NODE = ("anti-affinity",)


class Clock:
    """CPU seconds by what they went to."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def timed(self, what: str, run: Callable[[], Any]) -> Any:
        """Run it, and charge it."""
        started = time.process_time()
        try:
            return run()
        finally:
            self.seconds[what] = self.seconds.get(what, 0.0) + time.process_time() - started


class Filling:
    """One cluster, which fills."""

    def __init__(self, nodes: int, workload: str, batch: int = BATCH) -> None:
        self.size = batch
        self.cluster = domain_cluster.Cluster()
        self.cache = self.cluster.cache
        self.workload = workload
        for number in range(nodes):
            labels = {HOST: f"n{number}", ZONE: f"z{number % 3}"}
            self.cluster.add_node(domain_cluster.node(f"n{number}", labels, cpu=64, pods=400))
        self.cluster.follow()
        self.names = self.cache.node_names()
        self.wanted = WORKLOADS[workload]()
        self.class_id = self.cluster.class_of(self.wanted)
        self.own = self._kind(self.wanted)
        plain = [pod({"app": f"a{number}"}, requests={"cpu": f"{number + 1}m"}) for number in range(PLAIN_CLASSES)]
        self.plain = [self._kind(each) for each in plain]
        self.placed = 0
        self.batches: list[range] = []
        self.answer = node_columns.NodeColumns()

    def _kind(self, wanted: Json) -> tuple[int, pod_projection.Labels]:
        parsed = pod_projection.parse(wanted)
        return self.cluster.registry.intern_base(parsed.base), parsed.labels

    def fill(self, count: int) -> None:
        """Have so many pods in the cluster."""
        most_own = len(self.names) // 2 if self.workload in ONE_A_NODE else count
        while self.placed < count:
            kind = (
                self.own if self.placed % 2 and self.placed // 2 < most_own else self.plain[self.placed % PLAIN_CLASSES]
            )
            # Every second pod is of the class, on every second node.
            self._assume(kind, [self.names[self.placed % len(self.names)]])
            if self.placed % 5000 == 0:
                self.cluster.follow()
        self.cluster.follow()

    def _assume(self, kind: tuple[int, pod_projection.Labels], nodes: Iterable[str]) -> None:
        base, labels = kind
        for name in nodes:
            self.placed += 1
            self.cache.assume(f"default/p{self.placed}", f"u{self.placed}", name, base, labels, 0)

    def batch(self, clock: Clock) -> int:
        """One batch, as the frontend and its replicas do it; answers the pods placed."""
        cluster = self.cluster
        delta = clock.timed("cache", self._delta)
        clock.timed("snapshots", lambda: self._apply(cluster.snap, delta))
        said = clock.timed("filter", lambda: cluster.ask_filter(self.class_id, self.size, self.answer.generation))
        clock.timed("cache", lambda: self.answer.update(node_columns.from_message(said.columns)))
        slots = clock.timed("place", lambda: cluster.ask_place(self.class_id, self.size, said))
        names = [self.cache.node_at(slot, cluster.snap.generation) for slot in slots]
        self.batches.append(range(self.placed + 1, self.placed + 1 + len(names)))
        clock.timed("cache", lambda: self._assume(self.own, [name for name in names if name is not None]))
        if self.workload in ONE_A_NODE and len(self.batches) > 2:
            for number in self.batches.pop(0):
                self.cache.remove_pod(f"u{number}")
        return len(slots)

    def _delta(self) -> bytes:
        delta = self.cache.take_delta()
        return b"" if delta is None else delta.SerializeToString()

    def _apply(self, snap: snapshot.Snapshot, delta: bytes) -> None:
        if delta:
            snap.apply(snapshot_pb2.Delta.FromString(delta))

    def measure(self) -> dict[str, float]:
        """µs a pod, by what they went to: of the best batch."""
        best: dict[str, float] = {}
        for number in range(WARM + BATCHES):
            gc.collect()
            clock = Clock()
            placed = self.batch(clock)
            cost = {what: seconds / max(placed, 1) * 1e6 for what, seconds in clock.seconds.items()}
            if number >= WARM and (not best or sum(cost.values()) < sum(best.values())):
                best = cost
        return best


def figures_of(nodes: int, workload: str, pods: Sequence[int], batch: int) -> list[dict[str, float]]:
    """What a pod costs with so many nodes, for each number of pods in the cluster."""
    filling = Filling(nodes, workload, batch)
    out = []
    for count in pods:
        filling.fill(count)
        out.append(filling.measure())
    filling.cluster.close()
    return out


def render(found: Mapping[tuple[str, int], Sequence[float]], pods: Sequence[int], document: pathlib.Path) -> None:
    """Write the sums into the document: a row a workload, a column a number of nodes."""
    sizes = list(dict.fromkeys(nodes for _, nodes in found))
    lines = [("workload", *(f"{nodes:,} nodes" for nodes in sizes)), ("---",) * (len(sizes) + 1)]
    for workload in dict.fromkeys(workload for workload, _ in found):
        cells = (", ".join(f"{cost:.0f}" for cost in found[workload, nodes]) for nodes in sizes)
        lines.append((f"`{workload}`", *cells))
    facts = (
        f"µs of CPU a pod with {', '.join(f'{count:,}' for count in pods)} pods there, {os.cpu_count()} shared cores, "
        f"Python {platform.python_version()}:"
    )
    content = f"{facts}\n\n{report.aligned(lines)}"
    document.write_text(report.between(document.read_text(), BEGIN, END, content))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[500, 5000, 50000])
    parser.add_argument("--pods", type=int, nargs="+", default=[1000, 10000, 100000])
    parser.add_argument("--workloads", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--batch", type=int, default=BATCH, help="pods of one batch")
    parser.add_argument("--render", action="store_true", help="write the sums into tools/bench/README.md too")
    options = parser.parse_args()
    sums: dict[tuple[str, int], list[float]] = {}
    print(f"CPU µs a pod, batches of {options.batch}: sum (cache, snapshots, filter, place)")
    for workload in options.workloads:
        print(f"\n{workload:>20}" + "".join(f"{f'{pods} pods':>32}" for pods in options.pods))
        for nodes in options.nodes:
            line = f"{f'{nodes} nodes':>20}"
            for cost in figures_of(nodes, workload, options.pods, options.batch):
                sums.setdefault((workload, nodes), []).append(sum(cost.values()))
                shares = ", ".join(f"{cost[what]:.0f}" for what in ("cache", "snapshots", "filter", "place"))
                line += f"{f'{sum(cost.values()):.0f} ({shares})':>32}"
            print(line, flush=True)
    if options.render:
        render(sums, options.pods, DOCUMENT)


if __name__ == "__main__":
    main()
