"""The scheduler plugin SpotBatch: batch pods make room for others, whatever the priorities.

`python spot_batch.py --listen 127.0.0.1:9000` serves it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import pod_requests

from trireme import sdk
from trireme.v1 import bind_pb2, core_pb2, cycle_pb2, filter_pb2, status_pb2

# Pods with this label and value may be evicted for any pod without it.
LABEL, VALUE = "example.com/tier", "spot-batch"

# A node that refuses a pod for another reason than resources is not helped by evictions.
_RESOURCES_PLUGIN = "NodeResourcesFit"


@dataclass(frozen=True, slots=True)
class Room:
    """How a node takes the pod: without these pods, in the order in which they are evicted."""

    node: str
    victims: Sequence[sdk.PlacedPod]


class SpotBatch:
    """Evicts as few batch pods as make room, the youngest first: they lose the least work.

    Batch pods that are being deleted count as gone: while their room is enough, nobody else is evicted.
    """

    info = sdk.Info(
        "SpotBatch",
        version="1.0.0",
        node_data=sdk.NodeData.SNAPSHOT,
        pod_fields=(
            f"metadata.labels['{LABEL}']",
            "spec.containers.resources",
            "spec.initContainers.resources",
            "spec.initContainers.restartPolicy",
            "spec.overhead",
        ),
    )

    def post_filter(
        self, call: sdk.Call, columns: filter_pb2.NodeColumns
    ) -> filter_pb2.PostFilterResponse | sdk.Status:
        """The evictions that make room on the node that needs fewest, or why none do."""
        if call.pod.metadata.labels.get(LABEL) == VALUE:
            return sdk.unschedulable("batch pods evict no others")
        assert call.cluster is not None
        found = [
            room
            for slot in _slots_short_of_resources(columns)
            if (room := _room_on(call.cluster, slot, call.pod)) is not None
        ]
        if not found:
            return sdk.unschedulable("evicting batch pods makes no room")
        # The name decides among equals, so that the answer is the same if the call is repeated.
        best = min(found, key=lambda room: (len(room.victims), room.node))
        if not best.victims:
            return sdk.unschedulable("batch pods that make room are ending")
        return _evictions(call.pod, best)


def _slots_short_of_resources(columns: filter_pb2.NodeColumns) -> list[int]:
    """The slots of the nodes that refuse the pod for want of resources, in a way that evictions may mend."""
    helps = [
        status.plugin == _RESOURCES_PLUGIN and status.code == status_pb2.CODE_UNSCHEDULABLE
        for status in columns.statuses
    ]
    return [slot for slot, number in enumerate(columns.status_index) if number and helps[number - 1]]


def _room_on(cluster: sdk.ClusterState, slot: int, pod: core_pb2.Pod) -> Room | None:
    """How the node takes the pod; None: not, whichever batch pods are evicted."""
    node = cluster.nodes.get(slot)
    if node is None:
        return None
    there: Collection[sdk.PlacedPod] = cluster.pods_on(slot)
    batch = [each for each in there if each.pod.metadata.labels.get(LABEL) == VALUE]
    others = [each for each in there if each.pod.metadata.labels.get(LABEL) != VALUE]
    staying = [each for each in batch if not each.terminating]
    # A pod that has not started is the youngest of all.
    staying.sort(key=lambda each: (each.start_time or float("inf"), each.uid))
    victims: list[sdk.PlacedPod] = []
    while not _fits(node, [*others, *staying], pod):
        if not staying:
            return None
        victims.append(staying.pop())
    return Room(node.metadata.name, victims)


def _fits(node: core_pb2.Node, there: Sequence[sdk.PlacedPod], pod: core_pb2.Pod) -> bool:
    """Whether the node has room for the pod beside these."""
    allocatable = node.status.allocatable
    has = pod_requests.amounts_of(allocatable)
    # Reading a key that a message lacks would add it.
    most = pod_requests.quantity(allocatable["pods"].string) if "pods" in allocatable else 0
    needed = pod_requests.total([*(pod_requests.of_pod(each.pod) for each in there), pod_requests.of_pod(pod)])
    return len(there) < most and all(needed[name] <= has[name] for name in pod_requests.RESOURCES)


def _evictions(pod: core_pb2.Pod, room: Room) -> filter_pb2.PostFilterResponse:
    """The answer that has the scheduler evict the pods, and nominate the pod to the node."""
    who = pod.metadata
    preemptor = cycle_pb2.PodIdentity(namespace=who.namespace, name=who.name, uid=who.uid)
    response = filter_pb2.PostFilterResponse(
        status=status_pb2.Status(code=status_pb2.CODE_SUCCESS),
        nominated_node=room.node,
        disruption=filter_pb2.Disruption(victims=len(room.victims)),
    )
    for victim in room.victims:
        response.actions.add(
            pod=cycle_pb2.PodIdentity(namespace=victim.pod.metadata.namespace, name=victim.name, uid=victim.uid),
            evict=bind_pb2.Evict(
                message=f"SpotBatch: makes room for {who.namespace}/{who.name}",
                preemptor=preemptor,
                node_name=room.node,
            ),
        )
    return response


if __name__ == "__main__":
    raise SystemExit(sdk.main(SpotBatch()))
