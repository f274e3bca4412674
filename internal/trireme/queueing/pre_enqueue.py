"""PreEnqueue: what the queue asks of each pod that wants to enter, and how the in-tree plugins answer.

Source: pkg/scheduler/framework/plugins/schedulinggates, …/defaultpreemption, …/dynamicresources.
"""

import enum
from collections.abc import Callable, Iterable

from trireme.config import model
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.queueing import queued_pod

SCHEDULING_GATES = "SchedulingGates"
DYNAMIC_RESOURCES = "DynamicResources"
# It holds a preemptor back while its victims are being deleted.
DEFAULT_PREEMPTION = "DefaultPreemption"


class PreEnqueueResult(enum.Enum):
    """What PreEnqueue may answer beside the name of the plugin that refuses."""

    ALLOWED = "allowed"
    #: No local plugin refuses; a remote one has to be called.
    CALL_REMOTE = "call remote"


# PreEnqueue of all local plugins: `PreEnqueueResult`, or the name of the plugin that refuses.
PreEnqueue = Callable[[queued_pod.QueuedPodInfo], str | PreEnqueueResult]


def gate_of(
    profiles: Iterable[model.CompletedProfile],
    ask_remote: Callable[[str], bool],
    preempting: Callable[[str], bool],
    lacks_claims: Callable[[int], bool],
    missing_plugin: Callable[[str], str] = lambda profile: "",
) -> PreEnqueue:
    """The question that the queue asks of each pod that wants to enter; `ask_remote` says so of a profile.

    `preempting` says of a UID whether victims of the pod are still to be deleted; `lacks_claims` of a class whether a
    claim for devices is missing that its pods name; `missing_plugin` names for a profile the remote plugin that its
    pods cannot be scheduled without and that does not take part.
    """
    points = {profile.scheduler_name: profile.names(ExtensionPoint.PRE_ENQUEUE) for profile in profiles}
    gated_profiles = frozenset(name for name, plugins in points.items() if SCHEDULING_GATES in plugins)
    preempting_profiles = frozenset(name for name, plugins in points.items() if DEFAULT_PREEMPTION in plugins)
    claiming_profiles = frozenset(name for name, plugins in points.items() if DYNAMIC_RESOURCES in plugins)

    def pre_enqueue(pod: queued_pod.QueuedPodInfo) -> str | PreEnqueueResult:
        missing = missing_plugin(pod.record.profile)
        if missing:
            return missing
        if pod.record.profile in gated_profiles and pod.record.pod.parsed.gates:
            return SCHEDULING_GATES
        if pod.record.profile in preempting_profiles and preempting(pod.uid):
            return DEFAULT_PREEMPTION
        if pod.record.profile in claiming_profiles and pod.record.class_id > 0 and lacks_claims(pod.record.class_id):
            return DYNAMIC_RESOURCES
        return PreEnqueueResult.CALL_REMOTE if ask_remote(pod.record.profile) else PreEnqueueResult.ALLOWED

    return pre_enqueue
