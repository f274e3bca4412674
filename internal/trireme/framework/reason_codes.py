"""The codes of reasons as an interface: what each means, and the parameters that it has, with their kinds.

A plugin declares those of its refusals in its `explain.py`. Codes only come: docs/reference/reason-codes.md lists them,
and a test holds each to its parameters.

Also change: internal/trireme/scheduling/failure.py (the reasons of the condition).

Tests: tests/unit/project/test_reason_codes.py.
"""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


class Kind(enum.StrEnum):
    """How the text of a parameter is to be read."""

    RESOURCE = "resource name"
    QUANTITY = "quantity"
    NODE = "node name"
    LABEL_KEY = "label key"
    TAINT_KEY = "taint key"
    TAINT_VALUE = "taint value"
    TAINT_EFFECT = "taint effect"
    CLAIM = "claim name"
    DEVICE_CLASS = "device class"
    DRIVER = "CSI driver"
    FEATURES = "features, separated by commas"
    HTTP_STATUS = "HTTP status"
    PLUGIN = "plugin"
    PLUGINS = "plugins, separated by commas"
    GROUP = "group name"
    NUMBER = "number"
    DURATION = "duration, as Go writes it"


@dataclass(frozen=True, slots=True)
class ReasonCode:
    """One code. `text` is it in words, for people: with names of parameters in braces, or made of the parameters.

    Without a text `trireme explain` shows the parameters.
    """

    meaning: str
    parameters: Mapping[str, Kind] = field(default_factory=dict)
    text: str | Callable[[Mapping[str, str]], str] = ""

    def text_of(self, parameters: Mapping[str, str]) -> str:
        """The reason with these parameters in words; empty: the code has no text."""
        return self.text(parameters) if callable(self.text) else self.text.format(**parameters)


OF_ANY = {
    "failed": ReasonCode("A plugin or a phase failed; the message says why."),
    "pending": ReasonCode("The plugin waits for something outside the scheduler; the message says what."),
    "refused": ReasonCode("Refused, for a reason that has no code of its own; the message says which."),
    "waits": ReasonCode("The pod waits at Permit or PreBind; the message says for what."),
}
"""Of statuses without a code of their own, such as those of remote plugins that give none."""

OF_REMOTE_CALLS = {
    "pluginCallFailed": ReasonCode("The call of the plugin failed, or it answered an error; the message says which."),
    "pluginNotCalled": ReasonCode("The plugin was not called, because calls before had failed: no answer of its own."),
    "nodeChanged": ReasonCode("The node changed while the plugin was called about it."),
}
"""Beside the errors of calls of remote plugins; their refusals have the codes that the plugins give."""

OF_SCHEDULER = {
    "boundByExtender": ReasonCode(
        "An extender bound the pod to the node, and the API server does not show it.", {"node": Kind.NODE}
    ),
    "evictionFailed": ReasonCode("Victims of the pod's preemption could not be deleted; the message says why."),
    "extenderFailed": ReasonCode("An HTTP extender failed; the message says how."),
    "extenderRefused": ReasonCode("An HTTP extender refused the node."),
    "leftOut": ReasonCode("These plugins left the node out at PreFilter.", {"plugins": Kind.PLUGINS}),
    "noCommonNode": ReasonCode(
        "The nodes that these plugins left at PreFilter have none in common.", {"plugins": Kind.PLUGINS}
    ),
    "noNodes": ReasonCode("The cluster has no nodes."),
    "nodeGone": ReasonCode("The chosen node was deleted.", {"node": Kind.NODE}),
    "nodesChange": ReasonCode(
        "Nodes change faster than these remote plugins can be called about them.", {"plugins": Kind.PLUGINS}
    ),
    "objectChanged": ReasonCode("A claim or a volume changed after Filter; the message says which."),
    "permitRejected": ReasonCode("The plugin rejected the pod while it waited on Permit."),
    "permitTimedOut": ReasonCode("The plugin did not allow the pod on Permit in time.", {"after": Kind.DURATION}),
    "phaseFailed": ReasonCode("A phase failed, or none of its replicas answered; the message says which."),
    "podGone": ReasonCode("The pod was deleted meanwhile."),
    "podInvalid": ReasonCode("A field of the pod cannot be read; the message says which."),
    "podTooLarge": ReasonCode("What plugins keep of the pod is too large for a call.", {"bytes": Kind.NUMBER}),
    "preBindTimedOut": ReasonCode("What PreBind waits for did not change in time.", {"after": Kind.DURATION}),
    "preempted": ReasonCode("A pod of higher priority takes the place of this one, which was not bound yet."),
    "resizeFits": ReasonCode("The deferred resize of the pod fits now; the kubelet makes it."),
}
"""Of failures, waits and refusals that are the scheduler's own."""

OF_GROUPS = {
    "ancestorFailed": ReasonCode("The attempt at a group above failed by an error.", {"group": Kind.GROUP}),
    "ancestorUnschedulable": ReasonCode("A group above is unschedulable.", {"group": Kind.GROUP}),
    "assumeFailed": ReasonCode("The best placement was lost before the group was assumed there; the message says how."),
    "childFailed": ReasonCode("The attempt at a group below failed by an error.", {"group": Kind.GROUP}),
    "evictionFailed": ReasonCode("Victims of the group's preemption could not be deleted."),
    "groupFailed": ReasonCode("The attempt at the pod's group failed by an error.", {"group": Kind.GROUP}),
    "groupNotFound": ReasonCode("The pod's group does not exist.", {"group": Kind.GROUP}),
    "groupUnschedulable": ReasonCode("The pod's group is unschedulable.", {"group": Kind.GROUP}),
    "groupsDisagree": ReasonCode(
        "The objects of the group's tree, or its pods, contradict each other; the message says in what."
    ),
    "memberFailed": ReasonCode("The attempt at a pod of the group failed by an error."),
    "noClaimToRelease": ReasonCode("No claim that is given back would help the group."),
    "noPlacement": ReasonCode("There is no placement to try the group in: no domain has what it requires."),
    "noPlacementFits": ReasonCode("The group fits in none of its placements.", {"placements": Kind.NUMBER}),
    "noPodPlaced": ReasonCode("No pod of the group found a node."),
    "placementInvalid": ReasonCode("A plugin at PlacementGenerate failed, or named a placement wrongly."),
    "scoringFailed": ReasonCode("A plugin at PlacementScore failed."),
    "victimsNotEnough": ReasonCode("Even without all pods of lower priority the group does not fit."),
}
"""Of the statuses of pod groups, and of members that fail with their group."""

OF_PREEMPTION = {
    "evictionsDoNotHelp": ReasonCode("Evicting pods would not help on any node."),
    "fitsWithoutEvictions": ReasonCode("The members of the group fit without evictions."),
    "groupNotTried": ReasonCode("The group waits for more members, or for what holds them back."),
    "neverPreempts": ReasonCode("The pod, or a pod of the group, has the preemptionPolicy Never."),
    "noPreemptionPlugin": ReasonCode("The profile has no plugin that preempts."),
    "noVictims": ReasonCode("Where evictions might help, no pod of lower priority runs."),
    "notSimulated": ReasonCode("Not known: the group is not simulated; `reason` says why."),
    "preemptionRefused": ReasonCode("The plugin does not preempt, for another reason; `reason` says which."),
    "victimsGone": ReasonCode("The pods that would be evicted are gone."),
    "victimsNotEnough": ReasonCode("Even without all pods of lower priority it does not fit."),
    "victimsTerminating": ReasonCode("Pods that were preempted for it are still being deleted."),
}
"""Why a preemption evicts nobody, as insight explains it."""

OF_WAITS = {
    "attempt": ReasonCode("It is being tried."),
    "binding": ReasonCode("It is being bound."),
    "caches": ReasonCode("The frontend has not read the whole cluster yet."),
    "deletion": ReasonCode("It is being deleted, and not tried."),
    "event": ReasonCode("An event that may help: `refusals` says why it was refused."),
    "gate": ReasonCode("A PreEnqueue plugin holds it back; `names` has the scheduling gates."),
    "group": ReasonCode("An object or pods of its group, or the attempt at its group."),
    "leadership": ReasonCode("This frontend does not lead: the leader alone knows."),
    "permit": ReasonCode("Plugins that have to allow it on Permit."),
    "plugin": ReasonCode("A remote plugin that failed, or does not take part yet."),
    "preBind": ReasonCode("Objects that a PreBind plugin needs changed; `names` has them."),
    "preEnqueue": ReasonCode("The answer of remote plugins at PreEnqueue."),
    "preemption": ReasonCode("Victims that have to be gone; `names` has them."),
    "queueSort": ReasonCode("The answer of the remote plugin at QueueSort."),
    "service": ReasonCode("A phase without an available replica; `names` has it."),
    "time": ReasonCode("The end of its back-off; `refusals` says why its last attempt failed."),
    "turn": ReasonCode("Its turn in the active queue."),
}
"""The kinds of what a pending pod waits for."""

OF_ATTEMPTS = {
    "Unschedulable": ReasonCode("Plugins refuse the pod on all nodes, or on the chosen one: it waits for an event."),
    "SchedulerError": ReasonCode("The attempt failed by an error: the pod is tried again after a back-off."),
}
"""The reasons of the condition PodScheduled, as kube-scheduler has them."""
