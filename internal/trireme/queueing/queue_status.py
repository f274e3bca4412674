"""The queue in numbers for metrics, and the status of one pod.

Tests: tests/unit/queueing/test_queue_statistics.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from trireme.queueing.states import QueueState


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """The queue in numbers at one moment, for metrics and the status page. Counters count since start."""

    #: Pods that may be tried now.
    active: int
    #: Pods that back off after a refusal; those outside groups are taken early when nothing is active.
    backoff: int
    #: Pods that back off after an error; without SchedulerPopFromBackoffQ those outside groups after a refusal, too.
    error_backoff: int
    #: Pods that wait for an event.
    unschedulable: int
    #: Pods that a PreEnqueue plugin holds back.
    gated: int
    #: Pods for which remote plugins are called before they enter the queue.
    pre_enqueue_pending: int
    #: Pods popped and not done.
    in_flight: int
    #: Pods that are being bound, or being deleted, and that the watch has not shown so yet.
    done: int
    #: Events recorded for those in flight, by label.
    in_flight_events: Mapping[str, int]
    #: Events dropped because too many were recorded.
    dropped_events: int
    #: Groups of waiting pods: an event helps all of a group or none.
    refusal_groups: int
    #: Calls of remote plugins' hints without an answer yet.
    open_hint_calls: int
    #: Pods popped.
    scheduling_cycle: int
    #: Batches popped; a pod group is one.
    batches: int
    #: (queue, event label) -> pods that entered: queue_incoming_pods_total.
    incoming: Mapping[tuple[str, str], int]
    #: (profile, plugin) -> queued pods that the plugin refused: unschedulable_pods.
    refused_by: Mapping[tuple[str, str], int]
    #: (plugin, event label, answer) -> pods evaluated; one may stand for a group of refused pods.
    hints: Mapping[tuple[str, str, str], int]
    #: Members of groups that lack an object.
    waiting_for_group: int = 0
    #: Members of groups that are being tried without them.
    group_in_flight: int = 0
    #: Groups, by the queues of `pending`, and how many of the pods there are their members.
    groups_by_queue: Mapping[str, int] = field(default_factory=dict)
    members_by_queue: Mapping[str, int] = field(default_factory=dict)

    @property
    def pending(self) -> Mapping[str, int]:
        """The values of pending_pods by its label `queue`. One for which plugins are called counts as gated.

        Members that wait for their group are in none: see `waiting_for_group`.
        """
        return {
            "active": self.active,
            "backoff": self.backoff + self.error_backoff,
            "unschedulable": self.unschedulable,
            "gated": self.gated + self.pre_enqueue_pending,
        }


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """A pod's state, and what it waits for."""

    state: QueueState
    #: When it was added, or requeued after its last attempt.
    since: float
    attempts: int
    #: The plugins that refused it, sorted.
    rejectors: tuple[str, ...]
    #: Labels of the events that may wake it, sorted.
    events: tuple[str, ...]
    #: The group (namespace/name) that it is scheduled with; empty: none.
    group: str = ""
    #: What is queued for its group and others; empty: it is in no group.
    root: str = ""
