"""The reasons of NodeResourcesFit's refusals in words."""

from collections.abc import Mapping

from trireme.framework import amount_words


def _requested(parameters: Mapping[str, str]) -> str:
    """What the pod requests, with its unit."""
    return f"{amount_words.amount(parameters['resource'], parameters['asked'])} requested"


TEXTS = {"insufficientResource": _requested}
