"""The reasons of DynamicResources's refusals."""

from trireme.framework.reason_codes import Kind, ReasonCode

REASONS = {
    "claim": ReasonCode(
        "A claim for devices cannot be used; the message says why. Where there is no claim yet, `claim` names the entry"
        " in the pod's spec.resourceClaims.",
        {"claim": Kind.CLAIM},
        "claim {claim}",
    ),
    "claimReleased": ReasonCode(
        "A claim that the pod, or its group, cannot use is given back: the next attempt finds it free."
    ),
    "noClaimToRelease": ReasonCode("No claim that is given back would help the pod, or its group."),
    "claimNotAvailable": ReasonCode("The devices of an allocated claim cannot be used from the node."),
    "deviceClassNotFound": ReasonCode(
        "A request names a device class that does not exist.", {"deviceClass": Kind.DEVICE_CLASS}, "class {deviceClass}"
    ),
    "devices": ReasonCode("The node does not have the devices that the claims request."),
    "extendedResource": ReasonCode("The node has neither devices nor amounts for an extended resource."),
    "staleClaim": ReasonCode("The claim of an earlier attempt, for extended resources, has to be deleted first."),
    "insufficientResource": ReasonCode(
        "The node has not enough left of a resource that the claimed devices stand for.",
        {"resource": Kind.RESOURCE},
        "{resource} is short",
    ),
    "podResources": ReasonCode("The requests of the pod as a whole do not cover those of its claims."),
}
