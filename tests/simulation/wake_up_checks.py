"""What wakes pods: an event does, and not the flush, which tries every five minutes what all events have left behind.

A wake-up that is lost shows here alone. The flush makes up for it, so the pod has its node in the end, only late.
"""

from __future__ import annotations

import collections
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.simulation.observed_calls import observe
from trireme.framework.cluster_event import ClusterEvent
from trireme.queueing import scheduling_queue
from trireme.queueing.groups import queue_groups
from trireme.scheduling import assumed_pod, binding_cycle

# How many of a queue's last events are known, and how many of those a violation shows.
_KNOWN_EVENTS, _SHOWN_EVENTS = 2000, 12
# A known defect: seed 7 has a group whose preemption has ended, and which only the flush lets go (docs/reliability.md).
_LATE_GATES = {"DefaultPreemption"}


class _Event(NamedTuple):
    """`at` by the clock of the queue that got it. `name` is that of its object."""

    at: float
    event: ClusterEvent
    name: str

    def __str__(self) -> str:
        return f"{self.event.label} {self.name}".rstrip()


class WakeUpChecks:
    """Observes the queues of all frontends. `violations` are in the order in which they happened."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self._events: weakref.WeakKeyDictionary[Any, collections.deque[_Event]] = weakref.WeakKeyDictionary()
        observe(scheduling_queue.SchedulingQueue, "on_event", self._on_event)
        observe(binding_cycle.BindingCycle, "start", self._on_binding)
        self._observe_groups()

    def _on_event(self, queue: Any, event: ClusterEvent, old: Any, new: Any, now: float, *_: Any, **__: Any) -> None:
        known = self._events.setdefault(queue, collections.deque(maxlen=_KNOWN_EVENTS))
        known.append(_Event(now, event, _name_of(new if new is not None else old)))

    def _on_binding(self, binding: Any, cycle: Any, pods: Sequence[assumed_pod.AssumedPod], waits: Any = None) -> None:
        """No pod has a node by an attempt that only the flush has caused."""
        for pod in (each.pod for each in pods if each.pod.flushed):
            # What happens between the flush and the attempt would have woken it.
            woken = (
                pod.flushed_at < each.at <= pod.popped_at and self._concerns(binding._queue, pod.rejectors, each)
                for each in self._events.get(binding._queue, ())
            )
            if any(woken):
                continue
            since = [each for each in self._events.get(binding._queue, ()) if each.at >= pod.timestamp]
            self.violations.append(
                f"pod {pod.key} is placed by an attempt that only the flush has caused: "
                f"{' and '.join(sorted(pod.rejectors)) or 'an error'} refused it {pod.popped_at - pod.timestamp:.0f} s "
                f"before, {_text(since)}"
            )

    def _concerns(self, queue: Any, plugins: frozenset[str], happened: _Event) -> bool:
        """Whether one of the plugins has registered the event."""
        registrations = queue._hints.registrations
        return any(registrations.has_registered(plugin, happened.event) for plugin in plugins)

    # Groups

    def _observe_groups(self) -> None:
        """The flush, which looks at each group that is held back, never finds one that nothing holds back any more."""
        original = queue_groups.QueueGroups.flush_unschedulable

        def flush(groups: queue_groups.QueueGroups, now: float) -> None:
            held = {group: group.gated_by for group in groups.registry if group.gated_by}
            original(groups, now)
            self.violations.extend(
                f"{group.group_key}, which {plugin} held back, was let go only by the flush"
                for group, plugin in held.items()
                if group.queued and not group.gated_by and plugin not in _LATE_GATES
            )

        queue_groups.QueueGroups.flush_unschedulable = flush  # type: ignore[method-assign]


def _name_of(found: Any) -> str:
    """The name of the object of an event, as far as that is known."""
    if isinstance(found, dict):
        return str(found.get("metadata", {}).get("name", ""))
    return str(getattr(found, "name", ""))


def _text(events: Sequence[_Event]) -> str:
    """The number of each kind of event, and the last ones."""
    if not events:
        return "and there was no event since"
    counts = collections.Counter(each.event.label for each in events)
    last = ", ".join(map(str, events[-_SHOWN_EVENTS:]))
    return f"since then were {', '.join(f'{count} {label}' for label, count in counts.items())}, the last: {last}"
