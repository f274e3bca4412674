"""InFlightEvents: the cluster events while pods were being scheduled.

An attempt takes time, and the event that would have helped the pod may arrive during it. So from pop until done every
event of interest is recorded in one list, and a pod that comes back refused is evaluated by those since its own pop.
Pods that were popped together share an `EventCursor`; when the oldest cursor has no holder left, the events before the
next one go.

The list is bounded. A pod whose events had to be dropped is queued again as if one of them had helped it: an attempt in
vain is better than a pod that waits for an event that was dropped.
"""

from collections import Counter, deque
from typing import Any, NamedTuple

from trireme.framework.cluster_event import ClusterEvent
from trireme.queueing.event_audience import ALL_PODS, EventAudience

DEFAULT_LIMIT = 50_000


class InFlightEvent(NamedTuple):
    """An event with its objects (None: there was none), and whom it may help."""

    event: ClusterEvent
    old: Any
    new: Any
    audience: EventAudience = ALL_PODS


class EventCursor:
    """A position in the list that attempts still need.

    `decisions` is a cache of `InFlightEventEvaluator`: what the events since then mean for one kind of pod.
    """

    __slots__ = ("decisions", "holders", "start")

    def __init__(self, start: int, holders: int) -> None:
        self.start = start
        self.holders = holders
        self.decisions: dict[Any, Any] = {}


class InFlightEvents:
    """The events since the oldest attempt that is not done."""

    __slots__ = ("_base", "_cursors", "_events", "_limit", "dropped")

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._events: list[InFlightEvent] = []
        # Position of `_events[0]`; positions only grow.
        self._base = 0
        self._cursors: deque[EventCursor] = deque()
        self._limit = limit
        #: Events dropped because of the limit, since start.
        self.dropped = 0

    def __len__(self) -> int:
        return self.end - self._first_needed_position()

    @property
    def recording(self) -> bool:
        """Whether an attempt is under way, so that events are recorded."""
        return bool(self._cursors)

    @property
    def end(self) -> int:
        """The position of the next event."""
        return self._base + len(self._events)

    def open_cursor(self, holders: int) -> EventCursor:
        """Return a cursor for `holders` attempts that start now: the events from here on are kept for them."""
        end = self.end
        if self._cursors and self._cursors[-1].start == end:
            cursor = self._cursors[-1]
            cursor.holders += holders
        else:
            cursor = EventCursor(end, holders)
            self._cursors.append(cursor)
        return cursor

    def close_cursor(self, cursor: EventCursor) -> None:
        """One of the cursor's attempts needs the events no more; those that no cursor needs are dropped."""
        cursor.holders -= 1
        cursors = self._cursors
        while cursors and not cursors[0].holders:
            cursors.popleft()
        unneeded = self._first_needed_position() - self._base
        if 2 * unneeded > len(self._events):
            self._drop_oldest(unneeded)

    def append(self, event: InFlightEvent) -> None:
        """Records the event if an attempt is under way."""
        if not self._cursors:
            return
        self._events.append(event)
        if len(self._events) > self._limit:
            count = self._limit // 2
            self.dropped += count
            self._drop_oldest(count)

    def since(self, position: int) -> list[InFlightEvent] | None:
        """The events from `position` on; None: not all of them are known."""
        if position < self._base:
            return None
        return self._events[position - self._base :]

    def by_label(self) -> Counter[str]:
        """How many events of each kind are recorded."""
        return Counter(each.event.label for each in self._events[self._first_needed_position() - self._base :])

    def _first_needed_position(self) -> int:
        """The position of the first event that an attempt needs."""
        return max(self._base, self._cursors[0].start) if self._cursors else self.end

    def _drop_oldest(self, count: int) -> None:
        """Forget the `count` oldest events, needed or not; attempts that needed them count one as having helped."""
        del self._events[:count]
        self._base += count
