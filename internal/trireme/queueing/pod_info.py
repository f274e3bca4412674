"""What the scheduling queue knows of a pod from its API object: immutable, replaced as a whole by each update."""

from typing import NamedTuple

from trireme.queueing.pending_pod import PendingPod

# What QueueSort's keys are compared by first: pods whose level is equal may go in one batch.
Level = int | bytes


class PodInfo(NamedTuple):
    """What the queue knows of a pod from its object.

    Pods with the same `class_id` are equal for every plugin, their profile and priority included; so what is evaluated
    for one of them holds for all, and they may go in one batch.
    """

    #: namespace/name
    key: str
    uid: str
    class_id: int
    profile: str
    priority: int
    #: QueueSort's key, first part. By default: the negated priority.
    level: Level
    #: QueueSort's key, the rest: order within a class of one level, before age.
    rest: bytes
    pod: PendingPod
    resource_version: str = ""
    nominated_node: str = ""
    #: It is a batch of its own: what matters for scheduling is not all in its class.
    exclusive: bool = False
    #: It is nominated to a node, so it is not tried together with pods that are not.
    nominated: bool = False

    @property
    def sort_identity(self) -> tuple[object, ...]:
        """The fields that decide the pod's position in the queue, beside its age: equal ones need no move."""
        return self[2:7]


def pod_info_by_priority(
    key: str,
    uid: str,
    class_id: int,
    profile: str,
    priority: int,
    *,
    resource_version: str = "",
    nominated_node: str = "",
    exclusive: bool = False,
    pod: PendingPod,
) -> PodInfo:
    """The record of a pod in kube-scheduler's own order: priority first, then age."""
    nominated = bool(nominated_node)
    return PodInfo(
        key,
        uid,
        class_id,
        profile,
        priority,
        -priority,
        b"",
        pod,
        resource_version,
        nominated_node,
        exclusive,
        nominated,
    )
