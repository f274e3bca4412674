"""The reasons of NodeUnschedulable's refusals."""

from trireme.framework.reason_codes import ReasonCode

REASONS = {
    "unschedulable": ReasonCode("The node is cordoned."),
}
