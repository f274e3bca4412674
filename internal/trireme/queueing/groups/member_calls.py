"""What remote PreEnqueue plugins were asked, and said, of the members of a group that wants to enter the queue.

All members have to pass before their group enters, each time that it does; meanwhile the group is asked about as a
whole (`Place.ASKED`). One member that is refused holds the group back. When something happens that may change the
plugin's mind, that member is asked about first, alone, so that a large group that is held back costs one question.

Pure, as the queue is: questions become instructions to its shell.
"""

from collections.abc import Mapping

from trireme.queueing.in_flight_events import InFlightEvent, InFlightEvents
from trireme.queueing.queued_pod import Asking, Place, QueuedPodInfo
from trireme.queueing.remote_calls import RemoteCalls


class MemberCalls:
    """How far one group is. `destination` is the queue that it enters when all have passed."""

    __slots__ = ("destination", "open", "passed", "refused")

    def __init__(self) -> None:
        self.destination = Place.ACTIVE
        #: UID to the question that is open.
        self.open: dict[str, Asking] = {}
        #: UIDs of members that passed since the group entered last.
        self.passed: set[str] = set()
        #: The member for which a remote plugin holds the group back.
        self.refused: QueuedPodInfo | None = None


class MemberCaller:
    """Asks about members, and takes the answers."""

    def __init__(self, questions: RemoteCalls, log: InFlightEvents) -> None:
        self._questions = questions
        self._log = log

    def ask(self, entry: MemberCalls, members: Mapping[str, QueuedPodInfo], destination: Place, label: str) -> bool:
        """Has those of the members asked about who have not passed; answers whether there are any."""
        entry.destination = destination
        for uid in [uid for uid in entry.open if uid not in members]:
            self.forget(entry, uid)
        left = {uid: pod for uid, pod in members.items() if uid not in entry.passed}
        if entry.refused is not None and entry.refused.uid in left:
            left = {entry.refused.uid: entry.refused}
        for uid, pod in left.items():
            if uid not in entry.open:
                self._open(entry, pod, label)
        return bool(entry.open)

    def answered(self, entry: MemberCalls, pod: QueuedPodInfo) -> list[InFlightEvent] | None:
        """The question about the member is answered: what happened since it was asked; None: nobody knows."""
        asking = entry.open.pop(pod.uid)
        happened = self._log.since(asking.cell.start)
        happened = None if happened is None else list(happened)
        self._close(asking)
        return happened

    def ask_again(self, entry: MemberCalls, pod: QueuedPodInfo, label: str) -> None:
        """The answer was about what is not so any more."""
        self.forget(entry, pod.uid)
        self._open(entry, pod, label)

    def forget(self, entry: MemberCalls, uid: str) -> None:
        """The member is gone, or another."""
        asking = entry.open.pop(uid, None)
        if asking is not None:
            self._close(asking)
        entry.passed.discard(uid)
        if entry.refused is not None and entry.refused.uid == uid:
            entry.refused = None

    def begin_anew(self, entry: MemberCalls, refused: QueuedPodInfo | None = None) -> None:
        """The group entered, or does not want to, or was refused for this member: the next time all are asked about."""
        for uid in list(entry.open):
            self.forget(entry, uid)
        entry.passed.clear()
        entry.refused = refused

    def _open(self, entry: MemberCalls, pod: QueuedPodInfo, label: str) -> None:
        call_id = self._questions.ask_pre_enqueue(pod)
        entry.open[pod.uid] = Asking(call_id, self._log.open(1), entry.destination, label)

    def _close(self, asking: Asking) -> None:
        self._questions.close_pre_enqueue(asking.call_id)
        self._log.close(asking.cell)
