"""The reasons of NodeResourcesFit's refusals.

The plugin's `filter.py` gives a reason its code and its parameters.

Tests: tests/unit/project/test_reason_codes.py.
"""

from collections.abc import Mapping

from trireme.framework import amount_words
from trireme.framework.reason_codes import Kind, ReasonCode


def _requested(parameters: Mapping[str, str]) -> str:
    """The pod's request, with its unit."""
    return f"{amount_words.amount(parameters['resource'], parameters['asked'])} requested"


REASONS = {
    "insufficientResource": ReasonCode(
        "The node has not enough left of a resource.", {"resource": Kind.RESOURCE, "asked": Kind.QUANTITY}, _requested
    ),
    "tooManyPods": ReasonCode("The node has as many pods as it takes."),
}
