"""How long insight takes to explain decisions of bound pods, in process, at 5,000 nodes and 50,000 pods.

    python -m tools.bench.decision_times [--nodes 5000] [--pods 50000] [--rounds 200]

Batches of 1 to 100 pods of twenty classes are placed by the engines, and insight follows; then pods anywhere in its
memory are explained. Prints the quantiles of elapsed and CPU time (about the same on an idle machine), the memory, and
what following costs with and without it.
"""

import argparse
import asyncio
import random
import statistics
import sys
import time
from collections.abc import Awaitable
from typing import NoReturn, cast

from tools.bench import proposal_times as clusters
from trireme.evaluation import engine
from trireme.insight import service
from trireme.registry import default_profile, filter_profiles, score_profiles
from trireme.snapshot import snapshot
from trireme.v1 import cycle_pb2, decision_explanation_pb2, decision_pb2, plugin_pb2, snapshot_pb2

DECISIONS = 1500
CLASSES = 20


class _Context:
    """The context of a call that must not fail."""

    def peer(self) -> str:
        return "bench"

    def auth_context(self) -> dict[str, list[bytes]]:
        return {}

    async def abort(self, code: object, details: str, trailing: object = ()) -> NoReturn:
        raise AssertionError(f"{code}: {details}")


def _configuration() -> snapshot_pb2.Configuration:
    profile = snapshot_pb2.Profile(scheduler_name=clusters.PROFILE)
    at = profile.plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_FILTER)
    for name in clusters.FILTERS:
        at.plugins.add(name=name)
    at = profile.plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_SCORE)
    for name, weight in default_profile.WEIGHTS.items():
        at.plugins.add(name=name, weight=weight)
    return snapshot_pb2.Configuration(profiles=[profile])


async def _messages(nodes: int, pods: int, decisions: int) -> list[snapshot_pb2.SyncRequest]:
    """What a frontend would send: a full sync, and a delta with each decision. Shape: (message,)."""
    reset = clusters.full_sync(nodes, pods)
    snap, configuration, draw = snapshot.Snapshot(), _configuration(), random.Random(3)
    snap.apply(reset)
    evaluating = engine.Engine(
        snap,
        filter_profiles.make_profiles(configuration),
        score_profiles.make_profiles(configuration),
    )
    out, row, pending = [snapshot_pb2.SyncRequest(delta=reset)], pods, list[decision_pb2.Decision]()
    for number in range(decisions):
        count, kind = draw.choice([1, 1, 5, 20, 100]), draw.randint(1, CLASSES)
        cycle = cycle_pb2.Cycle(profile=clusters.PROFILE, pod_class=kind, generation=snap.generation)
        filtered = await evaluating.filter.filter(cycle, count)
        assert filtered.columns is not None
        placed = await evaluating.score.place(cycle, count, filtered.columns, filtered.constraints, (), snap.generation)
        about = {"generation": snap.generation, "profile": clusters.PROFILE, "pod_class": kind}
        pending = [
            decision_pb2.Decision(number=2 * number + 1, filter=decision_pb2.FilterDecision(count=count), **about),
            decision_pb2.Decision(
                number=2 * number + 2, place=decision_pb2.PlaceDecision(count=count, slots=placed.slots), **about
            ),
        ]
        rows = range(row, row + len(placed.slots))
        row += len(placed.slots)
        columns = snapshot_pb2.PodColumns(
            row=rows,
            pod_class=[kind] * len(rows),
            slot=placed.slots,
            uid=[f"uid-{each}" for each in rows],
            name=[f"pod-{each}" for each in rows],
            start_time_s=[0] * len(rows),
            flags=[0] * len(rows),
        )
        generation = snap.generation
        delta = snapshot_pb2.Delta(from_generation=generation, to_generation=generation + 1, pods=columns)
        snap.apply(delta)
        contents = [each.SerializeToString() for each in pending]
        out.append(snapshot_pb2.SyncRequest(delta=delta, decisions=contents))
    return out


def _follow(contents: list[bytes], *, remember: bool) -> tuple[service.InsightService, float]:
    """A replica that received all, and the CPU seconds that it took behind the full sync."""
    made = service.InsightService(snapshot.Snapshot())
    made.configure(_configuration())
    started = 0.0
    for number, content in enumerate(contents):
        if number == 1:
            started = time.process_time()
        request = snapshot_pb2.SyncRequest.FromString(content)
        made.cluster.apply(request.delta)
        if remember or number == 0:
            made.take(request)
    return made, time.process_time() - started


async def _measure(nodes: int, pods: int, rounds: int, decisions: int) -> None:
    contents = [each.SerializeToString() for each in await _messages(nodes, pods, decisions)]
    _, without = _follow(contents, remember=False)
    made, with_memory = _follow(contents, remember=True)
    names = [name for name in made.cluster.snap.pods.names if made._memory.decisions.placement_of(f"uid-{name[4:]}")]
    print(f"{len(names)} pods in memory; {made.statistics()}")
    print(f"following {len(names)} pods: {without:.2f} s of CPU without memory, {with_memory:.2f} s with it")
    draw, times, busy = random.Random(4), list[float](), list[float]()
    for _ in range(rounds):
        pod = cycle_pb2.PodIdentity(namespace="default", name=draw.choice(names))
        request = decision_explanation_pb2.ExplainDecisionRequest(pod=pod)
        started, worked = time.perf_counter(), time.process_time()
        answering = made.ExplainDecision(request, cast("object", _Context()))  # type: ignore[arg-type]
        response = await cast("Awaitable[decision_explanation_pb2.ExplainDecisionResponse]", answering)
        times.append(time.perf_counter() - started)
        busy.append(time.process_time() - worked)
        assert not response.differs, response
    for name, values in (("elapsed", times), ("CPU", busy)):
        at = [1000 * quantile for quantile in statistics.quantiles(values, n=100, method="inclusive")]
        print(f"{name}: median {at[49]:.0f} ms, p99 {at[98]:.0f} ms")


def main() -> None:
    """Measure, with the sizes of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--decisions", type=int, default=DECISIONS)
    options = parser.parse_args()
    asyncio.run(_measure(options.nodes, options.pods, options.rounds, options.decisions))


if __name__ == "__main__":
    sys.exit(main())
