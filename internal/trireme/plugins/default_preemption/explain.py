"""The reasons for which DefaultPreemption makes no room."""

from trireme.framework.reason_codes import ReasonCode

REASONS = {
    "neverPreempts": ReasonCode("The pod, or a pod of the group, has the preemptionPolicy Never."),
    "noCandidate": ReasonCode("HTTP extenders left no node on which preemption helps."),
    "notHelpful": ReasonCode("No node takes the pod, whichever pods of lower priority are evicted."),
    "noVictims": ReasonCode("No pods of lower priority run that could make room for the group."),
    "victimsTerminating": ReasonCode("The pod has preempted already: its victims are still terminating."),
}
