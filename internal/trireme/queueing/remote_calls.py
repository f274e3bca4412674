"""What the queue asks of remote plugins: instructions to its shell, and the questions that are open.

The queue does no I/O. Where a plugin lives in another process, a stimulus returns an instruction, and the answer is a
stimulus of its own. Meanwhile each pod stays where it is (a hint) or is in the place for it (PreEnqueue), so it is in
one place all the time. An answer touches only the pods that were asked about and have not moved since.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from trireme.framework.cluster_event import ClusterEvent
from trireme.queueing.queue_hints import Hint, Registration
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.queueing.unschedulable import GroupKey

# Hint questions that may be open at once. Beyond, a hint counts as QUEUE: the plugin is too slow to be waited for.
MAX_OPEN = 1000


class CallPreEnqueue(NamedTuple):
    """Ask the remote PreEnqueue plugins about the pod; then call `pre_enqueue_answered` with this `call_id`."""

    call_id: int
    pod: QueuedPodInfo


class CallQueueingHint(NamedTuple):
    """Ask the plugin what the event means for these pods; then call `hint_answered` with this `call_id`."""

    call_id: int
    profile: str
    plugin: str
    event: ClusterEvent
    old: Any
    new: Any
    pods: tuple[QueuedPodInfo, ...]


Instruction = CallPreEnqueue | CallQueueingHint
Instructions = Sequence[Instruction]


class GroupTarget(NamedTuple):
    """All pods that were in the group when the event came: those with a stamp up to this one."""

    group: GroupKey
    stamp: int


class PodTarget(NamedTuple):
    """One pod, while it has this stamp."""

    pod: QueuedPodInfo
    stamp: int


Target = GroupTarget | PodTarget


class QueueingHintCall:
    """A question to a remote plugin. `targets[i]` is whom the i-th answer concerns; `answers` come once."""

    __slots__ = ("answers", "event", "plugin", "targets")

    def __init__(self, plugin: str, event: ClusterEvent, targets: list[list[Target]]) -> None:
        self.plugin = plugin
        self.event = event
        self.targets = targets
        self.answers: Sequence[Hint] | None = None


class RemoteCalls:
    """The questions that are open, and the instructions that the current stimulus will return."""

    __slots__ = ("_instructions", "_last_id", "_open", "_pre_enqueue")

    def __init__(self) -> None:
        self._instructions: list[Instruction] = []
        self._open: dict[int, QueueingHintCall] = {}
        self._pre_enqueue: dict[int, QueuedPodInfo] = {}
        self._last_id = 0

    @property
    def open_hints(self) -> int:
        """How many hint questions have no answer yet."""
        return len(self._open)

    @property
    def asked(self) -> int:
        """How many pods are being asked about for PreEnqueue."""
        return len(self._pre_enqueue)

    def take_instructions(self) -> Instructions:
        """What the shell has to do, once."""
        if not self._instructions:
            return ()
        instructions = self._instructions
        self._instructions = []
        return instructions

    def ask_pre_enqueue(self, pod: QueuedPodInfo) -> int:
        """Opens the question whether the pod may enter; its id."""
        self._last_id += 1
        self._pre_enqueue[self._last_id] = pod
        self._instructions.append(CallPreEnqueue(self._last_id, pod))
        return self._last_id

    def asked_about(self, call_id: int) -> QueuedPodInfo | None:
        """The pod of an open question."""
        return self._pre_enqueue.get(call_id)

    def close_pre_enqueue(self, call_id: int) -> QueuedPodInfo | None:
        """The question is answered, or its answer no longer wanted; the pod, if the question was open."""
        return self._pre_enqueue.pop(call_id, None)

    def ask_hint(
        self,
        profile: str,
        registration: Registration,
        happened: tuple[ClusterEvent, Any, Any],
        pods: Sequence[QueuedPodInfo],
        targets: list[list[Target]],
    ) -> QueueingHintCall | None:
        """Opens a question; None: there are too many."""
        if len(self._open) >= MAX_OPEN:
            return None
        event, old, new = happened
        self._last_id += 1
        question = self._open[self._last_id] = QueueingHintCall(registration.plugin, event, targets)
        self._instructions.append(
            CallQueueingHint(self._last_id, profile, registration.plugin, event, old, new, tuple(pods))
        )
        return question

    def follow(self, pod: QueuedPodInfo, group: GroupKey, stamp: int) -> None:
        """The pod, which was in that group with that stamp, is in another now: open questions about it still are."""
        for question in self._open.values():
            for targets in question.targets:
                if any(_concerns(target, pod, group, stamp) for target in targets):
                    targets.append(PodTarget(pod, pod.stamp))

    def close_hint(self, call_id: int, answers: Sequence[Hint] | None) -> QueueingHintCall | None:
        """The question with its answers; None if it is not open. No answers, or not one for each pod: errors."""
        question = self._open.pop(call_id, None)
        if question is not None:
            count = len(question.targets)
            usable = answers is not None and len(answers) == count
            question.answers = answers if answers is not None and usable else [Hint.ERROR] * count
        return question


def _concerns(target: Target, pod: QueuedPodInfo, group: GroupKey, stamp: int) -> bool:
    if isinstance(target, PodTarget):
        return target.pod is pod and target.stamp == stamp
    return target.group == group and stamp <= target.stamp
