"""The reasons of VolumeZone's refusals."""

from trireme.framework.reason_codes import Kind, ReasonCode

REASONS = {
    "volumeZone": ReasonCode("A bound volume is in another zone or region than the node."),
    "claim": ReasonCode(
        "A claim of the pod, or its storage class, cannot be used; the message says why.",
        {"claim": Kind.CLAIM},
        "claim {claim}",
    ),
}
