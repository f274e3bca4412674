"""RequeueEvaluator: whether something that happened during a pod's attempt makes it worth another one.

All pods of a batch that the same plugins refused have the same events behind them and get the same verdict, so it is
reached once and kept in their cell; a later pod of theirs only weighs what has happened since. A pod's own updates are
weighed for it alone.
"""

from typing import Any

from trireme.framework.cluster_event import ClusterEvent
from trireme.queueing.in_flight_events import EventCursor, InFlightEvents
from trireme.queueing.queue_hints import Decision, Hint, HintTable, Registration
from trireme.queueing.queued_pod import Flight, QueuedPodInfo
from trireme.queueing.remote_calls import QueueingHintCall, RemoteCalls

# A returning pod is not made to wait for more remote answers than this; beyond, it is simply tried again.
MAX_QUESTIONS = 16

_Wanted = tuple[Registration, tuple[ClusterEvent, Any, Any]]


class Verdict:
    """What the events up to `position` mean for one kind of pod."""

    __slots__ = ("asked", "decision", "position", "wanted")

    def __init__(self, position: int) -> None:
        self.position = position
        self.decision = Decision.STAY
        #: What remote plugins would have to be asked, and the questions that were.
        self.wanted: list[_Wanted] = []
        self.asked: list[QueueingHintCall] = []


class RequeueEvaluator:
    """Weighs what is in the event log for pods that come back."""

    __slots__ = ("_hints", "_log", "_questions")

    def __init__(self, hints: HintTable, log: InFlightEvents, questions: RemoteCalls) -> None:
        self._hints = hints
        self._log = log
        self._questions = questions

    def returning(self, pod: QueuedPodInfo, flight: Flight) -> tuple[Decision, list[QueueingHintCall]]:
        """What becomes of a pod whose attempt failed, and the open questions on which it depends if it stays."""
        if not pod.rejectors or flight.cell is None or not self._hints.knows(pod.record.profile):
            return Decision.AFTER_BACKOFF, []
        verdict = self._verdict(pod, flight.cell)
        decision = max(verdict.decision, Decision.AFTER_BACKOFF if flight.woken else Decision.STAY)
        own: list[_Wanted] = []
        for happened in flight.own_events:
            decisions, wanted = self._hints.weigh(pod.record.profile, *happened, [pod])
            decision = max(decision, decisions[0])
            own += [(registration, happened) for registration, _ in wanted]
        if decision is not Decision.STAY:
            return decision, []
        if len(verdict.wanted) + len(own) > MAX_QUESTIONS:
            return Decision.AFTER_BACKOFF, []
        return self._ask(pod, verdict, own)

    def helped(self, pod: QueuedPodInfo, cell: EventCursor) -> bool:
        """Something that the gate which holds the pod listens to happened since the cell was opened."""
        happened = self._log.since(cell.start)
        if happened is None:
            return True
        for event, old, new, max_priority in happened:
            if max_priority is not None and pod.record.priority > max_priority:
                continue
            if self._hints.interests(pod.gated_by, event):
                decisions, wanted = self._hints.weigh(pod.record.profile, event, old, new, [pod])
                if wanted or decisions[0] is not Decision.STAY:
                    return True
        return False

    def _verdict(self, pod: QueuedPodInfo, cell: EventCursor) -> Verdict:
        key = (pod.record.class_id, pod.rejectors, pod.pending_plugins)
        verdict = cell.verdicts.get(key)
        if verdict is None:
            verdict = cell.verdicts[key] = Verdict(cell.start)
        if verdict.position == self._log.end:
            return verdict
        happened = self._log.since(verdict.position)
        verdict.position = self._log.end
        if happened is None:
            verdict.decision = max(verdict.decision, Decision.AFTER_BACKOFF)
            return verdict
        for event, old, new, max_priority in happened:
            if verdict.decision is Decision.IMMEDIATELY or (verdict.decision and not pod.pending_plugins):
                break
            if max_priority is not None and pod.record.priority > max_priority:
                continue
            decisions, wanted = self._hints.weigh(pod.record.profile, event, old, new, [pod])
            verdict.decision = max(verdict.decision, decisions[0])
            verdict.wanted += [(registration, (event, old, new)) for registration, _ in wanted]
        return verdict

    def _ask(self, pod: QueuedPodInfo, verdict: Verdict, own: list[_Wanted]) -> tuple[Decision, list[QueueingHintCall]]:
        """Opens what is not asked yet. Answers that have come in the meantime, for a pod before, count."""
        asked = verdict.asked
        while len(asked) < len(verdict.wanted):
            question = self._open(pod, verdict.wanted[len(asked)])
            if question is None:
                return Decision.AFTER_BACKOFF, []
            asked.append(question)
        still_open = []
        for question in asked:
            if question.answers is None:
                still_open.append(question)
            elif question.answers[0] is not Hint.SKIP:
                pending = question.plugin in pod.pending_plugins
                return Decision.IMMEDIATELY if pending else Decision.AFTER_BACKOFF, []
        for wanted in own:
            question = self._open(pod, wanted)
            if question is None:
                return Decision.AFTER_BACKOFF, []
            still_open.append(question)
        return Decision.STAY, still_open

    def _open(self, pod: QueuedPodInfo, wanted: _Wanted) -> QueueingHintCall | None:
        registration, happened = wanted
        return self._questions.ask_hint(pod.record.profile, registration, happened, [pod], [[]])
