"""What pods request and nodes have, in cores and bytes: as much of the arithmetic as a plugin for batch pods needs.

Also change: examples/learned-score-python/node_features.py (how requests are counted).
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from trireme.v1 import core_pb2

Amounts = dict[str, Decimal]

RESOURCES = ("cpu", "memory")

_SUFFIXES = {
    "": Decimal(1),
    "n": Decimal(10) ** -9,
    "u": Decimal(10) ** -6,
    "m": Decimal(10) ** -3,
    **{suffix: Decimal(10) ** (3 * power) for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    **{suffix: Decimal(2) ** (10 * power) for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
}


def quantity(text: str) -> Decimal:
    """The number that a quantity such as `250m` or `1Gi` stands for. Raises: ArithmeticError, KeyError."""
    number = text.rstrip("numkKMGTPEi")
    return Decimal(number) * _SUFFIXES[text[len(number) :]]


def amounts_of(quantities: Mapping[str, Any]) -> Amounts:
    """The resources that count."""
    return {name: quantity(quantities[name].string) if name in quantities else Decimal(0) for name in RESOURCES}


def total(parts: Iterable[Amounts]) -> Amounts:
    """All together."""
    out = dict.fromkeys(RESOURCES, Decimal(0))
    for part in parts:
        for name in RESOURCES:
            out[name] += part[name]
    return out


def of_pod(pod: core_pb2.Pod) -> Amounts:
    """What a pod requests: its containers together, or the most that an init container needs, and its overhead."""
    inits = [
        (each.restart_policy == "Always", amounts_of(each.resources.requests)) for each in pod.spec.init_containers
    ]
    containers = [amounts_of(each.resources.requests) for each in pod.spec.containers]
    running = total([*containers, *(amounts for sidecar, amounts in inits if sidecar)])
    most = {name: max([running[name], *(amounts[name] for _, amounts in inits)]) for name in RESOURCES}
    return total([most, amounts_of(pod.spec.overhead)])
