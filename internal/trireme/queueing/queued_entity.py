"""QueuedEntity: a pod or a group of pods, as the structures of the queue see it.

A `QueuedPodInfo` is a pod that is scheduled by itself. Where there are pod groups, a `QueuedPodGroupInfo` is queued in
place of a group's waiting members.
"""

from typing import Protocol

from trireme.framework.sort_key import SortNumbers
from trireme.queueing.states import QueueState


class EntityInfo(Protocol):
    """Its record from the API: its name, and its position in QueueSort's order.

    Implementers: trireme.queueing.pod_info.PodInfo, trireme.queueing.groups.queued_group.PodGroupInfo.
    """

    @property
    def key(self) -> str:
        """Its name in the queue."""

    @property
    def uid(self) -> str:
        """Its uid in the queue."""

    @property
    def profile(self) -> str:
        """The scheduler's name."""

    @property
    def priority(self) -> int:
        """Its priority, which decides what it may preempt."""

    @property
    def level(self) -> SortNumbers:
        """The first part of QueueSort's key: entities of the lowest level are tried first."""

    @property
    def rest(self) -> SortNumbers:
        """The rest of QueueSort's key, which orders entities of one level and class; ties go by age."""

    @property
    def exclusive(self) -> bool:
        """Whether it has to be alone in its batch."""

    @property
    def nominated(self) -> bool:
        """Whether it is nominated to a node, by preemption or by its object."""


class QueuedEntity(Protocol):
    """A pod or a group in the queue. Times are Unix seconds of the steady clock.

    Implementers: trireme.queueing.queued_pod.QueuedPodInfo, trireme.queueing.groups.queued_group.QueuedPodGroupInfo.
    """

    state: QueueState
    container: "Container | None"
    timestamp: float
    stamp: int
    unschedulable_count: int
    consecutive_errors: int
    backoff_expiration: float
    initial_attempt_timestamp: float

    @property
    def record(self) -> EntityInfo:
        """Its record from the API."""

    @property
    def key(self) -> str:
        """Its name in the queue."""

    @property
    def uid(self) -> str:
        """Its uid in the queue."""

    @property
    def rejectors(self) -> frozenset[str]:
        """The plugins that refused it."""


class Container(Protocol):
    """The structure that an entity is in.

    Implementers: trireme.queueing.active.ClassPods, trireme.queueing.unschedulable.RefusalGroup,
    trireme.queueing.backoff._ExpiryHeap.
    """

    def discard(self, entity: QueuedEntity) -> None:
        """Takes the entity out, which must be in it."""
