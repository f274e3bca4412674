"""What wakes pods: an event does, and neither the flush nor the check of missed wake-ups, which make up for lost ones.

A wake-up that is lost shows here alone: the pod has its node in the end, only late.
"""

from __future__ import annotations

import asyncio
import collections
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.simulation import simulated_process
from tests.simulation.observed_calls import observe
from tests.simulation.simulated_process import Process, State
from trireme.framework.cluster_event import ClusterEvent
from trireme.frontend import app, wake_up_check
from trireme.queueing import scheduling_queue
from trireme.queueing.groups import queue_groups
from trireme.scheduling import assumed_pod, binding_cycle

# How many of a queue's last events are known, and how many of those a violation shows.
_KNOWN_EVENTS, _SHOWN_EVENTS = 2000, 12
# As many pods as there are may be checked.
_CPU_SECONDS = 60.0


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
        observe(wake_up_check.WakeUpCheck, "_remember", self._on_missed)
        self._checks: dict[str, tuple[Process, app.App]] = {}
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

    # The product's own check

    def add(self, built: app.App) -> None:
        """A frontend was assembled."""
        process = simulated_process.current()
        assert process is not None
        self._checks[process.name] = (process, built)

    async def check(self) -> list[str]:
        """Have the leader check all waiting pods; what is found is a violation. Returns why it has not checked all."""
        found = []
        for process, built in self._checks.values():
            if process.state is State.RUNNING and built.context.leader.leading and built.wake_up_check is not None:
                work = built.wake_up_check.check(_CPU_SECONDS)
                await asyncio.get_running_loop().create_task(work, context=process.context.copy())
                status = built.wake_up_check.status()
                if status.problem or status.checked_groups < status.groups:
                    found.append(f"{status.checked_groups} of {status.groups} groups were checked: {status.problem}")
        return found

    def _on_missed(self, check: Any, pod: Any, count: int, fitting: Any) -> None:
        """No pod that fits waits for an event."""
        since = [each for each in self._events.get(check._queue, ()) if each.at >= pod.timestamp]
        self.violations.append(
            f"pod {pod.key} is a missed wake-up: {' and '.join(sorted(pod.rejectors))} refused it "
            f"{check._now() - pod.timestamp:.0f} s before, it fits on {fitting.node_name}, {_text(since)}"
        )

    # Groups

    def _observe_groups(self) -> None:
        """The flush, which looks at each group that is held back, never finds one that nothing holds back any more."""
        original = queue_groups.QueueGroups.flush_unschedulable

        def flush(groups: queue_groups.QueueGroups, before: float, now: float) -> None:
            held = {group: group.gated_by for group in groups.registry if group.gated_by}
            original(groups, before, now)
            self.violations.extend(
                f"{group.group_key}, which {plugin} held back, was let go only by the flush"
                for group, plugin in held.items()
                if group.queued and not group.gated_by
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
