"""What must hold of a queue whenever it hands something out: it agrees with the pods' states, and keeps their order.

The structures of the queue are compared with a plain list: of all pods that wait, by their states alone. What comes
next, how long a pod backs off, and what the statistics count follow from that list and from what was seen of each pod.
"""

from __future__ import annotations

import math
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from trireme.queueing import scheduling_queue, transitions
from trireme.queueing.groups.queue_groups import GroupAttemptResult, QueueGroups
from trireme.queueing.groups.queued_group import QueuedPodGroupInfo
from trireme.queueing.hints.hint_evaluation import Decision
from trireme.queueing.states import (
    Active,
    BackOff,
    Destination,
    Done,
    Gated,
    GroupInFlight,
    InFlight,
    PreEnqueuePending,
    Unschedulable,
    WaitingForGroup,
)


class _Seen(NamedTuple):
    """What was seen of a pod: its failures in a row by error, and by refusal, when it failed last, its attempts.

    `tried`: an attempt has begun, and did not fail so far.
    """

    pod: Any
    errors: int = 0
    refusals: int = 0
    at: float = 0.0
    attempts: int = 0
    tried: bool = False


class QueueChecks:
    """Observes the queues of all frontends. `violations` are in the order in which they happened."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        # By the transitions of a queue and the pod's UID.
        self._seen: weakref.WeakKeyDictionary[Any, dict[str, _Seen]] = weakref.WeakKeyDictionary()
        self._observe_pop()
        self._observe_failures()
        self._observe_back_off()
        self._observe_groups()

    def _observe_pop(self) -> None:
        owner: Any = scheduling_queue.SchedulingQueue
        pop = owner.pop

        def observed(queue: Any, now: float, max_batch: int) -> Any:
            if self.violations:
                return pop(queue, now, max_batch)  # the run is over, but for pods that are popped without end
            waiting = waiting_entities(queue)
            found = [*self._differences(queue, waiting)]
            ready = ready_entities(waiting, queue._transitions.policy)
            batch = pop(queue, now, max_batch)
            group = getattr(batch, "group", None)
            popped = [] if batch is None else batch.pods if group is None else [group]
            found += order(popped, ready, max_batch)
            for pod in popped if group is None else [group.members[uid] for uid in group.attempt]:
                seen = self._of(queue._transitions, pod)
                self._seen[queue._transitions][pod.uid] = seen._replace(attempts=seen.attempts + 1, tried=True)
                if seen.tried:
                    found.append(f"pod {pod.key} is tried again, and no attempt has failed since")
            self.violations += [f"at a pop of the queue: {text}" for text in found]
            return batch

        owner.pop = observed

    def _observe_failures(self) -> None:
        owner: Any = transitions.Transitions
        record_failure = owner.record_failure

        def observed(moved: Any, pod: Any, latest: Any, now: float, rejectors: Any, pending: Any, *more: Any) -> None:
            seen = self._of(moved, pod)
            record_failure(moved, pod, latest, now, rejectors, pending, *more)
            refused = bool(rejectors or pending)
            self._seen[moved][pod.uid] = seen._replace(
                errors=0 if refused else seen.errors + 1, refusals=seen.refusals + refused, at=now, tried=False
            )

        owner.record_failure = observed

    def _observe_back_off(self) -> None:
        """Who is to enter the active queue after a failure does so once its back-off is over, not before."""
        owner: Any = transitions.Transitions
        requeue, admit = owner.requeue, owner.admit

        def requeued(moved: Any, pod: Any, decision: Decision, label: str, now: float, **named: Any) -> None:
            requeue(moved, pod, decision, label, now, **named)
            if decision is Decision.AFTER_BACKOFF:
                self._check_back_off(moved, pod, now)

        def admitted(moved: Any, entity: Any, key: Any, destination: Any, label: str, now: float) -> None:
            admit(moved, entity, key, destination, label, now)
            if destination is Destination.BACKOFF and not isinstance(entity, QueuedPodGroupInfo):
                self._check_back_off(moved, entity, now)

        owner.requeue, owner.admit = requeued, admitted

    def _check_back_off(self, moved: Any, pod: Any, now: float) -> None:
        end = end_of_back_off(self._of(moved, pod), moved.policy)
        wanted = BackOff if end > 0 and end >= _window(now, moved.policy) else Active
        if isinstance(pod.state, (Active, BackOff)) and not isinstance(pod.state, wanted):
            self.violations.append(f"pod {pod.key} is {pod.state} at {now}, its back-off ends at {end}")

    def _observe_groups(self) -> None:
        """A group backs off after each attempt that did not schedule it, the longer the more often that was."""
        owner: Any = QueueGroups
        finish_attempt = owner.finish_attempt

        def observed(of_queue: Any, group: Any, how: GroupAttemptResult, now: float) -> Any:
            errors, refusals = group.consecutive_errors, group.unschedulable_count
            instructions = finish_attempt(of_queue, group, how, now)
            policy, state = of_queue._transitions.policy, group.state
            failures = errors + 1 if how is GroupAttemptResult.ERROR else refusals + 1
            end = 0.0
            if how is not GroupAttemptResult.SCHEDULED and policy.maximum:
                longest = policy.maximum * math.sqrt(max(len(group.waiting), 1))
                end = _window(now + min(longest, policy.initial * 2 ** min(failures - 1, 60)), policy)
            known = state.until if isinstance(state, BackOff) else 0.0 if isinstance(state, Active) else end
            if known != end and not (end < _window(now, policy) and not known):
                self.violations.append(f"{group.key}, {how.value} at {now}, is {state}, its back-off ends at {end}")
            return instructions

        owner.finish_attempt = observed

    def _of(self, moved: Any, pod: Any) -> _Seen:
        of_queue = self._seen.setdefault(moved, {})
        seen = of_queue.get(pod.uid)
        if seen is None or seen.pod is not pod:
            seen = of_queue[pod.uid] = _Seen(pod)
        return seen

    def _differences(self, queue: Any, waiting: Sequence[Any]) -> Iterator[str]:
        yield from structures(queue, waiting)
        yield from statistics(queue)
        yield from groups(queue)
        moved = queue._transitions
        for pod in moved.queued.values():
            seen = self._of(moved, pod)
            known = (pod.consecutive_errors, pod.unschedulable_count, pod.attempts)
            if known != (seen.errors, seen.refusals, seen.attempts):
                yield f"pod {pod.key} has failed by error, been refused and tried {known} times, not {seen[1:5]}"
            if isinstance(pod.state, BackOff) and seen.at and pod.state.until != end_of_back_off(seen, moved.policy):
                yield f"pod {pod.key} backs off until {pod.state.until}, not {end_of_back_off(seen, moved.policy)}"


def waiting_entities(queue: Any) -> list[Any]:
    """The pods and groups that wait, each queued by itself."""
    queued = list(queue._transitions.queued.values())
    known = () if queue.groups is None else queue.groups.registry
    return [*queued, *(group for group in known if group.queued and group.attempt is None)]


def ready_entities(waiting: Iterable[Any], policy: Any) -> list[Any]:
    """Those that are to be tried now: the active ones; if there are none, refused pods of the earliest back-off."""
    waiting = list(waiting)
    active = [each for each in waiting if isinstance(each.state, Active)]
    if active or not policy.pop_early:
        return active
    refused = [each for each in waiting if isinstance(each.state, BackOff) and each.rejectors]
    first = min((each.state.until for each in refused), default=0.0)
    return [each for each in refused if each.state.until == first]


def order(popped: Sequence[Any], ready: Sequence[Any], most: int) -> Iterator[str]:
    """How what is popped differs from what is first among what is ready: of one class, as many as may go together."""
    if not popped or not ready:
        if popped or ready:
            yield f"{[each.key for each in popped]} are popped of {[each.key for each in ready]}"
        return
    first = popped[0]
    level = min(each.record.level for each in ready)
    if first.record.level != level:
        yield f"{first.key} is popped with priority {first.record.level}, and {level} is ready"
        return
    alike = [each for each in ready if each.record.level == level and _batch_key(each) == _batch_key(first)]
    alike.sort(key=lambda each: (each.record.rest, each.timestamp, _stamp(each)))
    together = 1
    while together < min(len(alike), most) and not first.record.exclusive:
        record = alike[together].record
        if record.exclusive or record.nominated != alike[0].record.nominated:
            break
        together += 1
    if [each.key for each in popped] != [each.key for each in alike[:together]]:
        yield f"{[each.key for each in popped]} are popped, not {[each.key for each in alike[:together]]}"


def _batch_key(entity: Any) -> Any:
    return entity.group_key if isinstance(entity, QueuedPodGroupInfo) else entity.record.class_id


def _stamp(entity: Any) -> int:
    return int(entity.stamp)


def structures(queue: Any, waiting: Sequence[Any]) -> Iterator[str]:
    """How the structures of the queue differ from the states of what waits."""
    refused = (Unschedulable, Gated)
    for what, structure, states in (
        ("active", queue._active, Active),
        ("back-off", queue._backoff, BackOff),
        ("refused", queue._unschedulable, refused),
    ):
        there = {each.key for each in structure}
        pods_only = structure is queue._unschedulable
        expected = {
            each.key
            for each in waiting
            if isinstance(each.state, states) and not (pods_only and isinstance(each, QueuedPodGroupInfo))
        }
        if there != expected:
            yield f"{what} are {sorted(there - expected)[:3]} by mistake, {sorted(expected - there)[:3]} are not"
    for group in queue._unschedulable.groups():
        for pod in group.pods.values():
            key = (pod.record.class_id, pod.rejectors, pod.pending_plugins, pod.gated_by, pod.record.nominated_node)
            if tuple(group.key) != key:
                yield f"pod {pod.key} waits with those of {tuple(group.key)}, and is of {key}"


def statistics(queue: Any) -> Iterator[str]:
    """How the queue's statistics differ from its pods, counted one by one."""
    counted, members = queue.statistics(), [] if queue.groups is None else list(queue.groups.members())
    pods = [*queue._transitions.queued.values(), *members]
    states = Counter(type(pod.state) for pod in pods)
    expected = {
        "active": states[Active],
        "unschedulable": states[Unschedulable],
        "gated": states[Gated],
        "pre_enqueue_pending": states[PreEnqueuePending],
        "in_flight": states[InFlight] + len(queue._transitions.in_flight),
        "done": states[Done] + len(queue._transitions.done),
        "waiting_for_group": states[WaitingForGroup],
        "group_in_flight": states[GroupInFlight],
    }
    for name, count in expected.items():
        if getattr(counted, name) != count:
            yield f"the statistics count {getattr(counted, name)} pods as {name}, there are {count}"
    if counted.backoff + counted.error_backoff != states[BackOff]:
        yield f"the statistics count {counted.backoff} and {counted.error_backoff} in back-off of {states[BackOff]}"
    refused = Counter(
        (pod.record.profile, plugin)
        for pod in pods
        if not isinstance(pod.state, (InFlight, Done))
        for plugin in pod.rejectors
    )
    if counted.refused_by != dict(refused):
        yield f"by plugin {dict(counted.refused_by)} are refused, there are {dict(refused)}"


def groups(queue: Any) -> Iterator[str]:
    """Members of groups that are in no place, or in several, or in another state than their group."""
    for group in () if queue.groups is None else queue.groups.registry:
        tried = {uid for uid, pod in group.members.items() if isinstance(pod.state, (InFlight, Done))}
        places = [*group.waiting, *group.pending, *tried]
        if sorted(places) != sorted(group.members):
            yield f"{group.key}: members {sorted(group.members)} are in {sorted(places)}"
        for pod in group.waiting.values():
            wanted = WaitingForGroup if group.tree is None else type(group.state)
            if type(pod.state) is not wanted:
                yield f"{group.key}, which is {group.state}, has {pod.key} wait in {pod.state}"
        names = [pod.record.pod.parsed.group for pod in group.members.values()]
        if group.known != Counter([*names, *group.placed.values()]):
            yield f"{group.key} counts {dict(group.known)}, and has {Counter([*names, *group.placed.values()])}"


def end_of_back_off(seen: _Seen, policy: Any) -> float:
    """Until when a pod backs off that has failed so; 0: it does not."""
    failures = seen.errors or seen.refusals
    if not failures or not policy.maximum:
        return 0.0
    return _window(seen.at + min(policy.maximum, policy.initial * 2 ** min(failures - 1, 60)), policy)


def _window(moment: float, policy: Any) -> float:
    return float(math.floor(moment)) if policy.pop_early else moment
