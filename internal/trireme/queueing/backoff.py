"""Back-off: how long a pod that failed waits, and the pods that are waiting so.

Two kinds are held separately. Pods that were *refused* may be taken early when nothing is active; they are held by the
second in which they are due, and within it in QueueSort's order and by class, as in the active queue. Pods that failed
by *error* wait their time out: trying sooner would meet the same error.

Expiries are cut to whole seconds so that all pods of one second come back together, in order. A pod still backs off
during the second that it is due in. With `pop_early` off (feature gate SchedulerPopFromBackoffQ) expiries are exact and
no pod is taken early.

Failures are counted elsewhere: a pod's by `Transitions.record_failure`, a group's by `QueueGroups.finish_attempt`.

Also change: docs/requeueing.md.

Tests: tests/unit/queueing/test_backoff.py, tests/unit/queueing/test_batch_order.py.
"""

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass

from trireme.queueing.active import ActiveQueue, NextClass
from trireme.queueing.batch_key import BatchKey
from trireme.queueing.queued_entity import QueuedEntity

_SLACK = 64
# 2^60 times anything is beyond any maximum; more only makes big integers.
_MAX_DOUBLINGS = 60


@dataclass(slots=True)
class BackoffPolicy:
    """How long failed pods wait. Units: seconds. A maximum of 0 turns back-off off.

    A reload of the configuration may change `initial` and `maximum`; a pod that backs off then keeps its expiry.
    """

    initial: float = 1.0
    maximum: float = 10.0
    pop_early: bool = True

    def duration(self, failures: int, size: int = 1) -> float:
        """The wait after so many failures in a row; a group of `size` pods may wait √size times the maximum."""
        if not failures:
            return 0.0
        return min(self.maximum * math.sqrt(size), self.initial * 2 ** min(failures - 1, _MAX_DOUBLINGS))

    def expiry(self, entity: QueuedEntity, size: int = 1) -> float:
        """When the back-off ends; 0: there is none.

        Computed once each time that the entity was requeued. `size`: of how many pods it consists.
        """
        if not entity.backoff_expiration:
            failures = entity.consecutive_errors or entity.unschedulable_count
            if failures and self.maximum:
                entity.backoff_expiration = self._aligned_to_window(entity.timestamp + self.duration(failures, size))
        return entity.backoff_expiration

    def is_backing_off(self, entity: QueuedEntity, now: float) -> bool:
        """Whether the entity still has to wait."""
        expiry = self.expiry(entity)
        return expiry > 0 and not self.is_over(expiry, now)

    def is_over(self, expiry: float, now: float) -> bool:
        """Whether a back-off that ends at `expiry` is over."""
        return expiry < self._aligned_to_window(now)

    def _aligned_to_window(self, moment: float) -> float:
        """The moment, down to the whole second if pods may be taken early: those of one second come together."""
        return float(math.floor(moment)) if self.pop_early else moment


class _ExpiryHeap:
    """Pods by expiry alone."""

    __slots__ = ("_heap", "size")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, QueuedEntity]] = []
        self.size = 0

    def __iter__(self) -> Iterator[QueuedEntity]:
        return (entity for _, stamp, entity in self._heap if entity.container is self and entity.stamp == stamp)

    def add(self, entity: QueuedEntity, expiry: float) -> None:
        """Takes in a pod that backs off until `expiry`."""
        heapq.heappush(self._heap, (expiry, entity.stamp, entity))
        entity.container = self
        self.size += 1

    def discard(self, entity: QueuedEntity) -> None:
        """Takes out a pod, from wherever it is in the heap."""
        entity.container = None
        self.size -= 1
        if len(self._heap) > 2 * self.size + _SLACK:
            self._heap = [entry for entry in self._heap if entry[2].container is self and entry[2].stamp == entry[1]]
            heapq.heapify(self._heap)

    def first_expiry(self) -> float | None:
        """When the first pod's back-off ends; None: there is no pod."""
        while self._heap:
            expiry, stamp, entity = self._heap[0]
            if entity.container is self and entity.stamp == stamp:
                return expiry
            heapq.heappop(self._heap)
        return None

    def pop(self) -> QueuedEntity:
        """Takes out the first pod; `first_expiry` was called before, and found one."""
        entity = heapq.heappop(self._heap)[2]
        entity.container = None
        self.size -= 1
        return entity


class BackoffQueue:
    """The pods that back off: those refused by plugins, which may be taken early, and those that failed by error."""

    __slots__ = ("_due", "_errors", "_policy", "_windows")

    def __init__(self, policy: BackoffPolicy) -> None:
        self._policy = policy
        self._errors = _ExpiryHeap()
        # By expiry. `_due` is a heap of its keys.
        self._windows: dict[float, ActiveQueue] = {}
        self._due: list[float] = []

    def __iter__(self) -> Iterator[QueuedEntity]:
        for window in self._windows.values():
            yield from window
        yield from self._errors

    @property
    def refused_count(self) -> int:
        """How many may be taken early."""
        return sum(window.size for window in self._windows.values())

    @property
    def error_count(self) -> int:
        """How many cannot be taken early."""
        return self._errors.size

    def add(self, entity: QueuedEntity, key: BatchKey) -> None:
        """Takes in an entity that backs off; `key`: of the batches that it may go in."""
        expiry = self._policy.expiry(entity)
        if not entity.rejectors or not self._policy.pop_early:
            self._errors.add(entity, expiry)
            return
        window = self._windows.get(expiry)
        if window is None:
            window = self._windows[expiry] = ActiveQueue()
            heapq.heappush(self._due, expiry)
        window.add(entity, key)

    def take_early(self, limit: int, now: float, stamp: int) -> list[QueuedEntity]:
        """Takes out a batch of those that are due next, before their time; empty if there is none."""
        window = self._first_window()
        return window.take(limit, now, stamp) if window else []

    def take_completed(self, now: float) -> list[QueuedEntity]:
        """Takes out the pods whose back-off is over."""
        entities: list[QueuedEntity] = []
        while (window := self._first_window()) is not None and self._policy.is_over(self._due[0], now):
            entities += window
            del self._windows[heapq.heappop(self._due)]
        for entity in entities:
            entity.container = None
        while (expiry := self._errors.first_expiry()) is not None and self._policy.is_over(expiry, now):
            entities.append(self._errors.pop())
        # Where their timestamps agree, they go on in the order in which they came.
        entities.sort(key=lambda entity: entity.stamp)
        return entities

    def next_classes(self, count: int) -> list[NextClass]:
        """The classes of the next batches that `take_early` would give, while they are of one second."""
        window = self._first_window()
        return window.next_classes(count) if window else []

    def next_expiry(self) -> float | None:
        """The earliest moment at which `take_completed` has something; None: no pod backs off."""
        moments = [] if self._first_window() is None else [self._due[0]]
        errors = self._errors.first_expiry()
        if errors is not None:
            moments.append(errors)
        if not moments:
            return None
        return min(moments) + (1.0 if self._policy.pop_early else 0.0)

    def _first_window(self) -> ActiveQueue | None:
        """The refused pods of the earliest second that has any, in the order of batches; None: there are none."""
        while self._due:
            window = self._windows[self._due[0]]
            if window.size:
                return window
            del self._windows[heapq.heappop(self._due)]
        return None
