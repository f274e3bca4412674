"""Explains preemption for a group of pods: the group is scheduled in a simulation, alone, by the scheduler's own cycle.

A group preempts as a whole, in the whole cluster: which victims it takes depends on where all its members go. So there
are no candidates to compare, as for a pod.

Tests: tests/unit/simulation/test_group_preemption.py.
"""

from collections.abc import Sequence

from trireme.evaluation.preemption import victims_with_groups
from trireme.insight import observed_cluster
from trireme.simulation import simulation
from trireme.snapshot import snapshot
from trireme.v1 import cycle_pb2, decision_explanation_pb2, snapshot_pb2


async def explain(
    sim: simulation.Simulation,
    members: Sequence[snapshot_pb2.QueuedPod],
    group: str,
    cluster: observed_cluster.ObservedCluster,
) -> decision_explanation_pb2.PreemptionExplanation:
    """Whom the group evicts, and where its members go then; or why it evicts nobody.

    `sim` is a fork of the cluster; a victim that leaves that meanwhile is left out. Raises: as Simulation.run.
    """
    await sim.add_queued_pods(members)
    await sim.run()
    out = decision_explanation_pb2.PreemptionExplanation(pod_group=group)
    evicted = [each for each in sim.writes.evicted if each.preemptor is not None and each.preemptor.name == group]
    for each in evicted:
        row = cluster.row_of(each.pod.namespace, each.pod.name, each.pod.uid)
        if row is not None:
            out.victims.append(_victim(cluster.snap, row, each.pod))
    for member in members:
        node_name = sim.node_of(member.pod.uid)
        if node_name:
            out.placements.add(pod=member.pod, node_name=node_name)
    if not out.victims:
        code, out.reason = _reason_for_none(sim, members, cluster.snap, len(out.placements))
        out.reasons.add(code=code)
    return out


def _victim(snap: snapshot.Snapshot, row: int, pod: cycle_pb2.PodIdentity) -> decision_explanation_pb2.PreemptionPod:
    """A victim, on the node where it is now."""
    return decision_explanation_pb2.PreemptionPod(
        pod=pod,
        priority=snap.classes[int(snap.pods.pod_class[row])].priority,
        node_name=snap.nodes.names[int(snap.pods.slot[row])],
    )


def _reason_for_none(
    sim: simulation.Simulation, members: Sequence[snapshot_pb2.QueuedPod], before: snapshot.Snapshot, placed: int
) -> tuple[str, str]:
    """Why the group evicts nobody, as a code and in words."""
    if placed:
        return "fitsWithoutEvictions", "its members fit without evictions"
    message = next((text for each in members if (text := sim.writes.failures.get(each.pod.uid))), "")
    if not message:
        return "groupNotTried", "the group is not tried: it waits for more members, or for what holds them back"
    pods = [before.classes[each.pod_class] for each in members]
    if any(each.pod.spec.preemption_policy == "Never" for each in pods):
        return "neverPreempts", "the preemptionPolicy of a member is Never"
    group = before.objects.get("pod_group", members[0].pod.namespace, members[0].pod_group)
    priority = group.spec.priority if group is not None else pods[0].priority
    if not victims_with_groups.victims(before, priority):
        return "noVictims", f"no node has a pod of lower priority: {message}"
    return "victimsNotEnough", f"even without all pods of lower priority it does not fit: {message}"
