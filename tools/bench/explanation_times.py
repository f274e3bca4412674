"""How long insight takes to explain pods that wait, in process, at 5,000 nodes and 50,000 pods.

    python -m tools.bench.explanation_times [--nodes 5000] [--pods 50000] [--rounds 300]

A hundred pods wait, each of a class of its own, of the kinds that `proposal_times.py` has and of one that fits; the
questions are about them in random order, and before each a delta places ten pods. Prints p50 and p99 of CPU and of
elapsed time: of the explanation alone, with preemption, and with proposals. `decision_times.py` measures bound pods.
"""

import argparse
import asyncio
import random
import statistics
import sys
import time
from typing import Any, cast

from tools.bench import proposal_times as clusters
from tools.bench import simulation_times
from trireme.insight import service
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, cycle_pb2, insight_pb2, snapshot_pb2

WAITING = 100
PLACED = 10
# By the name of the question, the fields of the request, and which share of the rounds is enough.
QUESTIONS: dict[str, tuple[dict[str, bool], int]] = {
    "explanation": ({}, 1),
    "with preemption": ({"preemption": True}, 2),
    "with proposals": ({"proposals": True}, 2),
}


class _Context:
    """The context of a call that must not fail."""

    def peer(self) -> str:
        return "bench"

    def auth_context(self) -> dict[str, list[bytes]]:
        return {}

    async def abort(self, code: object, details: str, trailing: object = ()) -> None:
        raise AssertionError(f"{code}: {details}")


def _waiting_classes() -> list[core_pb2.Pod]:
    """Pods of the kinds that wait, and one that fits, each with requests of its own."""
    kinds, out = [*clusters._pending_pods(), clusters._pod({"priority": 5}, {"cpu": "100m"}, "fits")], []
    for number in range(WAITING):
        pod = core_pb2.Pod()
        pod.CopyFrom(kinds[number % len(kinds)])
        pod.spec.containers[0].resources.requests["memory"].string = f"{1000 + number}Mi"
        out.append(pod)
    return out


class _Replica:
    """Insight, and deltas that come to it."""

    def __init__(self, nodes: int, pods: int) -> None:
        self._nodes, self._row, self._draw = nodes, pods, random.Random(5)
        self.service = service.InsightService(snapshot.Snapshot())
        self.service.configure(simulation_times._configuration())
        self._apply(clusters.full_sync(nodes, pods))
        first = clusters.CLASSES + 100
        classes = [snapshot_pb2.PodClass(id=first + n, pod=pod) for n, pod in enumerate(_waiting_classes())]
        self._apply(snapshot_pb2.Delta(from_generation=1, to_generation=2, classes=classes))
        queued = [
            snapshot_pb2.QueuedPod(
                pod=cycle_pb2.PodIdentity(namespace="default", name=f"waits-{n}", uid=f"waits-{n}"),
                pod_class=first + n,
                profile=clusters.PROFILE,
                state=snapshot_pb2.QUEUED_POD_STATE_UNSCHEDULABLE,
            )
            for n in range(WAITING)
        ]
        self.service.cluster.apply_queue(snapshot_pb2.QueueDelta(reset=True, pods=queued))

    def place_pods(self) -> None:
        """A delta that places pods."""
        generation = self.service.cluster.snap.generation
        rows = range(self._row, self._row + PLACED)
        self._row += PLACED
        columns = snapshot_pb2.PodColumns(
            row=rows,
            pod_class=[self._draw.randint(1, clusters.CLASSES) for _ in rows],
            slot=[self._draw.randrange(self._nodes) for _ in rows],
            uid=[f"uid-{row}" for row in rows],
            name=[f"pod-{row}" for row in rows],
            start_time_s=[0] * PLACED,
            flags=[0] * PLACED,
        )
        self._apply(snapshot_pb2.Delta(from_generation=generation, to_generation=generation + 1, pods=columns))

    def _apply(self, delta: snapshot_pb2.Delta) -> None:
        self.service.cluster.apply(delta)
        self.service.take(snapshot_pb2.SyncRequest(delta=delta))


async def _measure(replica: _Replica, fields: dict[str, bool], rounds: int) -> None:
    draw, elapsed, busy = random.Random(6), list[float](), list[float]()
    order = [number % WAITING for number in range(rounds)]
    draw.shuffle(order)
    for number in order:
        replica.place_pods()
        pod = cycle_pb2.PodIdentity(namespace="default", name=f"waits-{number}")
        request = insight_pb2.ExplainRequest(pod=pod, **fields)
        started, worked = time.perf_counter(), time.process_time()
        response = await replica.service.Explain(request, cast(Any, _Context()))
        elapsed.append(time.perf_counter() - started)
        busy.append(time.process_time() - worked)
        assert response.node_count
    for name, values in (("CPU", busy), ("elapsed", elapsed)):
        at = [1000 * quantile for quantile in statistics.quantiles(values, n=100, method="inclusive")]
        print(f"    {name}: p50 {at[49]:.1f} ms, p99 {at[98]:.1f} ms", flush=True)


def main() -> None:
    """Measure, with the sizes of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args()
    replica = _Replica(options.nodes, options.pods)
    for name, (fields, part) in QUESTIONS.items():
        rounds = max(options.rounds // part, 2)
        print(f"{name}, {rounds} questions:", flush=True)
        asyncio.run(_measure(replica, fields, rounds))


if __name__ == "__main__":
    sys.exit(main())
