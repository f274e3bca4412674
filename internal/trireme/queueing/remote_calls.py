"""Calls of remote plugins: the instructions to make them, and those that have no answer yet.

The queue does no I/O. Where a plugin lives in another process, a stimulus returns an instruction to call it, and the
answer is a stimulus of its own. Meanwhile the state of the pod does not change (a hint), or is `PreEnqueuePending`. An
answer touches only the pods that it is about and that have not moved since the call.

Tests: tests/unit/queueing/test_remote.py, tests/unit/queueing/test_state_machine.py,
tests/unit/queueing/test_group_state_machine.py.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from trireme.framework.cluster_event import ClusterEvent
from trireme.queueing.event_audience import EventAudience
from trireme.queueing.hints.queueing_hint_map import EventRegistration, HintAnswer
from trireme.queueing.pod_info import PodInfo
from trireme.queueing.queued_pod import QueuedPodInfo
from trireme.queueing.unschedulable import RefusalKey

# Calls of queueing hints that may be open at once. Beyond, a hint counts as QUEUE: the plugin is too slow.
MAX_OPEN = 1000


class CallPreEnqueue(NamedTuple):
    """Call the remote plugins of PreEnqueue for the pod, and that of QueueSort if it lacks a key.

    Then call `pre_enqueue_answered` with this `call_id`.
    """

    call_id: int
    pod: QueuedPodInfo


class CallQueueingHint(NamedTuple):
    """Call the plugin's queueing hint with these pods; then call `hint_answered` with this `call_id`."""

    call_id: int
    profile: str
    plugin: str
    event: ClusterEvent
    old: Any
    new: Any
    pods: tuple[QueuedPodInfo, ...]


class RenewSortKey(NamedTuple):
    """The pod, which has a key of a remote QueueSort plugin, changed: get another, and then call `sort_anew`."""

    pod: QueuedPodInfo


Instruction = CallPreEnqueue | CallQueueingHint | RenewSortKey
Instructions = Sequence[Instruction]


class RefusalGroupTarget(NamedTuple):
    """All pods that were in the group at the event, those with a stamp up to this one, if it may help them."""

    group: RefusalKey
    stamp: int
    audience: EventAudience


class PodTarget(NamedTuple):
    """One pod, while it has this stamp."""

    pod: QueuedPodInfo
    stamp: int


Target = RefusalGroupTarget | PodTarget


class QueueingHintCall:
    """A call of a queueing hint. `targets[i]` are the pods that the i-th answer concerns; `answers` come once."""

    __slots__ = ("answers", "event", "plugin", "targets")

    def __init__(self, plugin: str, event: ClusterEvent, targets: list[list[Target]]) -> None:
        self.plugin = plugin
        self.event = event
        self.targets = targets
        self.answers: Sequence[HintAnswer] | None = None


class RemoteCalls:
    """The calls of remote plugins that the queue wants: the open ones, and the current stimulus's instructions."""

    __slots__ = ("_instructions", "_last_id", "_open", "_pre_enqueue")

    def __init__(self) -> None:
        self._instructions: list[Instruction] = []
        self._open: dict[int, QueueingHintCall] = {}
        self._pre_enqueue: dict[int, QueuedPodInfo] = {}
        self._last_id = 0

    @property
    def open_hints(self) -> int:
        """How many calls of hints have no answer yet."""
        return len(self._open)

    @property
    def open_pre_enqueue(self) -> int:
        """How many calls of PreEnqueue have no answer yet."""
        return len(self._pre_enqueue)

    def take_instructions(self) -> Instructions:
        """What the shell has to do, once."""
        if not self._instructions:
            return ()
        instructions = self._instructions
        self._instructions = []
        return instructions

    def call_pre_enqueue(self, pod: QueuedPodInfo) -> int:
        """Opens a call of PreEnqueue for the pod; its id."""
        self._last_id += 1
        self._pre_enqueue[self._last_id] = pod
        self._instructions.append(CallPreEnqueue(self._last_id, pod))
        return self._last_id

    def renew_sort_key(self, pod: QueuedPodInfo, before: PodInfo) -> None:
        """The pod was `before`: a remote QueueSort plugin orders it anew if its class is another now."""
        if before.pod.given_sort_key is not None and before.class_id != pod.record.class_id:
            self._instructions.append(RenewSortKey(pod))

    def pod_of_pre_enqueue_call(self, call_id: int) -> QueuedPodInfo | None:
        """The pod of an open call of PreEnqueue."""
        return self._pre_enqueue.get(call_id)

    def close_pre_enqueue(self, call_id: int) -> None:
        """The call, which is open, is answered or void."""
        del self._pre_enqueue[call_id]

    def call_hint(
        self,
        profile: str,
        registration: EventRegistration,
        change: tuple[ClusterEvent, Any, Any],
        pods: Sequence[QueuedPodInfo],
        targets: list[list[Target]],
    ) -> QueueingHintCall | None:
        """Open a call of a hint, and add it to the instructions; None: too many calls are open, and none is made."""
        if len(self._open) >= MAX_OPEN:
            return None
        event, old, new = change
        self._last_id += 1
        call = self._open[self._last_id] = QueueingHintCall(registration.plugin, event, targets)
        self._instructions.append(
            CallQueueingHint(self._last_id, profile, registration.plugin, event, old, new, tuple(pods))
        )
        return call

    def follow_moved_pod(self, pod: QueuedPodInfo, group: RefusalKey, stamp: int) -> None:
        """The pod, which was in that group with that stamp, is in another now: open calls still concern it."""
        for call in self._open.values():
            for targets in call.targets:
                if any(_is_target_of(target, pod, group, stamp) for target in targets):
                    targets.append(PodTarget(pod, pod.stamp))

    def awaits_hint(self, pod: QueuedPodInfo, group: RefusalKey) -> bool:
        """Whether an open call concerns the pod, which is in that group: its answer may wake it."""
        return any(
            _is_target_of(target, pod, group, pod.stamp)
            for call in self._open.values()
            for targets in call.targets
            for target in targets
        )

    def close_hint(self, call_id: int, answers: Sequence[HintAnswer] | None) -> QueueingHintCall | None:
        """The call with its answers; None if it is not open. No answers, or not one for each pod: errors."""
        call = self._open.pop(call_id, None)
        if call is not None:
            count = len(call.targets)
            usable = answers is not None and len(answers) == count
            call.answers = answers if answers is not None and usable else [HintAnswer.ERROR] * count
        return call


def _is_target_of(target: Target, pod: QueuedPodInfo, group: RefusalKey, stamp: int) -> bool:
    """Whether the answer for this target concerns the pod, which was in that group with that stamp."""
    if isinstance(target, PodTarget):
        return target.pod is pod and target.stamp == stamp
    return target.group == group and stamp <= target.stamp and target.audience.includes(pod.record, pod.had_node)
