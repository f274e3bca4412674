"""InFlightEventEvaluator: whether an event during a pod's attempt may help it, so that it is tried again.

The same events happened during the attempts at all pods of a batch, so the decision for those that the same plugins
refused is reached once and cached at their cursor; for a later pod only the events since then are evaluated. A pod's
own updates are evaluated for it alone.

Tests: tests/unit/queueing/test_attempts.py, tests/unit/queueing/test_in_flight_decisions.py,
tests/unit/queueing/test_remote.py.
"""

from typing import Any

from trireme.framework.cluster_event import ClusterEvent
from trireme.queueing.hints.hint_evaluation import Decision, HintEvaluator
from trireme.queueing.hints.queueing_hint_map import EventRegistration, HintAnswer
from trireme.queueing.in_flight_events import EventCursor, InFlightEvents
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.queueing.remote_calls import QueueingHintCall, RemoteCalls
from trireme.queueing.states import Done, InFlight

# With more remote hints than this to wait for, a pod is tried again without them.
MAX_CALLS = 16

_HintToCall = tuple[EventRegistration, tuple[ClusterEvent, Any, Any]]


class CachedDecision:
    """What the events up to `position` mean for one kind of pod."""

    __slots__ = ("calls", "decision", "position", "remote")

    def __init__(self, position: int) -> None:
        self.position = position
        self.decision = Decision.SKIP
        #: The hints of remote plugins that it depends on, and the calls that were made for them.
        self.remote: list[_HintToCall] = []
        self.calls: list[QueueingHintCall] = []


class InFlightEventEvaluator:
    """Decides where a pod goes whose attempt failed, by the events that came during the attempt."""

    __slots__ = ("_calls", "_events", "_hints")

    def __init__(self, hints: HintEvaluator, events: InFlightEvents, calls: RemoteCalls) -> None:
        self._hints = hints
        self._events = events
        self._calls = calls

    def evaluate(self, pod: QueuedPodInfo, state: InFlight | Done) -> tuple[Decision, list[QueueingHintCall]]:
        """Return where a pod goes whose attempt failed, and the open calls on which that depends if it is to wait.

        `state` is that of the attempt. SKIP: it waits for an event. It backs off without a look at events if it failed
        by error, if it was being bound (Done: no events are recorded then), or if too many calls would be needed.
        """
        if not isinstance(state, InFlight) or state.cursor is None:
            return Decision.AFTER_BACKOFF, []
        if not pod.rejectors or not self._hints.registrations.has_profile(pod.record.profile):
            return Decision.AFTER_BACKOFF, []
        cached = self._decision_by_batch_events(pod, state.cursor)
        decision = max(cached.decision, Decision.AFTER_BACKOFF if state.activated else Decision.SKIP)
        own: list[_HintToCall] = []
        for change in state.own_events:
            decisions, remote = self._hints.evaluate(pod.record.profile, *change, [pod])
            decision = max(decision, decisions[0])
            own += [(registration, change) for registration, _ in remote]
        if decision is not Decision.SKIP:
            return decision, []
        if len(cached.remote) + len(own) > MAX_CALLS:
            return Decision.AFTER_BACKOFF, []
        return self._call_remote_hints(pod, cached, own)

    def event_may_help(self, pod: QueuedPodInfo, plugin: str, cursor: EventCursor) -> bool:
        """Whether an event since the cursor was opened may help a pod that the PreEnqueue plugin refused."""
        events = self._events.since(cursor.start)
        if events is None:
            return True
        for event, old, new, audience in events:
            if not audience.includes(pod.record, pod.had_node):
                continue
            if self._hints.registrations.has_registered(plugin, event):
                decisions, remote = self._hints.evaluate(pod.record.profile, event, old, new, [pod])
                if remote or decisions[0] is not Decision.SKIP:
                    return True
        return False

    def _decision_by_batch_events(self, pod: QueuedPodInfo, cursor: EventCursor) -> CachedDecision:
        """What the events since the batch was popped mean for pods of this kind: cached, up to the last event.

        Events that are forgotten count as if one had helped. Evaluation ends at the first that decides.
        """
        key = (pod.record.class_id, pod.rejectors, pod.pending_plugins, pod.had_node)
        cached = cursor.decisions.get(key)
        if cached is None:
            cached = cursor.decisions[key] = CachedDecision(cursor.start)
        if cached.position == self._events.end:
            return cached
        events = self._events.since(cached.position)
        cached.position = self._events.end
        if events is None:
            cached.decision = max(cached.decision, Decision.AFTER_BACKOFF)
            return cached
        for event, old, new, audience in events:
            if cached.decision is Decision.IMMEDIATELY or (cached.decision and not pod.pending_plugins):
                break
            # The decision is shared by pods of one kind, so by which pod it was caused does not matter.
            if not audience._replace(exclude_uid="").includes(pod.record, pod.had_node):
                continue
            decisions, remote = self._hints.evaluate(pod.record.profile, event, old, new, [pod])
            cached.decision = max(cached.decision, decisions[0])
            cached.remote += [(registration, (event, old, new)) for registration, _ in remote]
        return cached

    def _call_remote_hints(
        self, pod: QueuedPodInfo, cached: CachedDecision, own: list[_HintToCall]
    ) -> tuple[Decision, list[QueueingHintCall]]:
        """Make the calls for this kind of pod that were not made yet, and those for the pod's `own` changes.

        Calls are shared: answers that have come meanwhile, for a pod before, count. Returns SKIP with the calls still
        open; if too many are open, the pod backs off.
        """
        calls = cached.calls
        while len(calls) < len(cached.remote):
            call = self._open_call(pod, cached.remote[len(calls)])
            if call is None:
                return Decision.AFTER_BACKOFF, []
            calls.append(call)
        still_open = []
        for call in calls:
            if call.answers is None:
                still_open.append(call)
            elif call.answers[0] is not HintAnswer.SKIP:
                pending = call.plugin in pod.pending_plugins
                return Decision.IMMEDIATELY if pending else Decision.AFTER_BACKOFF, []
        for hint in own:
            call = self._open_call(pod, hint)
            if call is None:
                return Decision.AFTER_BACKOFF, []
            still_open.append(call)
        return Decision.SKIP, still_open

    def _open_call(self, pod: QueuedPodInfo, hint: _HintToCall) -> QueueingHintCall | None:
        """Open a call of the remote hint about this pod; None: too many calls are open."""
        registration, change = hint
        return self._calls.call_hint(pod.record.profile, registration, change, [pod], [[]])
