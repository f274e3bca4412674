"""The reasons of NodeAffinity's refusals."""

from trireme.framework.reason_codes import ReasonCode

REASONS = {
    "nodeAffinity": ReasonCode("The node selector or the required node affinity of the pod does not match."),
    "enforcedNodeAffinity": ReasonCode("The node affinity that the profile adds does not match."),
    "conflictingTerms": ReasonCode("The required terms name no node in common."),
}
