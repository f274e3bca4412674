"""The reasons of GangScheduling's refusals."""

from trireme.framework.reason_codes import Kind, ReasonCode

REASONS = {
    "minimumNotMet": ReasonCode(
        "Fewer pods of the group fit than it requires, or groups of a group of groups.",
        {
            "required": Kind.NUMBER,
            "scheduled": Kind.NUMBER,
            "unschedulable": Kind.NUMBER,
            "notEvaluated": Kind.NUMBER,
        },
        "{scheduled} of {required} fit",
    ),
}
