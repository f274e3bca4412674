"""PreEnqueueAnswers: what the answers of remote PreEnqueue plugins do to the pods that they are about.

A pod for which plugins are called is `PreEnqueuePending`. An answer lets it enter the queue that it was on the way to,
or gates it. One that is refused while an event happened that may help it is called for again.

Tests: tests/unit/queueing/test_remote.py, tests/unit/queueing/test_group_queue.py.
"""

from trireme.framework.cluster_event import ClusterEvent
from trireme.queueing.groups.queue_groups import QueueGroups
from trireme.queueing.in_flight_event_evaluator import InFlightEventEvaluator
from trireme.queueing.in_flight_events import InFlightEvents
from trireme.queueing.remote_calls import RemoteCalls
from trireme.queueing.states import Active, BackOff, Destination, PreEnqueueCall, PreEnqueuePending
from trireme.queueing.transitions import Transitions


class PreEnqueueAnswers:
    """The part of the queue that takes these answers; see the methods of `SchedulingQueue` of the same names."""

    def __init__(
        self,
        transitions: Transitions,
        in_flight_events: InFlightEvents,
        evaluator: InFlightEventEvaluator,
        calls: RemoteCalls,
        groups: QueueGroups | None,
    ) -> None:
        self._transitions = transitions
        self._in_flight_events = in_flight_events
        self._evaluator = evaluator
        self._calls = calls
        self._groups = groups

    def repeat_call(self, call_id: int) -> bool:
        """A failed call is made again now: its answer takes all events until now into account.

        False: the answer is not used any more, so the caller need not call.
        """
        pod, groups = self._calls.pod_of_pre_enqueue_call(call_id), self._groups
        if pod is not None and groups is not None and (group := groups.group_of_member(pod.uid)) is not None:
            groups.repeat_pre_enqueue(group, pod.uid)
            return True
        if pod is None:
            return False
        assert isinstance(pod.state, PreEnqueuePending)
        assert pod.state.call is not None  # only members of groups have their calls elsewhere
        self._in_flight_events.close_cursor(pod.state.call.cursor)
        self._transitions.replace_pre_enqueue_call(
            pod, pod.state.call._replace(cursor=self._in_flight_events.open_cursor(1))
        )
        return True

    def apply_answer(self, call_id: int, gated_by: str, now: float, reason: str) -> None:
        """Apply the answer to a call: its pod enters the queue (`gated_by` empty), or this plugin gates it.

        Answers to calls that are not open any more are ignored. If an event that may help came during the call, the
        plugins are called again instead. `reason` is the plugin's text.
        """
        pod, groups = self._calls.pod_of_pre_enqueue_call(call_id), self._groups
        if pod is not None and groups is not None and (group := groups.group_of_member(pod.uid)) is not None:
            groups.apply_pre_enqueue_answer(group, pod, gated_by, now, reason)
            return
        if pod is None:
            return
        assert isinstance(pod.state, PreEnqueuePending)
        assert pod.state.call is not None  # only members of groups have their calls elsewhere
        call, transitions = pod.state.call, self._transitions
        if not gated_by:
            transitions.close_pre_enqueue_call(call)
            transitions.admit(pod, pod.record.class_id, call.destination, call.label, now)
            return
        transitions.add_rejector(pod, gated_by)
        call_again = self._evaluator.event_may_help(pod, gated_by, call.cursor)
        transitions.close_pre_enqueue_call(call)
        if call_again:
            transitions.call_pre_enqueue(pod, call.destination, call.label, now)
        else:
            transitions.gate(pod, gated_by, call.label, now, reason=reason)

    def recheck_profile(self, profile: str, event: ClusterEvent, now: float) -> None:
        """Have all pods of the profile that passed PreEnqueue, or for which it is called, pass it again.

        Pods that are gated, refused or in flight are left alone: they pass PreEnqueue when they are queued again
        anyway.
        """
        transitions = self._transitions
        for pod in [pod for pod in transitions.queued.values() if pod.record.profile == profile]:
            match pod.state:
                case Active():
                    destination = Destination.ACTIVE
                case BackOff():
                    destination = Destination.BACKOFF
                case PreEnqueuePending(PreEnqueueCall(destination=destination)):
                    pass
                case _:
                    continue
            transitions.detach(pod)
            transitions.enter(pod, destination, event.label, now, counted=False)
        if self._groups is not None:
            self._groups.recheck_pre_enqueue(profile, event, now)
