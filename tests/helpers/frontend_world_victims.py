"""Who is preempted in the world that a frontend schedules (`frontend_world`): PostFilter's answer, without plugins."""

from collections.abc import Mapping

import numpy as np

from trireme.cache import pod_projection
from trireme.snapshot import snapshot
from trireme.v1 import bind_pb2, core_pb2, cycle_pb2, filter_pb2, status_pb2

_NOTHING = status_pb2.Status(code=status_pb2.CODE_UNSCHEDULABLE, plugin="DefaultPreemption")


def cpus(pod: core_pb2.Pod) -> int:
    """The CPUs that a pod asks for."""
    return int(pod.spec.containers[0].resources.requests["cpu"].string)


def choose(snap: snapshot.Snapshot, cycle: cycle_pb2.Cycle, free: Mapping[int, int]) -> filter_pb2.PostFilterResponse:
    """The node where the fewest have to go, and of them no more than have to; `free` is what each slot has left.

    Nobody while room is being made where the pod was promised some. Among equal nodes one where it was promised
    none: any of them may be chosen, and that one hurts most.
    """
    preemptor = snap.classes[cycle.pod_class].pod
    pods, priority = snap.pods, preemptor.spec.priority
    kept = snap.nominations.get(cycle.pod.metadata.uid)
    found: list[tuple[int, bool, int, list[int]]] = []
    for slot, cpu in free.items():
        there = np.flatnonzero(pods.slot[: pods.size] == slot).tolist()
        weaker = [row for row in there if _class_of(snap, row).spec.priority < priority]
        promised = snap.nodes.names[slot] == cycle.pod.status.nominated_node_name
        if promised and any(pods.flags[row] & pod_projection.PREEMPTED for row in weaker):
            return filter_pb2.PostFilterResponse(status=_NOTHING)
        victims: list[int] = []
        while weaker and cpu < cpus(preemptor):
            victims.append(weaker.pop())
            cpu += cpus(_class_of(snap, victims[-1]))
        if victims and cpu >= cpus(preemptor):
            found.append((len(victims), kept is not None and kept.slot == slot, slot, victims))
    if not found:
        return filter_pb2.PostFilterResponse(status=_NOTHING, clear_nomination=True)
    _, _, slot, victims = min(found)
    name = snap.nodes.names[slot]
    evict = bind_pb2.Evict(message="make room", node_name=name)
    actions = [
        bind_pb2.Action(
            pod=cycle_pb2.PodIdentity(namespace="ns", name=pods.names[row], uid=pods.uids[row]), evict=evict
        )
        for row in victims
        if not pods.flags[row] & pod_projection.TERMINATING
    ]
    success = status_pb2.Status(code=status_pb2.CODE_SUCCESS)
    return filter_pb2.PostFilterResponse(status=success, actions=actions, nominated_node=name)


def _class_of(snap: snapshot.Snapshot, row: int) -> core_pb2.Pod:
    return snap.classes[int(snap.pods.pod_class[row])].pod
