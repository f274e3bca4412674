"""How long insight searches for proposals, in process, on a cluster of 5,000 nodes and 50,000 pods.

    python -m tools.bench.proposal_times [--nodes 5000] [--pods 50000] [--rounds 40]

The pods that wait are of several kinds (too large, untolerated taints, constraints, all of them). Prints the quantiles
over all rounds and the longest time in which the event loop did nothing else.
"""

import argparse
import asyncio
import statistics
import time
from typing import Any

import numpy as np

from trireme.evaluation import engine
from trireme.insight.proposals import search
from trireme.registry import filter_profiles, score_profiles
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, cycle_pb2, plugin_pb2, snapshot_pb2
from trireme_kube.apimachinery import decode

PROFILE = "default-scheduler"
ZONE = "topology.kubernetes.io/zone"
CLASSES = 500


def _node(number: int) -> core_pb2.Node:
    name = f"node-{number}"
    taints = [{"key": "pool", "value": f"p{number % 20}", "effect": "NoSchedule"}] if number % 4 == 0 else []
    labels = {
        "kubernetes.io/hostname": name,
        ZONE: f"z{number % 3}",
        "node.kubernetes.io/instance-type": f"t{number % 12}",
        "kubernetes.io/arch": "amd64",
    }
    size = {"cpu": str(8 + 4 * (number % 12)), "memory": "64Gi", "ephemeral-storage": "100Gi", "pods": "110"}
    raw = {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}, "status": {"allocatable": size}}
    return decode.decode(raw, core_pb2.Node)


def _pod(spec: dict[str, Any], requests: dict[str, str], app: str) -> core_pb2.Pod:
    container = {"name": "main", "resources": {"requests": requests}}
    raw = {"metadata": {"namespace": "default", "labels": {"app": app}}, "spec": {"containers": [container], **spec}}
    return decode.decode(raw, core_pb2.Pod)


def _pending_pods() -> list[core_pb2.Pod]:
    spread = {
        "topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "app-0"}},
    }  # fmt: skip
    far = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "app-1"}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [far]}
    selector = {ZONE: "nowhere", "kubernetes.io/arch": "amd64"}
    small, large = {"cpu": "1", "memory": "1Gi"}, {"cpu": "51500m", "memory": "8Gi"}
    return [
        _pod({"priority": 5}, large, "large"),
        _pod({"priority": 5, "nodeSelector": selector}, small, "nowhere"),
        _pod({"priority": 5, "affinity": {"podAntiAffinity": required}}, small, "apart"),
        _pod({"priority": 5, "nodeSelector": selector, "topologySpreadConstraints": [spread]}, large, "app-0"),
    ]


def full_sync(nodes: int, pods: int) -> snapshot_pb2.Delta:
    """A cluster of so many nodes and pods as one delta."""
    draw = np.random.default_rng(1)
    kinds = [
        _pod(
            {"priority": int(draw.integers(0, 3))},
            {"cpu": f"{200 + 4 * (n % 100)}m", "memory": "512Mi"},
            f"app-{n % 50}",
        )
        for n in range(CLASSES)
    ]
    classes = [snapshot_pb2.PodClass(id=n + 1, pod=pod) for n, pod in enumerate([*kinds, *_pending_pods()])]
    placed = snapshot_pb2.PodColumns(
        row=range(pods),
        pod_class=(draw.integers(0, CLASSES, pods) + 1).tolist(),
        slot=draw.integers(0, nodes, pods).tolist(),
        uid=[f"uid-{n}" for n in range(pods)],
        name=[f"pod-{n}" for n in range(pods)],
        start_time_s=[0] * pods,
        flags=[0] * pods,
    )
    entries = [snapshot_pb2.NodeEntry(slot=n, node=_node(n)) for n in range(nodes)]
    return snapshot_pb2.Delta(reset=True, to_generation=1, nodes=entries, classes=classes, pods=placed)


def _snapshot(nodes: int, pods: int) -> snapshot.Snapshot:
    snap = snapshot.Snapshot()
    snap.apply(full_sync(nodes, pods))
    return snap


def _engine(snap: snapshot.Snapshot) -> engine.Engine:
    profile = snapshot_pb2.Profile(scheduler_name=PROFILE)
    for point, names in (
        (plugin_pb2.EXTENSION_POINT_FILTER, FILTERS),
        (plugin_pb2.EXTENSION_POINT_POST_FILTER, ("DefaultPreemption",)),
    ):
        at = profile.plugin_sets.add(extension_point=point)
        for name in names:
            at.plugins.add(name=name)
    configuration = snapshot_pb2.Configuration(profiles=[profile])
    return engine.Engine(
        snap,
        filter_profiles.make_profiles(configuration),
        score_profiles.make_profiles(configuration),
    )


FILTERS = (
    "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
    "VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity",
)  # fmt: skip


async def _measure(snap: snapshot.Snapshot, rounds: int) -> None:
    evaluating, searching = _engine(snap), search.ProposalSearch(seconds=60.0)
    times, gaps = [], [0.0]

    async def watch() -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(0)
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    for number in range(rounds):
        kind = CLASSES + 1 + number % len(_pending_pods())
        cycle = cycle_pb2.Cycle(profile=PROFILE, pod_class=kind, generation=1)
        await evaluating.filter.filter(cycle)
        watcher = asyncio.ensure_future(watch())
        started = time.perf_counter()
        result = await searching.search(evaluating, cycle)
        times.append(time.perf_counter() - started)
        watcher.cancel()
        if number < len(_pending_pods()):
            kinds = [str(proposal.WhichOneof("change")) for proposal in result.proposals]
            print(f"pod {number}: {times[-1] * 1000:.0f} ms, {kinds}, limits {[each.kind for each in result.limits]}")
    at = [1000 * quantile for quantile in statistics.quantiles(times, n=100, method="inclusive")]
    print(f"median {at[49]:.0f} ms, p99 {at[98]:.0f} ms, longest turn {max(gaps) * 1000:.0f} ms")


def main() -> None:
    """Measure, with the sizes of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    asyncio.run(_measure(_snapshot(options.nodes, options.pods), options.rounds))


if __name__ == "__main__":
    main()
