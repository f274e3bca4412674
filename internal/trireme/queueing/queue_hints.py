"""Queueing hints: which events may help a refused pod, as the plugins that refused it have registered.

A plugin registers events and, for each, either nothing (every such event helps), a function, or that it is remote and
has to be called. `HintTable` finds the registrations that an event matches, and caches them for each kind of event;
`evaluate_hints` calls them with one pod for all pods of its class that the same plugins refused.

A hint that fails counts as QUEUE, because a pod that sleeps through the event that would have helped it sleeps long.
Where a plugin returned Pending, its QUEUE takes the pod to the active queue without back-off; so those are called
first.
"""

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from trireme.framework import cluster_event
from trireme.framework.cluster_event import ClusterEvent
from trireme.queueing.queued_pod import QueuedPodInfo


class Hint(enum.Enum):
    """What an event means for a pod; the values are the metric's."""

    QUEUE = "Queue"
    SKIP = "QueueSkip"
    #: The hint failed; the pod is queued.
    ERROR = "Error"


class Decision(enum.IntEnum):
    """What becomes of a pod; the greater wins."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


# Evaluates all the pods at once: (event, old object, new object, pods) -> one hint for each pod.
HintFunction = Callable[[ClusterEvent, Any, Any, Sequence[QueuedPodInfo]], Sequence[Hint]]
# Evaluates one pod: (pod, event, old object, new object).
OneHint = Callable[[QueuedPodInfo, ClusterEvent, Any, Any], Hint]


@dataclass(frozen=True, slots=True)
class Registration:
    """An event that a plugin registered. Without `hint` and not `remote`: every such event helps."""

    plugin: str
    event: ClusterEvent
    hint: HintFunction | None = None
    remote: bool = False


class RemoteHint(NamedTuple):
    """A remote plugin has to be called for some of the pods: indexes into those evaluated."""

    registration: Registration
    indexes: tuple[int, ...]


class HintTable:
    """The registrations of all profiles, and how often hints returned what."""

    def __init__(self, profiles: Mapping[str, Iterable[Registration]]) -> None:
        self._profiles = _unrolled(profiles)
        # Bounded by the kinds of event that exist.
        self._matching: dict[ClusterEvent, dict[str, tuple[Registration, ...]]] = {}
        #: (plugin, event label, Queue | QueueSkip | Error) -> pods evaluated. Remote answers are not among them.
        self.results: Counter[tuple[str, str, str]] = Counter()

    def replace(self, profiles: Mapping[str, Iterable[Registration]]) -> None:
        """These are the registrations from now on."""
        self._profiles = _unrolled(profiles)
        self._matching.clear()

    def matching(self, event: ClusterEvent) -> Mapping[str, tuple[Registration, ...]]:
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

    def knows(self, profile: str) -> bool:
        """The profile has a table, be it empty."""
        return profile in self._profiles

    def interests(self, plugin: str, event: ClusterEvent) -> bool:
        """The plugin registered this event in any profile."""
        return any(r.plugin == plugin for registrations in self.matching(event).values() for r in registrations)

    def registered(self, profile: str, plugins: Iterable[str]) -> list[str]:
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

    def evaluate_hints(
        self,
        profile: str,
        event: ClusterEvent,
        old: Any,
        new: Any,
        pods: Sequence[QueuedPodInfo],
    ) -> tuple[list[Decision], list[RemoteHint]]:
        """What the event means for each pod by local hints, and which remote ones have to be called."""
        decisions = [Decision.SKIP] * len(pods)
        remote: list[RemoteHint] = []
        registrations = self.matching(event).get(profile, ())
        for decision in (Decision.IMMEDIATELY, Decision.AFTER_BACKOFF):
            for registration in registrations:
                plugin = registration.plugin
                indexes = tuple(
                    index
                    for index, pod in enumerate(pods)
                    if decisions[index] < decision
                    and (
                        plugin in pod.pending_plugins
                        if decision is Decision.IMMEDIATELY
                        else plugin in pod.rejectors and plugin not in pod.pending_plugins
                    )
                )
                if not indexes:
                    continue
                if registration.remote:
                    remote.append(RemoteHint(registration, indexes))
                    continue
                for index, hint in zip(indexes, self._call(registration, event, old, new, pods, indexes), strict=True):
                    if hint is not Hint.SKIP:
                        decisions[index] = decision
        return decisions, _undecided(remote, decisions)

    def _call(
        self,
        registration: Registration,
        event: ClusterEvent,
        old: Any,
        new: Any,
        pods: Sequence[QueuedPodInfo],
        indexes: tuple[int, ...],
    ) -> Sequence[Hint]:
        hints: Sequence[Hint] = [Hint.QUEUE] * len(indexes)
        if registration.hint is not None:
            try:
                hints = registration.hint(event, old, new, [pods[index] for index in indexes])
                if len(hints) != len(indexes):
                    raise ValueError(f"{len(hints)} hints for {len(indexes)} pods")
            except Exception:
                # Whatever is wrong with a plugin must not put its pods to sleep; the metric shows it.
                hints = [Hint.ERROR] * len(indexes)
        for hint in Hint:
            count = hints.count(hint)
            if count:
                self.results[registration.plugin, event.label, hint.value] += count
        return hints


def _unrolled(profiles: Mapping[str, Iterable[Registration]]) -> dict[str, tuple[Registration, ...]]:
    return {
        profile: tuple(
            Registration(registration.plugin, event, registration.hint, registration.remote)
            for registration in registrations
            for event in registration.event.unrolled()
        )
        for profile, registrations in profiles.items()
    }


def one_by_one(hint: OneHint) -> HintFunction:
    """A function of one pod as one of many. It may raise for one pod without an effect on the others."""

    def hint_all(event: ClusterEvent, old: Any, new: Any, pods: Sequence[QueuedPodInfo]) -> Sequence[Hint]:
        return [_hint_one(hint, pod, event, old, new) for pod in pods]

    return hint_all


def _hint_one(hint: OneHint, pod: QueuedPodInfo, event: ClusterEvent, old: Any, new: Any) -> Hint:
    try:
        return hint(pod, event, old, new)
    except Exception:
        return Hint.ERROR


def _undecided(remote: list[RemoteHint], decisions: list[Decision]) -> list[RemoteHint]:
    """The remote hints of pods that nothing has decided yet. A pod that moves already needs none."""
    found = []
    for registration, indexes in remote:
        undecided = tuple(index for index in indexes if decisions[index] is Decision.SKIP)
        if undecided:
            found.append(RemoteHint(registration, undecided))
    return found
