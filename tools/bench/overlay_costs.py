"""What overlays and forks of a snapshot cost, at two sizes of cluster.

    python -m tools.bench.overlay_costs [--nodes 5000 100000] [--pods-per-node 10]

Prints microseconds, the least of several rounds: making an overlay that removes one pod, or a pod of each of 100 nodes,
and giving it back; from the snapshot and over an overlay, reading the used CPU of 100 slots and of all, and counting
the pods of a class; a fork of such an overlay, and in comparison a snapshot built anew from deltas.
"""

import argparse
import functools
import time
from collections.abc import Callable

import numpy as np

from tools.bench import inprocess_evaluation
from trireme.snapshot import arrays, overlay, snapshot, snapshot_view
from trireme.v1 import core_pb2, snapshot_pb2
from trireme_kube.apimachinery import decode

ROUNDS = 7
SLOTS = 100
CLASSES = 20
# Pods in one delta while the cluster is built.
_CHUNK = 10_000


def cluster(nodes: int, pods_per_node: int) -> snapshot.Snapshot:
    """Nodes with as many pods each, of some classes."""
    snap = snapshot.Snapshot()
    snap.apply(snapshot_pb2.Delta(reset=True, to_generation=1))
    for first in range(0, nodes, _CHUNK):
        numbers = range(first, min(first + _CHUNK, nodes))
        entries = [snapshot_pb2.NodeEntry(slot=each, node=inprocess_evaluation.node(each)) for each in numbers]
        _apply(snap, nodes=entries)
    _apply(snap, classes=[snapshot_pb2.PodClass(id=number, pod=_pod(number)) for number in range(1, CLASSES + 1)])
    count = nodes * pods_per_node
    for first in range(0, count, _CHUNK):
        rows = range(first, min(first + _CHUNK, count))
        columns = snapshot_pb2.PodColumns(
            row=rows,
            pod_class=[1 + row % CLASSES for row in rows],
            slot=[row % nodes for row in rows],
            uid=[f"{row:08x}" for row in rows],
            name=[f"pod-{row}" for row in rows],
            start_time_s=[1] * len(rows),
            flags=[0] * len(rows),
        )
        _apply(snap, pods=columns)
    return snap


def least(action: Callable[[], object], repeat: int = 1) -> float:
    """The least microseconds of an action over several rounds, each of so many."""
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.perf_counter()
        for _ in range(repeat):
            action()
        best = min(best, (time.perf_counter() - started) / repeat)
    return best * 1e6


def measure(nodes: int, pods_per_node: int) -> dict[str, float]:
    """All figures of one cluster, in microseconds."""
    started = time.perf_counter()
    snap = cluster(nodes, pods_per_node)
    built = (time.perf_counter() - started) * 1e6
    some = np.arange(0, nodes, nodes // SLOTS)[:SLOTS]
    every = np.arange(nodes)
    chosen = snap.class_mask([1])
    rows = some.astype(np.intp)

    def changed(removed: arrays.RowArray) -> None:
        with overlay.SnapshotOverlay(snap, overlay.Semantics.DRY_RUN) as over:
            over.remove(removed)

    out = {
        "overlay of 1 removed pod": least(lambda: changed(rows[:1]), 100),
        f"overlay of {SLOTS} removed pods": least(lambda: changed(rows), 20),
    }
    with overlay.SnapshotOverlay(snap, overlay.Semantics.DRY_RUN) as over:
        over.remove(rows)
        seen: tuple[tuple[str, snapshot_view.SnapshotView], ...] = (("snapshot", snap), ("overlay", over))
        for name, view in seen:
            out[f"{name}: CPU of {SLOTS} slots"] = least(functools.partial(view.requested, 0, some), 1000)
            out[f"{name}: CPU of all slots"] = least(functools.partial(view.requested, 0, every), 20)
            out[f"{name}: count a class"] = least(functools.partial(view.count_pods, chosen), 3)
        out["fork"] = least(over.fork)
    out["built from deltas"] = built
    return out


def _pod(number: int) -> core_pb2.Pod:
    """A pod whose request makes it a class of its own."""
    requests = {"cpu": f"{100 + number}m", "memory": "256Mi"}
    spec = {"containers": [{"name": "c", "resources": {"requests": requests}}]}
    return decode.decode({"metadata": {"namespace": "default"}, "spec": spec}, core_pb2.Pod)


def _apply(snap: snapshot.Snapshot, **fields: object) -> None:
    delta = snapshot_pb2.Delta(from_generation=snap.generation, to_generation=snap.generation + 1, **fields)
    snap.apply(delta)


def main() -> None:
    """Print the figures of all sizes side by side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[5_000, 100_000])
    parser.add_argument("--pods-per-node", type=int, default=10)
    args = parser.parse_args()
    figures = {nodes: measure(nodes, args.pods_per_node) for nodes in args.nodes}
    print(f"{'µs':34}" + "".join(f"{nodes:>14,} nodes" for nodes in args.nodes))
    for name in next(iter(figures.values())):
        print(f"{name:34}" + "".join(f"{figures[nodes][name]:>20,.1f}" for nodes in args.nodes))


if __name__ == "__main__":
    main()
