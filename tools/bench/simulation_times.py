"""How much simulations take, in process, on a cluster of 5,000 nodes and 50,000 pods.

    python -m tools.bench.simulation_times [--nodes 5000] [--pods 50000]

Prints processor time (the machine may do other things beside), for single pods of several numbers of shapes, a drain of
a full node, a capacity; and the memory of sixteen forks at once as a share of one more copy of the cluster.
"""

import argparse
import asyncio
import gc
import time
import tracemalloc
from typing import Any

from tools.bench import proposal_times
from trireme.insight import observed_cluster
from trireme.insight.simulations import setups, simulator
from trireme.registry import default_profile
from trireme.simulation import known_classes, simulation
from trireme.snapshot import snapshot
from trireme.v1 import cycle_pb2, plugin_pb2, simulation_pb2, snapshot_pb2

FORKS = 16
FORKED_PODS = 10
REPLACED_PODS = 100
SINGLE_PODS = 1000


def _configuration() -> snapshot_pb2.Configuration:
    profile = snapshot_pb2.Profile(scheduler_name=proposal_times.PROFILE)
    filters = profile.plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_FILTER)
    for name in proposal_times.FILTERS:
        filters.plugins.add(name=name)
    scores = profile.plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_SCORE)
    for name, weight in default_profile.WEIGHTS.items():
        scores.plugins.add(name=name, weight=weight)
    preempting = profile.plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_POST_FILTER)
    preempting.plugins.add(name="DefaultPreemption")
    for name in {*proposal_times.FILTERS, "DefaultPreemption", *default_profile.WEIGHTS}:
        profile.plugin_args.add(name=name, args_json=b"{}")
    gates = {"GenericWorkload": False, "SchedulerAsyncPreemption": True}
    return snapshot_pb2.Configuration(profiles=[profile], feature_gates=gates)


def _cluster(nodes: int, pods: int) -> snapshot.Snapshot:
    """The cluster, whose pods have controllers and the profile's scheduler; node-1 has 100 pods of 25 classes more."""
    snap = proposal_times._snapshot(nodes, pods)
    classes = []
    for number, each in snap.classes.items():
        each.pod.spec.scheduler_name = proposal_times.PROFILE
        owner = f"rs-{number}"
        each.pod.metadata.owner_references.add(kind="ReplicaSet", name=owner, uid=owner, controller=True)
        classes.append(snapshot_pb2.PodClass(id=number, pod=each.pod))
    more = snapshot_pb2.PodColumns(
        row=range(pods, pods + 80), pod_class=[1 + n % 25 for n in range(80)], slot=[1] * 80,
        uid=[f"more-{n}" for n in range(80)], name=[f"more-{n}" for n in range(80)], start_time_s=[0] * 80,
        flags=[0] * 80,
    )  # fmt: skip
    snap.apply(snapshot_pb2.Delta(from_generation=1, to_generation=2, classes=classes, pods=more))
    return snap


def _manifest(number: int, shapes: int) -> dict[str, Any]:
    requests = {"cpu": f"{100 + number % shapes}m", "memory": "256Mi"}
    spec = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{number}"}, "spec": spec}


def _varied_manifest(number: int) -> dict[str, Any]:
    """A pod with requests, labels and an image of its own; one in five or so has each kind of demand beside them."""
    labels, kind = {"app": f"varied-{number}"}, number % 20
    requests = {"cpu": f"{100 + number}m", "memory": f"{128 + number % 37}Mi"}
    container = {
        "name": "main",
        "image": f"example.com/varied-{number}:v{number % 7}",
        "resources": {"requests": requests},
    }
    about_itself = {"labelSelector": {"matchLabels": labels}}
    apart = {"topologyKey": "kubernetes.io/hostname", **about_itself}
    spec: dict[str, Any] = {"containers": [container]}
    if kind < 6:
        spec["tolerations"] = [{"key": "pool", "value": f"p{2 * (number % 10)}", "effect": "NoSchedule"}]
    if kind in (1, 7, 8, 9):
        spec["nodeSelector"] = {"node.kubernetes.io/instance-type": f"t{number % 12}"}
    if kind in (2, 10):
        in_zone = {"matchExpressions": [{"key": proposal_times.ZONE, "operator": "In", "values": [f"z{number % 3}"]}]}
        preferred = [{"weight": 1 + number % 50, "preference": in_zone}]
        spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    if kind in (3, 11):
        weighted = [{"weight": 100, "podAffinityTerm": apart}]
        spec["affinity"] = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}
    if kind == 12:
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    if kind in (4, 13, 14, 15):
        action = "DoNotSchedule" if kind == 15 else "ScheduleAnyway"
        spread = {"topologyKey": proposal_times.ZONE, "maxSkew": 1, "whenUnsatisfiable": action, **about_itself}
        spec["topologySpreadConstraints"] = [spread]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{number}", "labels": labels}, "spec": spec}


async def _time(asking: simulator.Simulator, request: simulation_pb2.SimulateRequest) -> tuple[float, Any]:
    """Seconds of processor time, the least of five, and the answer."""
    best, answer = float("inf"), None
    for _ in range(5):
        started = time.process_time()
        answer = await asking.simulate(request, "bench")
        best = min(best, time.process_time() - started)
    return best, answer


async def _measure(nodes: int, pods: int) -> None:
    snap, configuration = _cluster(nodes, pods), _configuration()
    setup = setups.make_setup(configuration, cycle_pb2.Cycle())
    asking = simulator.Simulator(observed_cluster.ObservedCluster(snap), lambda request: setup, seconds=600.0)
    for shapes in (1, 50, 300, 1000):
        request = simulation_pb2.SimulateRequest()
        for number in range(SINGLE_PODS):
            request.single_pods.manifests.add().update(_manifest(number, shapes))
        seconds, answer = await _time(asking, request)
        assert len(answer.placements) == SINGLE_PODS
        print(f"single pods of {shapes} shapes: {SINGLE_PODS / seconds:.0f} per CPU second")
    request = simulation_pb2.SimulateRequest()
    for number in range(SINGLE_PODS):
        request.single_pods.manifests.add().update(_varied_manifest(number))
    seconds, answer = await _time(asking, request)
    assert len(answer.placements) + sum(len(group.pods) for group in answer.pending) == SINGLE_PODS
    print(
        f"single pods of {SINGLE_PODS} shapes that differ in more than CPU: {SINGLE_PODS / seconds:.0f} per CPU second"
    )
    request = simulation_pb2.SimulateRequest()
    request.scenario.changes.add().drain.node_names.append("node-1")
    seconds, answer = await _time(asking, request)
    print(f"drain of a node with {len(answer.evictions)} pods: {1000 * seconds:.0f} ms of CPU")
    request = simulation_pb2.SimulateRequest()
    request.how_many.manifest.update(_manifest(0, 1))
    seconds, answer = await _time(asking, request)
    print(f"how many fit ({answer.capacity.pods}): {1000 * seconds:.0f} ms of CPU")
    await _measure_forks(snap, setup, nodes, pods)


async def _measure_forks(snap: snapshot.Snapshot, setup: simulation.Setup, nodes: int, pods: int) -> None:
    # Loads the modules, whose memory is none of the forks'.
    await simulation.Simulation(snap, setup, known_classes.of_snapshot(snap)).close()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    # Nobody has asked it for UIDs yet: what finds them is counted below.
    snap = _cluster(nodes, pods)
    whole = tracemalloc.get_traced_memory()[0] - before
    moving, known = _cluster(nodes, pods), known_classes.of_snapshot(snap)
    copied = tracemalloc.get_traced_memory()[0]
    forks = [_changed_fork(snap, setup, known) for _ in range(FORKS)]
    changed = tracemalloc.get_traced_memory()[0] - copied
    for sim in forks:
        more = [sim.parsed_of_class(1, sim.new_name("p"), known.labels_of(1)) for _ in range(FORKED_PODS)]
        sim.add_pods(more, simulation.Origin.ADDED)
        await sim.run()
    scheduled = tracemalloc.get_traced_memory()[0] - copied
    for text, used in (("placed there", changed), ("scheduled there too, with what evaluates them", scheduled)):
        share = used / whole
        print(f"{FORKS} forks, {FORKED_PODS} pods {text}: {used / 2**20:.1f} MiB, {share:.2f} of a copy of ", end="")
        print(f"{whole / 2**20:.1f} MiB")
    for sim in forks:
        await sim.close()
    forks.clear()
    gc.collect()
    known = known_classes.of_snapshot(moving)
    copied = tracemalloc.get_traced_memory()[0]
    for number in range(FORKS):
        _replace_pods(moving, REPLACED_PODS * number)
        forks.append(_changed_fork(moving, setup, known))
    used = tracemalloc.get_traced_memory()[0] - copied
    print(f"{FORKS} forks, {REPLACED_PODS} pods of the cluster replaced before each: {used / whole:.2f} of a copy")
    for sim in forks:
        await sim.close()


def _changed_fork(
    snap: snapshot.Snapshot, setup: simulation.Setup, known: known_classes.KnownClasses
) -> simulation.Simulation:
    """A simulation in which some pods have come to nodes."""
    sim = simulation.Simulation(snap, setup, known)
    pods = [sim.parsed_of_class(1, sim.new_name("p"), known.labels_of(1)) for _ in range(FORKED_PODS)]
    on_nodes = [pod._replace(node_name=f"node-{number}") for number, pod in enumerate(pods)]
    sim.add_pods(on_nodes, simulation.Origin.ADDED)
    sim.publish()
    return sim


def _replace_pods(snap: snapshot.Snapshot, first: int) -> None:
    """Other pods come in the place of some, beginning with a row, on other nodes."""
    generation, rows = snap.generation, range(first, first + REPLACED_PODS)
    pods = snapshot_pb2.PodColumns(
        row=rows, pod_class=[5] * REPLACED_PODS, slot=rows, uid=[f"again-{row}" for row in rows],
        name=[f"again-{row}" for row in rows], start_time_s=[0] * REPLACED_PODS, flags=[0] * REPLACED_PODS,
    )  # fmt: skip
    snap.apply(
        snapshot_pb2.Delta(from_generation=generation, to_generation=generation + 1, removed_pods=rows, pods=pods)
    )


def main() -> None:
    """Measure, with the sizes of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    options = parser.parse_args()
    asyncio.run(_measure(options.nodes, options.pods))


if __name__ == "__main__":
    main()
