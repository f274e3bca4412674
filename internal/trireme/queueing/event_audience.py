"""Which pods an event may help, by what is known of the event itself.

Tests: tests/unit/queueing/test_remote.py, tests/unit/queueing/test_scheduling_queue.py.
"""

from typing import NamedTuple

from trireme.queueing.pod_info import PodInfo


class EventAudience(NamedTuple):
    """The pods that an event may help, before hints are evaluated; by default any.

    They are of at most `max_priority` (None: any), and not the one whose UID is `exclude_uid`. `lacking_room`: only
    those whose last attempt found no node; one that had a node was not refused for want of the room that has come.
    """

    max_priority: int | None = None
    exclude_uid: str = ""
    lacking_room: bool = False

    def includes(self, record: PodInfo, had_node: bool) -> bool:
        """Whether a pod is among them; `had_node`: its last attempt had one."""
        if self.max_priority is not None and record.priority > self.max_priority:
            return False
        return record.uid != self.exclude_uid and not (self.lacking_room and had_node)


ALL_PODS = EventAudience()
