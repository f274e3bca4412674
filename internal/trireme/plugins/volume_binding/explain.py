"""The reasons of VolumeBinding's refusals."""

from trireme.framework.reason_codes import Kind, ReasonCode

REASONS = {
    "claim": ReasonCode(
        "A claim of the pod cannot be used; the message says why.", {"claim": Kind.CLAIM}, "claim {claim}"
    ),
    "unboundClaim": ReasonCode(
        "A claim whose class binds at once is not bound yet.", {"claim": Kind.CLAIM}, "claim {claim}"
    ),
    "volumeNodeAffinity": ReasonCode("A bound volume is not reached from the node."),
    "noVolume": ReasonCode("No volume that suits a claim is reached from the node, and none can be made there."),
    "storage": ReasonCode("There is not enough storage to make a volume there."),
    "volumeNotFound": ReasonCode("A claim is bound to a volume that does not exist."),
}
