"""QueueContents: what is in the scheduling queue, for status, metrics and tests. It reads, and changes nothing.

Tests: tests/unit/queueing/test_queue_statistics.py, tests/unit/queueing/test_remote.py.
"""

import itertools
from collections.abc import Container, Iterable, Mapping, Sequence

from trireme.queueing.active import ActiveQueue
from trireme.queueing.backoff import BackoffQueue
from trireme.queueing.groups import group_statistics
from trireme.queueing.groups.queue_groups import QueueGroups
from trireme.queueing.groups.queued_group import pod_group_name
from trireme.queueing.hints.hint_evaluation import HintEvaluator
from trireme.queueing.in_flight_events import InFlightEvents
from trireme.queueing.queue_status import QueueStatistics, QueueStatus
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.queueing.remote_calls import RemoteCalls
from trireme.queueing.states import (
    Active,
    Destination,
    Gated,
    InFlight,
    PreEnqueueCall,
    PreEnqueuePending,
    Unschedulable,
)
from trireme.queueing.transition_log import Transition
from trireme.queueing.transitions import Transitions
from trireme.queueing.unschedulable import RefusalGroup, UnschedulablePods


class QueueContents:
    """The pods of the queue: those that wait, those in flight, and those that are done."""

    def __init__(
        self,
        transitions: Transitions,
        active: ActiveQueue,
        backoff: BackoffQueue,
        unschedulable: UnschedulablePods,
        in_flight_events: InFlightEvents,
        hints: HintEvaluator,
        *,
        calls: RemoteCalls,
        groups: QueueGroups | None,
    ) -> None:
        self._transitions = transitions
        self._active = active
        self._backoff = backoff
        self._unschedulable = unschedulable
        self._in_flight_events = in_flight_events
        self._hints = hints
        self._calls = calls
        self._groups = groups

    def get(self, key: str) -> QueuedPodInfo | None:
        """The waiting pod of that name; one in flight or done only if none waits."""
        transitions = self._transitions
        pod = transitions.queued.get(key)
        if pod is not None:
            return pod
        others = itertools.chain(transitions.in_flight.values(), transitions.done.values(), self._waiting_members())
        return next((pod for pod in others if pod.record.key == key), None)

    def with_uid(self, key: str, uid: str) -> QueuedPodInfo | None:
        """The pod of that name and UID; None: there is none."""
        transitions = self._transitions
        pod = transitions.queued.get(key)
        if pod is not None and pod.uid == uid:
            return pod
        group = None if self._groups is None else self._groups.group_of_member(uid)
        if group is not None:
            return group.members[uid]
        return transitions.in_flight.get(uid) or transitions.done.get(uid)

    def pods(self) -> list[QueuedPodInfo]:
        """All pods."""
        transitions = self._transitions
        popped = itertools.chain(transitions.in_flight.values(), transitions.done.values())
        return [*transitions.queued.values(), *popped, *self._waiting_members()]

    def waiting_pods(self) -> list[QueuedPodInfo]:
        """All pods that wait, in no particular order."""
        members = () if self._groups is None else self._groups.waiting_members()
        return [*self._transitions.queued.values(), *members]

    def in_flight_pods(self) -> list[QueuedPodInfo]:
        """All pods that are being scheduled."""
        in_flight = (pod for pod in self._waiting_members() if isinstance(pod.state, InFlight))
        return [*self._transitions.in_flight.values(), *in_flight]

    @property
    def stamp(self) -> int:
        """The stamp of the last transition: a pod with a later one has moved since."""
        return self._transitions.stamp

    def refused_groups(self) -> list[RefusalGroup]:
        """The groups of pods that plugins refused, and that no plugin gates; members of pod groups are in none."""
        return [group for group in self._unschedulable.groups() if not group.key.gated_by]

    def awaits_hint(self, pod: QueuedPodInfo) -> bool:
        """Whether a remote plugin has a call open about an event that may wake a pod of `refused_groups`."""
        group = pod.container
        return isinstance(group, RefusalGroup) and self._calls.awaits_hint(pod, group.key)

    def is_activated(self, key: str, uid: str) -> bool:
        """Whether the pod, or the group of that key, is tried next.

        It is in the active queue, enters it if remote PreEnqueue plugins let it in, or is being tried now and will be
        tried again whatever the result is.
        """
        pod = self.with_uid(key, uid)
        group = None if self._groups is None else self._groups.group_of_member(uid)
        if pod is None or group is not None:
            return self._groups is not None and self._groups.is_activated(key, uid)
        match pod.state:
            case PreEnqueuePending(PreEnqueueCall() as call):
                return call.destination is Destination.ACTIVE
            case InFlight():
                return pod.state.activated
            case _:
                return isinstance(pod.state, Active)

    def status_of(self, pod: QueuedPodInfo) -> QueueStatus:
        """Return the pod's state, what refused it, the events that may help it, and its group if it has one."""
        match pod.state:
            case Gated(plugin):
                events = self._hints.registrations.event_labels(pod.record.profile, (plugin,))
            case Unschedulable(refused_by):
                events = self._hints.registrations.event_labels(pod.record.profile, refused_by)
            case _:
                events = []
        rejectors = tuple(sorted(pod.rejectors))
        group = None if self._groups is None else self._groups.group_of_member(pod.record.uid)
        if group is None:
            return QueueStatus(pod.state, pod.timestamp, pod.attempts, rejectors, tuple(events))
        name = f"{group.namespace}/{pod_group_name(pod)}"
        return QueueStatus(pod.state, pod.timestamp, pod.attempts, rejectors, tuple(events), name, group.key)

    def transitions_of(self, key: str) -> list[Transition]:
        """The pod's last transitions, as far as they are remembered."""
        return self._transitions.log.of(key)

    def last_transitions(self, uids: Container[str], limit: int) -> Mapping[str, Sequence[Transition]]:
        """By UID the last transitions of each of these pods, see `TransitionLog.last_by_uid`."""
        return self._transitions.log.last_by_uid(uids, limit)

    def take_changed_pods(self) -> dict[str, str] | None:
        """UID to key of what changed since the last call, see `TransitionLog.take_changed_pods`."""
        return self._transitions.log.take_changed_pods()

    def ignore_changes(self) -> None:
        """Record no more what changes, until `take_changed_pods` is called again."""
        self._transitions.log.ignore_changes()

    def statistics(self) -> QueueStatistics:
        """Count the queue: pods by state, and what `Transitions`, hints and events in flight have counted.

        With groups, members count as pods, and a group that is queued as one does not
        (`group_statistics.by_pod`).
        """
        transitions = self._transitions
        whole = QueueStatistics(
            active=self._active.size,
            backoff=self._backoff.refused_count,
            error_backoff=self._backoff.error_count,
            unschedulable=self._unschedulable.refused,
            gated=self._unschedulable.gated,
            pre_enqueue_pending=self._calls.open_pre_enqueue,
            in_flight=len(transitions.in_flight),
            done=len(transitions.done),
            in_flight_events=self._in_flight_events.by_label(),
            dropped_events=self._in_flight_events.dropped,
            refusal_groups=self._unschedulable.group_count,
            open_hint_calls=self._calls.open_hints,
            scheduling_cycle=transitions.popped_pods,
            batches=transitions.popped_batches,
            incoming=dict(transitions.incoming),
            refused_by={key: count for key, count in transitions.refused_by.items() if count},
            hints=dict(self._hints.results),
        )
        return whole if self._groups is None else group_statistics.by_pod(whole, self._groups.registry)

    def _waiting_members(self) -> Iterable[QueuedPodInfo]:
        return () if self._groups is None else self._groups.members()
