"""Workloads by their pods: which pods a controller has, and how it makes and removes some.

A snapshot has no templates, so another pod of a workload is like those that it has.

Tests: tests/unit/simulation/test_scenarios.py, tests/unit/simulation/test_budgets.py.
"""

import collections
import re
from dataclasses import dataclass

from trireme.cache import pod_projection
from trireme.simulation import pacing, simulation
from trireme.v1 import core_pb2

KINDS = {
    "deployment": "Deployment",
    "replicaset": "ReplicaSet",
    "statefulset": "StatefulSet",
    "replicationcontroller": "ReplicationController",
    "job": "Job",
}
_ORDINAL = re.compile(r"-(\d+)$")


class WorkloadError(ValueError):
    """The workload cannot be scaled; the text says why."""


@dataclass(frozen=True, slots=True)
class _Member:
    """A pod of a workload; without a node it is pending."""

    uid: str
    name: str
    node_name: str
    class_id: int
    labels: pod_projection.Labels
    start: int


async def scale(
    sim: simulation.Simulation, kind: str, namespace: str, name: str, replicas: int
) -> list[pod_projection.ParsedPod]:
    """Remove the pods that are too many, and return those to add. Raises: WorkloadError."""
    owner_kind, owners = _owners(sim, kind, namespace, name)
    members = _members(sim, namespace, owner_kind, owners)
    if not members:
        raise WorkloadError(
            f"no pod of {kind}/{name} is on a node or pending in {namespace}, so its template is not known: add "
            "pods by a manifest instead"
        )
    sim.budgets.on_scaled(sim.cache.registry[members[-1].class_id].pod, replicas - len(members))
    if replicas < len(members):
        async for member in pacing.paced(_ordered_for_removal(members, owner_kind)[: len(members) - replicas]):
            sim.remove_pod(member.uid, replace=False)
        return []
    template = members[-1]
    if sim.cache.registry[template.class_id].pod.metadata.uid:
        raise WorkloadError(f"the pods of {kind}/{name} have claims of their own, which a simulation cannot make")
    taken = {member.name for member in members}
    added = []
    ordinals = (number for number in range(len(members) + replicas) if f"{name}-{number}" not in taken)
    async for _ in pacing.paced(range(replicas - len(members))):
        new = f"{name}-{next(ordinals)}" if owner_kind == "StatefulSet" else sim.new_name(name)
        added.append(sim.parsed_of_class(template.class_id, new, template.labels))
    if in_use := sim.names_in_use(namespace, frozenset(pod.name for pod in added)):
        raise WorkloadError(f"there is a pod {namespace}/{in_use[0]} already that is not of {kind}/{name}")
    return added


def uids_of(sim: simulation.Simulation, kind: str, namespace: str, name: str) -> list[str]:
    """The UIDs of the pods of a workload, of a kind of the API; none where it has none, or they are not told apart."""
    try:
        owner_kind, owners = _owners(sim, kind.lower(), namespace, name)
    except WorkloadError:
        owner_kind, owners = kind, frozenset({name})
    return [member.uid for member in _members(sim, namespace, owner_kind, owners)]


def _owners(sim: simulation.Simulation, kind: str, namespace: str, name: str) -> tuple[str, frozenset[str]]:
    """The kind and names of the controllers whose pods the workload's are: of a Deployment its ReplicaSets."""
    if kind not in KINDS:
        raise WorkloadError(f"kind: {kind} cannot be scaled; known are {', '.join(KINDS)}")
    if kind != "deployment":
        return KINDS[kind], frozenset({name})
    sets = [
        each.metadata.name
        for each in sim.snap.objects.all("replica_set")
        if each.metadata.namespace == namespace
        and any(
            owner.controller and owner.kind == "Deployment" and owner.name == name
            for owner in each.metadata.owner_references
        )
    ]
    if not sets:
        raise WorkloadError(f"there is no ReplicaSet of deployment/{name} in {namespace}")
    return "ReplicaSet", frozenset(sets)


def _members(sim: simulation.Simulation, namespace: str, kind: str, owners: frozenset[str]) -> list[_Member]:
    """The pods of these controllers, placed ones first."""
    sim.publish()

    def is_owned(pod: core_pb2.Pod) -> bool:
        return pod.metadata.namespace == namespace and any(
            owner.controller and owner.kind == kind and owner.name in owners for owner in pod.metadata.owner_references
        )

    snap, found = sim.snap, []
    numbers = [number for number, each in snap.classes.items() if is_owned(each.pod)]
    for row in snap.pods.rows_of(snap.class_mask(numbers)).tolist() if numbers else ():
        placed = sim.cache.pod(snap.pods.uids[row])
        if placed is not None:
            found.append(
                _Member(placed.uid, placed.name, placed.node_name, placed.class_id, placed.labels, placed.start)
            )
    for uid in sim.pods:
        pending = sim.pending(uid)
        if pending is not None and pending.class_id and is_owned(sim.cache.registry[pending.class_id].pod):
            parsed = pending.parsed
            found.append(_Member(uid, parsed.name, "", pending.class_id, parsed.labels, 0))
    return found


def _ordered_for_removal(members: list[_Member], kind: str) -> list[_Member]:
    """The pods in the order in which the controller removes them."""
    if kind == "StatefulSet":
        return sorted(members, key=lambda member: -_ordinal(member.name))
    on_node = collections.Counter(member.node_name for member in members if member.node_name)
    return sorted(
        members,
        key=lambda member: (bool(member.node_name), -on_node[member.node_name], -member.start, member.name),
    )


def _ordinal(name: str) -> int:
    """The number at the end of the name of a StatefulSet's pod; −1: there is none."""
    found = _ORDINAL.search(name)
    return int(found[1]) if found else -1
