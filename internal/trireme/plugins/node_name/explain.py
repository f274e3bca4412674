"""The reasons of NodeName's refusals."""

from trireme.framework.reason_codes import ReasonCode

REASONS = {
    "nodeName": ReasonCode("The pod names another node."),
}
