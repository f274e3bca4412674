"""Maps cluster events to the hints that plugins have registered for them.

Source: buildQueueingHintMap in pkg/scheduler/scheduler.go.

Tests: tests/unit/queueing/test_hint_evaluation.py, tests/unit/queueing/test_scheduling_queue.py,
tests/unit/queueing/test_state_machine.py.
"""

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trireme.framework import cluster_event
from trireme.framework.cluster_event import ClusterEvent
from trireme.queueing.queued_pod import QueuedPodInfo


class HintAnswer(enum.Enum):
    """What an event means for a pod; the values are the metric's."""

    QUEUE = "Queue"
    SKIP = "QueueSkip"
    #: The hint failed; the pod is queued.
    ERROR = "Error"


# Evaluates all the pods at once: (event, old object, new object, pods) -> one hint for each pod.
# Implementers: trireme.queueing.hints.registrations._hint_by_class,
# trireme.frontend.scheduler_metrics.SchedulerMetrics._with_timing_of_hint.
HintFunction = Callable[[ClusterEvent, Any, Any, Sequence[QueuedPodInfo]], Sequence[HintAnswer]]


@dataclass(frozen=True, slots=True)
class EventRegistration:
    """An event that a plugin registered. Without `hint` and not `remote`: every such event helps."""

    plugin: str
    event: ClusterEvent
    hint: HintFunction | None = None
    remote: bool = False


class QueueingHintMap:
    """The registrations of all profiles, by event and plugin."""

    def __init__(self, profiles: Mapping[str, Iterable[EventRegistration]]) -> None:
        self._profiles = _with_pod_events_unrolled(profiles)
        # Bounded by the kinds of event that exist.
        self._matching: dict[ClusterEvent, dict[str, tuple[EventRegistration, ...]]] = {}

    def replace(self, profiles: Mapping[str, Iterable[EventRegistration]]) -> None:
        """These are the registrations from now on."""
        self._profiles = _with_pod_events_unrolled(profiles)
        self._matching.clear()

    def matching_by_profile(self, event: ClusterEvent) -> Mapping[str, tuple[EventRegistration, ...]]:
        """The registrations that match the event, by profile; profiles without any are left out."""
        found = self._matching.get(event)
        if found is None:
            found = {}
            for profile, registrations in self._profiles.items():
                matched = tuple(r for r in registrations if r.event.matches(event))
                if matched:
                    found[profile] = matched
            self._matching[event] = found
        return found

    def has_profile(self, profile: str) -> bool:
        """Whether there is such a profile, even if its plugins register no event."""
        return profile in self._profiles

    def has_registered(self, plugin: str, event: ClusterEvent) -> bool:
        """Whether the plugin registered this event in any profile."""
        return any(
            r.plugin == plugin for registrations in self.matching_by_profile(event).values() for r in registrations
        )

    def event_labels(self, profile: str, plugins: Iterable[str]) -> list[str]:
        """The labels of all events that may wake a pod refused by these plugins; `*…` stands for any resource."""
        names = set(plugins)
        return sorted(
            {
                f"{registration.event.resource}{action}"
                for registration in self._profiles.get(profile, ())
                if registration.plugin in names
                for action in cluster_event.action_names(registration.event.action)
            }
        )


def _with_pod_events_unrolled(
    profiles: Mapping[str, Iterable[EventRegistration]],
) -> dict[str, tuple[EventRegistration, ...]]:
    """The registrations; one for the resource Pod becomes one for each kind of pod event."""
    return {
        profile: tuple(
            EventRegistration(registration.plugin, event, registration.hint, registration.remote)
            for registration in registrations
            for event in registration.event.unrolled()
        )
        for profile, registrations in profiles.items()
    }
