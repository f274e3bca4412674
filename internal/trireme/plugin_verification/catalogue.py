"""All specifications, in the order of their numbers.

Tests: tests/unit/plugin_verification/test_specifications.py.
"""

from collections.abc import Sequence
from types import ModuleType

from trireme.plugin_verification import (
    binding_specifications,
    column_specifications,
    configuration_specifications,
    copy_specifications,
    fencing_specifications,
    filter_step_specifications,
    handshake_specifications,
    node_answer_specifications,
    pod_group_specifications,
    queue_specifications,
    score_specifications,
    status_specifications,
    stream_specifications,
    transport_specifications,
)
from trireme.plugin_verification.specification import Specification

_MODULES: Sequence[ModuleType] = (
    handshake_specifications,
    configuration_specifications,
    fencing_specifications,
    column_specifications,
    status_specifications,
    node_answer_specifications,
    score_specifications,
    copy_specifications,
    filter_step_specifications,
    binding_specifications,
    queue_specifications,
    pod_group_specifications,
    transport_specifications,
    stream_specifications,
)


def _collect() -> tuple[Specification, ...]:
    found = [value for module in _MODULES for value in vars(module).values() if isinstance(value, Specification)]
    return tuple(sorted(found, key=lambda each: each.number))


SPECIFICATIONS = _collect()
