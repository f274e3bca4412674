"""The preemptions under way: which pods wait for victims, and so are gated in the queue.

Tests: tests/unit/scheduling/test_preemption_executor.py, tests/unit/scheduling/test_pre_enqueue_calls.py.
"""

import asyncio
import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from trireme.cache import cluster_cache
from trireme.cache.pod_projection import TERMINATING
from trireme.scheduling import item_batches


class EvictionResult(enum.Enum):
    """How the eviction of a victim ended."""

    #: By this eviction, or before it.
    DELETED = enum.auto()
    #: It was not bound yet, and returned to the queue.
    REQUEUED = enum.auto()
    FAILED = enum.auto()


#: How the evictions of victims end, by the victim's UID.
Evictions = Mapping[str, "asyncio.Future[EvictionResult]"]


@dataclass(slots=True)
class Preemption:
    """The preemption for one pod: from the decision until its last victim is seen terminating."""

    #: The preemptor, namespace/name.
    key: str
    #: The more important preemptor gets its room first, and of equal ones the first.
    rank: item_batches.Rank
    #: namespace/name
    victims: tuple[str, ...]
    #: UID of the victim that is deleted last.
    last_victim: str
    #: The evictions that this preemption executes, and those that an earlier preemption executes.
    own: Evictions
    shared: Evictions
    #: All victims but the last one have been deleted.
    others_deleted: bool = False
    #: The last one too, according to bind.
    finished: bool = False
    #: Bind's message, if it failed, and the same with the victim's name.
    failure: str = "a victim of it stays"
    named_failure: str = failure
    #: Another client deleted the last victim while the pod was gated: no event will wake the pod.
    unnoticed: bool = False
    #: Ends the wait for the last victim's deletion, which may never come.
    stop_waiting: Callable[[], None] = lambda: None


class PreemptionsUnderWay:
    """The preemptions, by UID of the preemptor, until its last victim is seen terminating.

    Before that the room looks taken, and the preemptor would have the same victims deleted again. PreEnqueue looks
    them up, so they are there before the queue; `PreemptionExecutor` begins and ends them.
    """

    def __init__(self, cache: cluster_cache.ClusterCache) -> None:
        self._cache = cache
        self._preemptions: dict[str, Preemption] = {}

    def get(self, uid: str) -> Preemption | None:
        """The preemption for this pod."""
        return self._preemptions.get(uid)

    def begin(self, uid: str, preemption: Preemption) -> None:
        """The preemption for this pod begins, in place of the one before."""
        self.drop(uid)
        self._preemptions[uid] = preemption

    def still_gates(self, uid: str) -> bool:
        """Whether victims of the pod are still to be deleted, and so gate it. Forgets a preemption that is over."""
        preemption = self._preemptions.get(uid)
        if preemption is None:
            return False
        if not preemption.others_deleted:
            return True
        victim = self._cache.pod(preemption.last_victim)
        if victim is not None and not (preemption.finished and victim.flags & TERMINATING):
            # While bind deletes it, a terminating victim may be gone in a moment: an attempt now would fail.
            return True
        if preemption.finished:
            self.drop(uid)
        return False

    def drop(self, uid: str) -> None:
        """Drop the preemptor's preemption, if there is one: it is over, or another one takes its place."""
        preemption = self._preemptions.pop(uid, None)
        if preemption is not None:
            preemption.stop_waiting()

    def victims_of(self, uid: str) -> tuple[str, ...]:
        """The victims (namespace/name) whose deletion is under way for the pod."""
        preemption = self._preemptions.get(uid)
        return preemption.victims if preemption is not None and not preemption.finished else ()
