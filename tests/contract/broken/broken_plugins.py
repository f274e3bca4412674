"""All broken plugins, each of which violates one specification."""

from collections.abc import Sequence

from tests.contract.broken import (
    broken_answers,
    broken_calls,
    broken_filters,
    broken_followers,
    broken_handshake,
    broken_services,
    broken_steps,
)
from tests.contract.broken.reference_plugin import ReferencePlugin


def _collect() -> Sequence[type[ReferencePlugin]]:
    """The classes of all modules that name a specification, and those made in tables."""
    modules = (broken_handshake, broken_calls, broken_filters, broken_steps, broken_services, broken_followers)
    values = [value for module in modules for value in vars(module).values()]
    named = [value for value in values if isinstance(value, type) and getattr(value, "violates", "")]
    return [*named, *broken_answers.PLUGINS, *broken_filters.PLUGINS, *broken_handshake.PLUGINS]


PLUGINS = _collect()
