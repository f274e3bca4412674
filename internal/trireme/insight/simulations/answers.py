"""Answers of simulations as messages.

Also change: protos/trireme/v1/simulation.proto (the limits).

Tests: tests/unit/insight/simulations/test_simulator.py, tests/unit/insight/test_question_logs.py.
"""

from collections.abc import Iterable, Sequence

from trireme.cache.pod_projection import ParsedPod
from trireme.framework import status
from trireme.simulation import capacity, compaction, drains, reasons, simulation, single_pods, usage, writes
from trireme.v1 import cycle_pb2, simulation_pb2, status_pb2

_ORIGINS = {
    simulation.Origin.QUEUED: simulation_pb2.POD_ORIGIN_QUEUED,
    simulation.Origin.ADDED: simulation_pb2.POD_ORIGIN_ADDED,
    simulation.Origin.REPLACEMENT: simulation_pb2.POD_ORIGIN_REPLACEMENT,
}
_NODES = 1000
_MOST = 2**63 - 1


async def write_scenario(sim: simulation.Simulation, response: simulation_pb2.SimulateResponse) -> None:
    """Write where the pods of a simulation are in the end. Raises: PhaseFault, PhaseUnavailable."""
    for uid, pod in sim.pods.items():
        node_name = sim.node_of(uid)
        if node_name:
            response.placements.append(_placement(pod, node_name))
    pending = [uid for uid in sim.pods if not sim.node_of(uid)]
    response.pending.extend([group for _, group in await pending_groups(sim, pending)])
    response.evictions.extend(_eviction(each) for each in sim.writes.evicted)
    if sim.not_replaced:
        names = ", ".join(sim.not_replaced[:5])
        text = f"controllers make pods with claims of their own again, which a simulation cannot: {names}"
        response.not_simulated.append(text)


async def pending_groups(
    sim: simulation.Simulation, uids: Sequence[str]
) -> list[tuple[list[str], simulation_pb2.PendingPods]]:
    """The pods of these UIDs, which have no node, by reason, in the order of the first of each.

    Raises: PhaseFault, PhaseUnavailable.
    """
    groups: dict[tuple[str, int, str, str], tuple[list[str], simulation_pb2.PendingPods]] = {}
    for uid in uids:
        pod, pending = sim.pods[uid], sim.pending(uid)
        class_id = 0 if pending is None else pending.class_id
        message = sim.writes.failures.get(uid, "")
        key = pod.parsed.scheduler_name, class_id, message, sim.nominated_node_of(uid)
        if key not in groups:
            group = simulation_pb2.PendingPods(message=message, nominated_node=key[3])
            group.reasons.extend(_reason(each) for each in sim.last_reasons(uid))
            groups[key] = [], group
            if class_id and message:
                await _write_reasons(sim, key[0], class_id, group)
        named, group = groups[key]
        named.append(uid)
        group.pods.append(identity(pod.parsed.namespace, pod.parsed.name, uid, pod.origin))
        group.origins.append(_ORIGINS[pod.origin])
    return list(groups.values())


def write_single_pods(
    pods: Sequence[ParsedPod],
    answers: Sequence[single_pods.SinglePodAnswer],
    response: simulation_pb2.SimulateResponse,
) -> None:
    """Write where single pods would go."""
    groups: dict[int, simulation_pb2.PendingPods] = {}
    for pod, answer in zip(pods, answers, strict=True):
        added = simulation.Origin.ADDED
        named = identity(pod.namespace, pod.name, pod.uid, added)
        if answer.node_name:
            response.placements.add(pod=named, node_name=answer.node_name, origin=_ORIGINS[added])
            continue
        group = groups.get(id(answer))
        if group is None:
            group = groups[id(answer)] = response.pending.add(
                message=answer.message, nominated_node=answer.nominated_node
            )
            if answer.pre_filter is not None:
                group.pre_filter.CopyFrom(_status(answer.pre_filter))
            group.refusals.extend(_status(each) for each in answer.refusals)
            group.reasons.extend(_reason(each) for each in answer.reasons)
            response.evictions.extend(
                simulation_pb2.PodEviction(pod=victim, node_name=node, preemptor=named)
                for victim, node in answer.victims
            )
        group.pods.append(named)
        group.origins.append(_ORIGINS[added])


def usage_message(of: usage.Usage) -> simulation_pb2.ClusterUsage:
    """A cluster's use; what is more than a message holds is as much as that."""
    return simulation_pb2.ClusterUsage(
        node_count=of.nodes,
        used_nodes=of.used_nodes,
        placed_pods=of.pods,
        resources=[
            simulation_pb2.ResourceUsage(name=name, allocatable=min(has, _MOST), requested=min(used, _MOST))
            for name, (has, used) in of.resources.items()
        ],
        reference_pods=min(of.reference_pods, _MOST),
        reference_pods_in_one_piece=min(of.reference_pods_in_one_piece, _MOST),
        fragmentation=of.fragmentation,
        reference_requests=of.reference,
    )


def capacity_message(found: capacity.Capacity) -> simulation_pb2.PodCapacity:
    """How many copies fit, with the nodes that take most."""
    nodes = sorted(found.nodes.items(), key=lambda entry: (-entry[1], entry[0]))
    return simulation_pb2.PodCapacity(
        pods=min(found.pods, capacity.MAX_COPIES),
        nodes=[simulation_pb2.NodeCapacity(node_name=name, pods=count) for name, count in nodes[:_NODES]],
    )


def blocked_messages(blocked: Iterable[drains.Blocked]) -> list[simulation_pb2.BlockedEviction]:
    """The pods that could not leave."""
    return [
        simulation_pb2.BlockedEviction(pod=each.pod, node_name=each.node_name, budgets=each.budgets) for each in blocked
    ]


def moves_messages(plan: compaction.Plan) -> list[simulation_pb2.NodeMoves]:
    """The nodes to empty, and where their pods go."""
    return [
        simulation_pb2.NodeMoves(
            node_name=each.node_name,
            placements=[_placement(pod, node_name) for pod, node_name in each.moves],
        )
        for each in plan.emptied
    ]


def identity(namespace: str, name: str, uid: str, origin: simulation.Origin) -> cycle_pb2.PodIdentity:
    """The identity of a pod; one that does not exist has no UID."""
    shown = uid if origin is simulation.Origin.QUEUED else ""
    return cycle_pb2.PodIdentity(namespace=namespace, name=name, uid=shown)


async def _write_reasons(
    sim: simulation.Simulation, profile: str, class_id: int, group: simulation_pb2.PendingPods
) -> None:
    """Write the nodes' final verdicts on the class."""
    filtered = await sim.evaluators.filter(profile, class_id, 1, sim.snap.generation)
    if filtered.refusal is not None:
        at_once = reasons.refused_at_once(filtered.refusal, sim.snap)
        group.pre_filter.CopyFrom(_status(at_once))
    group.refusals.extend(_status(each) for each in reasons.refusals_of(filtered, sim.snap))


def _placement(pod: simulation.OncePendingPod, node_name: str) -> simulation_pb2.PodPlacement:
    """A pod on its node; of a replacement with the pod whose place it takes."""
    parsed = pod.parsed
    out = simulation_pb2.PodPlacement(
        pod=identity(parsed.namespace, parsed.name, parsed.uid, pod.origin),
        node_name=node_name,
        origin=_ORIGINS[pod.origin],
    )
    if pod.replaces is not None:
        out.replaces.CopyFrom(pod.replaces)
    return out


def _eviction(each: writes.Eviction) -> simulation_pb2.PodEviction:
    return simulation_pb2.PodEviction(pod=each.pod, node_name=each.node_name, preemptor=each.preemptor)


def _status(each: reasons.NodeRefusals) -> simulation_pb2.SimulatedStatus:
    """A refusal."""
    return simulation_pb2.SimulatedStatus(
        plugin=each.status.plugin,
        messages=each.status.messages,
        node_count=each.nodes,
        example_nodes=each.examples,
        reasons=[_reason(reason) for reason in each.reasons],
    )


def _reason(of: status.Reason) -> status_pb2.Reason:
    return status_pb2.Reason(code=of.code, parameters=dict(of.parameters))
