"""The reasons of NodePorts's refusals."""

from trireme.framework.reason_codes import ReasonCode

REASONS = {
    "hostPort": ReasonCode("A port of the host that the pod wants is in use."),
}
