"""The scheduling queue's record of a pod's API object: immutable, replaced as a whole by each update.

Tests: tests/unit/queueing/test_group_queue.py, tests/unit/queueing/test_gates_and_updates.py.
"""

import functools
from typing import NamedTuple

from trireme.framework.sort_key import SortKey, SortNumbers
from trireme.queueing.pending_pod import PendingPod


class PodInfo(NamedTuple):
    """The queue's record of a pod's object.

    Pods with the same `class_id` are equal for every plugin, their profile and priority included; so what is evaluated
    for one of them holds for all, and they may go in one batch.
    """

    #: namespace/name
    key: str
    uid: str
    class_id: int
    profile: str
    priority: int
    #: The parts of QueueSort's key, see `SortKey`. By default the level is the negated priority.
    level: SortNumbers
    rest: SortNumbers
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

    def sorted_anew(self) -> "PodInfo":
        """The same with the key that the pod has by now."""
        key = sort_key(self.pod, self.priority)
        return self._replace(level=key.level, rest=key.rest)


@functools.lru_cache(maxsize=4096)
def key_by_priority(priority: int) -> SortKey:
    """The key of kube-scheduler's own order: priority first, then age."""
    return SortKey((-priority,))


def sort_key(pod: PendingPod, priority: int) -> SortKey:
    """The key that a QueueSort plugin gave the pod, or that by its priority."""
    given = pod.given_sort_key
    return key_by_priority(priority) if given is None else given.key


def make_pod_info(
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
    """The record of a pod, in the order of its key."""
    nominated = bool(nominated_node)
    order = sort_key(pod, priority)
    return PodInfo(
        key,
        uid,
        class_id,
        profile,
        priority,
        order.level,
        order.rest,
        pod,
        resource_version,
        nominated_node,
        exclusive,
        nominated,
    )
