"""The reasons of DeferredPodScheduling's refusals."""

from trireme.framework.reason_codes import ReasonCode

REASONS = {
    "nodeName": ReasonCode("The pod, whose resize is deferred, is on another node."),
    "resizePreemptionDisabled": ReasonCode("The node allows no preemption for a resize."),
}
