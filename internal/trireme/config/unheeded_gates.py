"""Feature gates that kube-scheduler obeys and Trireme does not: who sets one is told so at the start.

A gate that is accepted and then ignored would be a promise broken in silence. What only decides *how* kube-scheduler
does a thing, and not what comes of it, is not here; docs/feature-gates.md has both.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from trireme.config.gates import FeatureGates

#: By gate: the value that is not heeded, and what happens instead.
UNHEEDED: Final[Mapping[str, tuple[bool, str]]] = {
    "DRANodeAllocatableResources": (True, "devices do not count as the node's resources"),
}


def warnings(gates: FeatureGates) -> Iterator[str]:
    """What to tell who chose a value that is not heeded."""
    there = gates.all()
    for name, (value, instead) in UNHEEDED.items():
        if there.get(name) == value:
            yield f"feature gate {name}={str(value).lower()} has no effect: {instead}"
