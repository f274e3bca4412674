"""The reasons of VolumeRestrictions's refusals."""

from trireme.framework.reason_codes import Kind, ReasonCode

REASONS = {
    "disk": ReasonCode("A disk of the pod is in use on the node, in a way that excludes it."),
    "claimInUse": ReasonCode("A claim that one pod alone may use is in use."),
    "claimNotFound": ReasonCode(
        "A claim of the pod does not exist.", {"claim": Kind.CLAIM}, "there is no claim {claim}"
    ),
}
