"""The reasons of DynamicResources's refusals."""

from trireme.framework.reason_codes import Kind, ReasonCode

REASONS = {
    "claim": ReasonCode(
        "A claim for devices cannot be used, or its devices are not to be had there; the message says which."
    ),
    "insufficientResource": ReasonCode(
        "The node has not enough left of a resource that the claimed devices stand for.",
        {"resource": Kind.RESOURCE},
        "{resource} is short",
    ),
    "podResources": ReasonCode("The requests of the pod as a whole do not cover those of its claims."),
}
