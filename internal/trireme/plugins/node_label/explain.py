"""The reasons of NodeLabel's refusals."""

from trireme.framework.reason_codes import Kind, ReasonCode

REASONS = {
    "labelMissing": ReasonCode(
        "The node has not a label that it has to have.", {"label": Kind.LABEL_KEY}, "has no label {label}"
    ),
    "labelForbidden": ReasonCode(
        "The node has a label that it must not have.", {"label": Kind.LABEL_KEY}, "has the label {label}"
    ),
}
