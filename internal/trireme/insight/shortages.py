"""The numbers of a refusal for lack of a resource: what is free on the best of the nodes, and who uses the rest.

Also change: protos/trireme/v1/shortage.proto (the messages).
"""

from collections.abc import Iterable, Iterator

import numpy as np

from trireme.framework import amounts
from trireme.snapshot import arrays, classes, snapshot
from trireme.v1 import insight_pb2, shortage_pb2, status_pb2

#: How many pods that use a resource are named.
MAX_USERS = 5

_INSUFFICIENT, _TOO_MANY = "insufficientResource", "tooManyPods"
_PODS = "pods"


def add_shortages(
    response: insight_pb2.ExplainResponse, pod_class: classes.PodClass, uid: str, snap: snapshot.Snapshot
) -> None:
    """Add to each refusal what its nodes have too little of, as far as they are still there.

    `response` is about a pod of the class with this UID.
    """
    snap.nodes.ensure_resource_rows()
    nominees = _nominees(snap, pod_class.priority, uid)
    for refusal in response.refusals:
        reasons = [each for each in refusal.status.reasons if each.code in (_INSUFFICIENT, _TOO_MANY)]
        if not reasons:
            continue
        found = (snap.nodes.slot_of_name.get(name) for name in refusal.nodes)
        slots = np.array([slot for slot in found if slot is not None], dtype=np.intp)
        if slots.size:
            refusal.shortages.extend(_shortages(reasons, slots, pod_class, nominees, snap))


def _shortages(
    reasons: Iterable[status_pb2.Reason],
    slots: arrays.SlotArray,
    pod_class: classes.PodClass,
    nominees: list[tuple[int, classes.PodClass]],
    snap: snapshot.Snapshot,
) -> Iterator[shortage_pb2.Shortage]:
    """What is short by the reasons, each on that of the slots which has the most of it. Shape: slots (node,)."""
    for reason in reasons:
        if reason.code == _TOO_MANY:
            yield _pods_shortage(slots, nominees, snap)
        elif (resource := reason.parameters.get("resource", "")) in pod_class.amounts.filtering:
            yield _shortage(resource, slots, pod_class, nominees, snap)


def _shortage(
    resource: str,
    slots: arrays.SlotArray,
    pod_class: classes.PodClass,
    nominees: list[tuple[int, classes.PodClass]],
    snap: snapshot.Snapshot,
) -> shortage_pb2.Shortage:
    """A shortage of a resource. Shape: slots (node,)."""
    number = snap.nodes.resource_names.find(resource)
    if number is None:
        allocatable, free = np.zeros((2, slots.size), dtype=np.int64)
    else:
        allocatable = snap.nodes.allocatable[number, slots]
        free = allocatable - snap.requested(number, slots)
    free = free - _used_by_nominees(resource, slots, nominees)
    best = int(np.argmax(free))
    out = shortage_pb2.Shortage(resource=resource, node_name=snap.nodes.names[slots[best]])
    out.requested.string = amounts.quantity_text(resource, pod_class.amounts.filtering[resource])
    out.free.string = amounts.quantity_text(resource, int(free[best]))
    out.allocatable.string = amounts.quantity_text(resource, int(allocatable[best]))
    users = _users_of(resource, int(slots[best]), nominees, snap)
    for amount, namespace, name in users[:MAX_USERS]:
        user = out.users.add(nominated=not name)
        user.pod.namespace, user.pod.name = namespace, name
        user.used.string = amounts.quantity_text(resource, amount)
    out.more_users = max(len(users) - MAX_USERS, 0)
    return out


def _pods_shortage(
    slots: arrays.SlotArray, nominees: list[tuple[int, classes.PodClass]], snap: snapshot.Snapshot
) -> shortage_pb2.Shortage:
    """Too many pods. Shape: slots (node,)."""
    allowed = snap.nodes.allowed_pods[slots]
    there = snap.pod_count(slots) + _used_by_nominees(_PODS, slots, nominees)
    best = int(np.argmax(allowed - there))
    out = shortage_pb2.Shortage(resource=_PODS, node_name=snap.nodes.names[slots[best]], more_users=int(there[best]))
    out.requested.string, out.allocatable.string = "1", str(int(allowed[best]))
    out.free.string = str(int(allowed[best] - there[best]))
    return out


def _nominees(snap: snapshot.Snapshot, priority: int, uid: str) -> list[tuple[int, classes.PodClass]]:
    """Slot and class of the nominated pods that count for a pod of this priority, without itself."""
    found = ((each, snap.classes.get(each.pod_class)) for each in snap.nominations.values() if each.uid != uid)
    return [(each.slot, of_class) for each, of_class in found if of_class is not None and of_class.priority >= priority]


def _used_by_nominees(
    resource: str, slots: arrays.SlotArray, nominees: Iterable[tuple[int, classes.PodClass]]
) -> arrays.Int64Array:
    """How much of the resource is kept for nominated pods on each slot. Shapes: slots and the result (node,)."""
    by_slot = np.zeros(int(slots.max()) + 1, dtype=np.int64)
    for slot, of_class in nominees:
        if slot < by_slot.size:
            by_slot[slot] += 1 if resource == _PODS else of_class.amounts.placed.get(resource, 0)
    return by_slot[slots]


def _users_of(
    resource: str, slot: int, nominees: Iterable[tuple[int, classes.PodClass]], snap: snapshot.Snapshot
) -> list[tuple[int, str, str]]:
    """Amount, namespace and name of what uses the resource of a node, the most first; nominated pods have no name."""
    table = snap.pods
    found = []
    for row in np.flatnonzero(table.slot[: table.size] == slot).tolist():
        of_class = snap.classes[int(table.pod_class[row])]
        found.append((of_class.amounts.placed.get(resource, 0), of_class.namespace, table.names[row]))
    for at, of_class in nominees:
        if at == slot:
            found.append((of_class.amounts.placed.get(resource, 0), of_class.namespace, ""))
    return sorted((each for each in found if each[0] > 0), key=lambda each: (-each[0], each[1], each[2]))
