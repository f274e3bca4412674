"""The last events that the queue was notified of, to explain a pod that none of them woke.

Tests: tests/unit/queueing/test_missed_wake_ups.py.
"""

from collections import deque
from typing import Any, Final, NamedTuple

from trireme.framework.cluster_event import ClusterEvent

#: So many are remembered, some 200 bytes each.
LENGTH: Final = 2000


class RecentEvent(NamedTuple):
    """An event: when it was, its label, and the name of the object that changed (empty: it has none)."""

    at: float
    label: str
    object_name: str


class RecentEvents:
    """The last LENGTH events, whether a plugin has registered them or not. Times are those of the queue's clock."""

    __slots__ = ("_events",)

    def __init__(self) -> None:
        self._events: deque[RecentEvent] = deque(maxlen=LENGTH)

    def append(self, now: float, event: ClusterEvent, old: Any, new: Any) -> None:
        """Remember an event with its objects; one of them may be None."""
        self._events.append(RecentEvent(now, event.label, _name_of(old if new is None else new)))

    def since(self, moment: float) -> list[RecentEvent]:
        """The events from that moment on, as far as they are remembered, the oldest first."""
        found = []
        for each in reversed(self._events):
            if each.at < moment:
                break
            found.append(each)
        return found[::-1]


def _name_of(changed: Any) -> str:
    """The name of a pod (its key), of a remote plugin, or of an object, with its namespace if it has one."""
    if isinstance(changed, str):
        return changed
    if (key := getattr(changed, "key", None)) is not None:
        return str(key)
    metadata = getattr(changed, "metadata", None)
    return "" if metadata is None else "/".join(filter(None, (metadata.namespace, metadata.name)))
