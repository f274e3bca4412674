"""The reasons of TaintToleration's refusals in words."""

from collections.abc import Mapping


def _taint(parameters: Mapping[str, str]) -> str:
    """The taint as `kubectl taint` writes it."""
    value = f"={parameters['value']}" if parameters["value"] else ""
    return f"{parameters['key']}{value}:{parameters['effect']}"


TEXTS = {"untoleratedTaint": _taint}
