"""Calls of remote PreEnqueue plugins for the members of a group that is to enter the queue.

All members have to pass before their group enters, each time that it does; meanwhile the whole group is in
`PreEnqueuePending`. One member that is refused holds the group back. When an event may have changed the answer,
the plugin is called for that member first, alone: a large group that is held back costs one call.

Pure, as the queue is: calls become instructions to its shell.

Tests: tests/unit/queueing/test_group_queue.py.
"""

from collections.abc import Mapping

from trireme.queueing.in_flight_events import InFlightEvent, InFlightEvents
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.queueing.remote_calls import RemoteCalls
from trireme.queueing.states import Destination, PreEnqueueCall


class MemberPreEnqueueCalls:
    """The calls for the members of one group, which enters the queue `destination` when all have passed."""

    __slots__ = ("destination", "open", "passed", "refused")

    def __init__(self) -> None:
        self.destination = Destination.ACTIVE
        #: UID to the call that is open.
        self.open: dict[str, PreEnqueueCall] = {}
        #: UIDs of members that passed since the group entered last.
        self.passed: set[str] = set()
        #: The member for which a remote plugin holds the group back.
        self.refused: QueuedPodInfo | None = None


class MemberPreEnqueueCaller:
    """Opens calls of plugins for members, and closes them with their answers."""

    def __init__(self, calls: RemoteCalls, events: InFlightEvents) -> None:
        self._calls = calls
        self._events = events

    def call(
        self, entry: MemberPreEnqueueCalls, members: Mapping[str, QueuedPodInfo], destination: Destination, label: str
    ) -> bool:
        """Has plugins called for these members, who have not passed; returns whether there are any."""
        entry.destination = destination
        for uid in [uid for uid in entry.open if uid not in members]:
            self.drop_call(entry, uid)
        if entry.refused is not None and entry.refused.uid in members:
            members = {entry.refused.uid: entry.refused}
        for uid, pod in members.items():
            if uid not in entry.open:
                self._open_call(entry, pod, label)
        return bool(entry.open)

    def close_answered_call(self, entry: MemberPreEnqueueCalls, pod: QueuedPodInfo) -> list[InFlightEvent] | None:
        """Close the member's call, which is answered; return the events since it was made. None: not all are known."""
        call = entry.open.pop(pod.uid)
        events = self._events.since(call.cursor.start)
        self._close_call(call)
        return events

    def call_again(self, entry: MemberPreEnqueueCalls, pod: QueuedPodInfo, label: str) -> None:
        """Drop the member's call, which a change of its object or an event made void, and open another."""
        self.drop_call(entry, pod.uid)
        self._open_call(entry, pod, label)

    def repeat_call(self, entry: MemberPreEnqueueCalls, uid: str) -> None:
        """The member's call, which is open, failed and is made again now."""
        call = entry.open[uid]
        self._events.close_cursor(call.cursor)
        entry.open[uid] = call._replace(cursor=self._events.open_cursor(1))

    def drop_call(self, entry: MemberPreEnqueueCalls, uid: str) -> None:
        """Drop the member's call, if one is open, and that it passed: it is gone, or has changed."""
        call = entry.open.pop(uid, None)
        if call is not None:
            self._close_call(call)
        entry.passed.discard(uid)
        if entry.refused is not None and entry.refused.uid == uid:
            entry.refused = None

    def drop_all_calls(self, entry: MemberPreEnqueueCalls, refused: QueuedPodInfo | None = None) -> None:
        """Drop all calls, and which members have passed: all need calls the next time that the group is to enter.

        For a group that entered, was held back, or was refused for the member `refused`.
        """
        for uid in list(entry.open):
            self.drop_call(entry, uid)
        entry.passed.clear()
        entry.refused = refused

    def _open_call(self, entry: MemberPreEnqueueCalls, pod: QueuedPodInfo, label: str) -> None:
        call_id = self._calls.call_pre_enqueue(pod)
        entry.open[pod.uid] = PreEnqueueCall(call_id, self._events.open_cursor(1), entry.destination, label)

    def _close_call(self, call: PreEnqueueCall) -> None:
        self._calls.close_pre_enqueue(call.call_id)
        self._events.close_cursor(call.cursor)
