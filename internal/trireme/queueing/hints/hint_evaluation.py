"""Evaluates queueing hints: what an event means for pods that plugins refused.

The hints that match the event are called with one pod for all pods of its class that the same plugins refused.

A hint that fails counts as ERROR, which wakes as QUEUE does, because a pod that sleeps through the event that would
have helped it sleeps long. Where a plugin returned Pending, its QUEUE takes the pod to the active queue without
back-off; so those are called first.

Who calls this, and what follows: docs/requeueing.md, "The way of an event".

Source: isPodWorthRequeuing in pkg/scheduler/backend/queue/scheduling_queue.go.
"""

import enum
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from trireme.framework.cluster_event import ClusterEvent
from trireme.queueing.hints.queueing_hint_map import EventRegistration, HintAnswer, QueueingHintMap
from trireme.queueing.queued_pod import QueuedPodInfo


class Decision(enum.IntEnum):
    """What becomes of a pod; the greater wins."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


class RemoteHint(NamedTuple):
    """A remote plugin has to be called for some of the pods: indexes into those evaluated."""

    registration: EventRegistration
    indexes: tuple[int, ...]


class HintEvaluator:
    """Evaluates the hints of these registrations, and counts what they returned."""

    def __init__(self, registrations: QueueingHintMap) -> None:
        self.registrations = registrations
        #: (plugin, event label, Queue | QueueSkip | Error) -> local hints: pods evaluated; one may stand for a
        #: group of refused pods; remote hints: answers.
        self.results: Counter[tuple[str, str, str]] = Counter()

    def evaluate(
        self,
        profile: str,
        event: ClusterEvent,
        old: Any,
        new: Any,
        pods: Sequence[QueuedPodInfo],
    ) -> tuple[list[Decision], list[RemoteHint]]:
        """What the event means for each pod by local hints, and which remote ones have to be called.

        Hints that take a pod to the active queue are called first; once a pod moves, no more hints are called for it.
        """
        decisions = [Decision.SKIP] * len(pods)
        remote: list[RemoteHint] = []
        registrations = self.registrations.matching_by_profile(event).get(profile, ())
        for decision in (Decision.IMMEDIATELY, Decision.AFTER_BACKOFF):
            for registration in registrations:
                indexes = tuple(
                    index
                    for index, pod in enumerate(pods)
                    if decisions[index] < decision and _decision_if_helped(pod, registration.plugin) is decision
                )
                if not indexes:
                    continue
                if registration.remote:
                    remote.append(RemoteHint(registration, indexes))
                    continue
                hints = self._call_hint(registration, event, old, new, [pods[index] for index in indexes])
                for index, hint in zip(indexes, hints, strict=True):
                    if hint is not HintAnswer.SKIP:
                        decisions[index] = decision
        return decisions, _remote_hints_still_needed(remote, decisions)

    def _call_hint(
        self, registration: EventRegistration, event: ClusterEvent, old: Any, new: Any, pods: list[QueuedPodInfo]
    ) -> Sequence[HintAnswer]:
        """Call a plugin's hint for these pods, and count what it returned, for the metric.

        Each of the pods may stand for a group of pods of its class that the same plugins refused. Without a function
        every event helps. A hint that raises, or returns too few or too many answers, counts as ERROR for all: that
        wakes the pods, so that a defect of a plugin cannot strand them.
        """
        hints: Sequence[HintAnswer] = [HintAnswer.QUEUE] * len(pods)
        if registration.hint is not None:
            try:
                hints = registration.hint(event, old, new, pods)
                if len(hints) != len(pods):
                    raise ValueError(f"{len(hints)} hints for {len(pods)} pods")
            except Exception:
                # Whatever is wrong with a plugin must not put its pods to sleep; the metric shows it.
                hints = [HintAnswer.ERROR] * len(pods)
        for hint in HintAnswer:
            count = hints.count(hint)
            if count:
                self.results[registration.plugin, event.label, hint.value] += count
        return hints


def _decision_if_helped(pod: QueuedPodInfo, plugin: str) -> Decision:
    """What becomes of the pod if an event helps with the plugin: nothing if that plugin did not refuse it."""
    if plugin in pod.pending_plugins:
        return Decision.IMMEDIATELY
    return Decision.AFTER_BACKOFF if plugin in pod.rejectors else Decision.SKIP


def _remote_hints_still_needed(remote: list[RemoteHint], decisions: list[Decision]) -> list[RemoteHint]:
    """The remote hints of pods that nothing has decided yet. A pod that moves already needs none."""
    found = []
    for registration, indexes in remote:
        undecided = tuple(index for index in indexes if decisions[index] is Decision.SKIP)
        if undecided:
            found.append(RemoteHint(registration, undecided))
    return found
