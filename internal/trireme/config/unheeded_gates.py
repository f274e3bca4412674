"""Feature gates that kube-scheduler obeys and Trireme does not: who sets one is told so at the start.

What only decides *how* kube-scheduler does a thing, and not what comes of it, is not here; `gate_effects` has both.
"""

from collections.abc import Iterator

from trireme.config import gate_effects
from trireme.config.gates import FeatureGates


def warnings(gates: FeatureGates) -> Iterator[str]:
    """What to tell who chose a value that has no effect."""
    chosen = gates.chosen or {}
    for gate, row in gate_effects.rows().items():
        if row.unheeded is not None and chosen.get(gate) == row.unheeded:
            yield f"feature gate {gate}={str(row.unheeded).lower()} has no effect: {row.text}"
