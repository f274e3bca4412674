"""Warnings about feature gates that kube-scheduler implements and Trireme does not.

Gates that only decide *how* kube-scheduler does something, and not the result, are not here; `gate_effects` has both.
"""

from collections.abc import Iterator

from trireme.config import gate_effects
from trireme.config.gates import FeatureGates


def warnings(gates: FeatureGates) -> Iterator[str]:
    """The warnings for gates set to a value that has no effect."""
    values = gates.values or {}
    for gate, row in gate_effects.rows_by_gate().items():
        if row.ineffective is not None and values.get(gate) == row.ineffective:
            yield f"feature gate {gate}={str(row.ineffective).lower()} has no effect: {row.text}"
