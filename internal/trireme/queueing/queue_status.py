"""What the scheduling queue says about itself: numbers for metrics, and where one pod is."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from trireme.queueing.queued_pod import Place


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """The queue at one moment. Counters count since start."""

    #: Pods that may be tried now.
    active: int
    #: Pods that back off after a refusal; taken early when nothing is active.
    backoff: int
    #: Pods that back off after an error.
    error_backoff: int
    #: Pods that wait for an event.
    unschedulable: int
    #: Pods that a PreEnqueue plugin holds back.
    gated: int
    #: Pods about which a remote PreEnqueue plugin is being asked.
    asked: int
    #: Pods popped and not done.
    in_flight: int
    #: Pods that are being bound, or being deleted, and that the watch has not shown so yet.
    done: int
    #: Events kept for those in flight, by label.
    in_flight_events: Mapping[str, int]
    #: Events given up because too many were kept.
    dropped_events: int
    #: Groups of pods that an event cannot tell apart.
    groups: int
    #: Hint questions to remote plugins without an answer yet.
    open_questions: int
    #: Pods popped.
    scheduling_cycle: int
    #: Batches popped.
    batches: int
    #: (queue, event label) -> pods that entered: queue_incoming_pods_total.
    incoming: Mapping[tuple[str, str], int]
    #: (profile, plugin) -> queued pods that the plugin refused: unschedulable_pods.
    refused_by: Mapping[tuple[str, str], int]
    #: (plugin, event label, answer) -> pods weighed.
    hints: Mapping[tuple[str, str, str], int]
    #: Members of groups whose PodGroup is not there.
    incomplete: int = 0
    #: Members of groups that are being tried without them.
    pending_members: int = 0
    #: Groups, by the queues of `pending`, and how many of the pods there are their members.
    groups_by_queue: Mapping[str, int] = field(default_factory=dict)
    members_by_queue: Mapping[str, int] = field(default_factory=dict)

    @property
    def pending(self) -> Mapping[str, int]:
        """The values of pending_pods by its label `queue`. A pod that is asked about counts as gated."""
        return {
            "active": self.active,
            "backoff": self.backoff + self.error_backoff,
            "unschedulable": self.unschedulable,
            "gated": self.gated + self.asked,
        }


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """Where a pod is and what it waits for."""

    place: Place
    #: When it came into the queue, or back after its last attempt.
    since: float
    attempts: int
    #: The gate that holds it, or is being asked; empty: none.
    gate: str
    #: When its back-off ends; 0: it has none.
    until: float
    #: The plugins that refused it.
    rejectors: tuple[str, ...]
    #: Labels of the events that may wake it, sorted.
    events: tuple[str, ...]
    #: The group (namespace/name) that it is scheduled with; empty: none.
    group: str = ""
    #: The entity that is queued for its group and others; and what it waits for as long as there cannot be one, in
    #: words that go on from "waits".
    root: str = ""
    lack: str = ""
    #: Why the gate holds it, in the words of the plugin; empty: it gave none.
    gate_reason: str = ""
