"""The reasons of InterPodAffinity's refusals."""

from trireme.framework.reason_codes import ReasonCode

REASONS = {
    "podAffinity": ReasonCode("No pod that the required affinity names is in the topology domain."),
    "podAntiAffinity": ReasonCode("A pod that the required anti-affinity names is in the topology domain."),
    "existingPodsAntiAffinity": ReasonCode(
        "The required anti-affinity of a pod in the topology domain names this pod."
    ),
    "invalidTerm": ReasonCode("A term of the affinity cannot be read; the message says why."),
}
