"""The reasons of NodeDeclaredFeatures's refusals."""

from trireme.framework.reason_codes import Kind, ReasonCode

REASONS = {
    "declaredFeatures": ReasonCode(
        "The node does not declare features that the pod needs.", {"needed": Kind.FEATURES}, "needs {needed}"
    ),
}
