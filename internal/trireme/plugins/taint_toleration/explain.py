"""The reasons of TaintToleration's refusals."""

from collections.abc import Mapping

from trireme.framework.reason_codes import Kind, ReasonCode


def _taint(parameters: Mapping[str, str]) -> str:
    """The taint as `kubectl taint` writes it."""
    value = f"={parameters['value']}" if parameters["value"] else ""
    return f"{parameters['key']}{value}:{parameters['effect']}"


REASONS = {
    "untoleratedTaint": ReasonCode(
        "The node has a taint that the pod does not tolerate: the first one of these.",
        {"key": Kind.TAINT_KEY, "value": Kind.TAINT_VALUE, "effect": Kind.TAINT_EFFECT},
        _taint,
    ),
}
