"""PreEnqueue of the in-tree plugins: what holds a pod back from the queue.

Source: pkg/scheduler/framework/plugins/schedulinggates.
"""

from collections.abc import Callable, Iterable

from trireme.config import model
from trireme.framework.registry import ExtensionPoint
from trireme.frontend import queue_places, queue_pod

SCHEDULING_GATES = "SchedulingGates"


def gate_of(profiles: Iterable[model.CompletedProfile], ask_remote: Callable[[str], bool]) -> queue_places.PreEnqueue:
    """The question that the queue asks of each pod that wants to enter; `ask_remote` says so of a profile."""
    gated_profiles = frozenset(
        profile.scheduler_name for profile in profiles if SCHEDULING_GATES in profile.names(ExtensionPoint.PRE_ENQUEUE)
    )

    def pre_enqueue(pod: queue_pod.QueuedPod) -> str | queue_places.Gate:
        if pod.record.profile in gated_profiles and pod.record.pod.parsed.gates:
            return SCHEDULING_GATES
        return queue_places.Gate.ASK if ask_remote(pod.record.profile) else queue_places.Gate.OPEN

    return pre_enqueue
