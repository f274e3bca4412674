"""How much CPU a snapshot takes for a delta: without a fork, and while one fork of it is alive.

    python -m tools.bench.delta_costs [--nodes 5000] [--pods 50000] [--rounds 15]

Each delta places pods on nodes drawn at random, and the next one removes them. Prints µs of processor time for a delta
with 1 and with 32 pods, the least of all rounds.
"""

import argparse
import time

import numpy as np

from tools.bench import proposal_times
from trireme.snapshot import snapshot
from trireme.v1 import snapshot_pb2

_DELTAS = 400


def _deltas(generation: int, pods_there: int, nodes: int, size: int) -> list[snapshot_pb2.Delta]:
    """Deltas that place and remove so many pods in turn, and leave the cluster as it was."""
    draw, out = np.random.default_rng(7), []
    rows = range(pods_there, pods_there + size)
    for number in range(_DELTAS):
        delta = snapshot_pb2.Delta(from_generation=generation + number, to_generation=generation + number + 1)
        if number % 2:
            delta.removed_pods.extend(rows)
        else:
            delta.pods.row.extend(rows)
            delta.pods.pod_class.extend((draw.integers(0, proposal_times.CLASSES, size) + 1).tolist())
            delta.pods.slot.extend(draw.integers(0, nodes, size).tolist())
            delta.pods.uid.extend(f"new-{number}-{row}" for row in rows)
            delta.pods.name.extend(f"new-{row}" for row in rows)
            delta.pods.start_time_s.extend([0] * size)
            delta.pods.flags.extend([0] * size)
        out.append(delta)
    return out


def _fork(snap: snapshot.Snapshot) -> snapshot.Snapshot:
    nothing = np.zeros(0, dtype=np.int32)
    return snap.fork(np.zeros(0, dtype=np.intp), nothing, nothing)


def _measure(snap: snapshot.Snapshot, pods_there: int, nodes: int, size: int, forked: bool) -> float:
    """µs for one of the deltas."""
    deltas = _deltas(snap.generation, pods_there, nodes, size)
    fork = _fork(snap) if forked else None
    started = time.process_time()
    for delta in deltas:
        snap.apply(delta)
    taken = time.process_time() - started
    del fork
    return 1e6 * taken / _DELTAS


def main() -> None:
    """Measure, with the sizes of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    snap = snapshot.Snapshot()
    snap.apply(proposal_times.full_sync(options.nodes, options.pods))
    for size in (1, 32):
        for forked in (False, True):
            rounds = [_measure(snap, options.pods, options.nodes, size, forked) for _ in range(options.rounds)]
            print(f"{size} pods{', with a fork' if forked else ''}: {min(rounds):.1f} µs a delta")


if __name__ == "__main__":
    main()
