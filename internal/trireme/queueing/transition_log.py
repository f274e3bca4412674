"""The log of the last transitions, and the exception that shows them.

One ring for all pods, so that a transition costs one append; those of one pod are read out of it only on request. The
exception for an impossible transition has them, as they show how the pod got into its state.

Tests: tests/unit/queueing/test_scheduling_queue.py, tests/unit/frontend/test_insight_queue_feed.py.
"""

from collections import deque
from collections.abc import Container
from typing import NamedTuple

from trireme.queueing.queued_entity import QueuedEntity
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.queueing.states import QueueState

LENGTH = 4096


class Transition(NamedTuple):
    """One change of state of a pod or group, as the page of its history shows it."""

    at: float
    key: str
    uid: str
    to: type[QueueState]
    #: The event's label, or what the caller did.
    cause: str

    def __str__(self) -> str:
        return f"{self.at:.3f} {self.key} ({self.uid}) to {self.to.label}: {self.cause}"


class TransitionLog:
    """The last transitions of all pods."""

    __slots__ = ("_changed_pods", "_transitions")

    def __init__(self) -> None:
        self._changed_pods: dict[str, str] | None = None
        self._transitions: deque[tuple[float, str, str, type[QueueState], str]] = deque(maxlen=LENGTH)

    def append(self, now: float, pod: QueuedEntity, cause: str) -> None:
        """Records how the pod got into its current state."""
        record = pod.record
        self._transitions.append((now, record.key, record.uid, type(pod.state), cause))
        if self._changed_pods is not None:
            self._changed_pods[record.uid] = record.key

    def object_changed(self, key: str, uid: str) -> None:
        """Records that the pod's object or class changed, which may be no transition."""
        if self._changed_pods is not None:
            self._changed_pods[uid] = key

    def take_changed_pods(self) -> dict[str, str] | None:
        """UID to key of the pods, and groups, that changed since the last call; None at the first one.

        Nothing is recorded before the first call, or after `ignore_changes`.
        """
        changed, self._changed_pods = self._changed_pods, {}
        return changed

    def ignore_changes(self) -> None:
        """Records changes no more, until `take_changed_pods` is called again."""
        self._changed_pods = None

    def of(self, key: str) -> list[Transition]:
        """What is remembered of the pods of that name, oldest first."""
        return [Transition(*each) for each in self._transitions if each[1] == key]

    def last_by_uid(self, uids: Container[str], limit: int) -> dict[str, list[Transition]]:
        """The last transitions of each of these pods, at most `limit` of each, oldest first; one pass for all."""
        found: dict[str, list[Transition]] = {}
        for each in reversed(self._transitions):
            if each[2] in uids:
                of_pod = found.setdefault(each[2], [])
                if len(of_pod) < limit:
                    of_pod.append(Transition(*each))
        return {uid: of_pod[::-1] for uid, of_pod in found.items()}


class ImpossibleTransition(RuntimeError):
    """A stimulus that is impossible in the pod's state: a defect of the caller or of the queue.

    Attributes: `key`; `transitions`, the pod's last ones.
    """

    def __init__(self, pod: QueuedPodInfo, action: str, log: TransitionLog) -> None:
        self.key = pod.record.key
        self.transitions = log.of(self.key)
        lines = "".join(f"\n  {each}" for each in self.transitions)
        super().__init__(
            f"{self.key} ({pod.record.uid}) is {pod.state.label}, cannot {action}; its last transitions:{lines}"
        )
