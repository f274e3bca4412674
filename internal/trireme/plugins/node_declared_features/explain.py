"""The reasons of NodeDeclaredFeatures's refusals.

The plugin's `filter.py` gives a reason its code and its parameters.

Tests: tests/unit/project/test_reason_codes.py.
"""

from trireme.framework.reason_codes import Kind, ReasonCode

REASONS = {
    "declaredFeatures": ReasonCode(
        "The node does not declare features that the pod needs.", {"needed": Kind.FEATURES}, "needs {needed}"
    ),
}
