"""Resource names as numbers, and vectors of amounts over them.

Units: cpu in millicores; everything else in the resource's own unit (bytes, pieces). All int64.

Also change: internal/trireme/plugins/node_resources_fit/filter.py (resources with fixed numbers).

Tests: tests/unit/snapshot/test_columns.py.
"""

from collections.abc import Mapping

import numpy as np

from trireme.snapshot import arrays

CPU = 0
MEMORY = 1
EPHEMERAL_STORAGE = 2
FIRST_SCALAR = 3

_FIXED = ("cpu", "memory", "ephemeral-storage")


class ResourceNames:
    """Numbers of the resources of nodes and classes: three fixed ones, then scalars in order of appearance."""

    __slots__ = ("_numbers", "names")

    def __init__(self) -> None:
        self.names: list[str] = list(_FIXED)
        self._numbers: dict[str, int] = {name: number for number, name in enumerate(_FIXED)}

    def __len__(self) -> int:
        return len(self.names)

    def intern(self, name: str) -> int:
        """Return the resource's number, a new one if it has none."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.names)
            self.names.append(name)
        return number

    def find(self, name: str) -> int | None:
        """The resource's number; None for an unknown resource."""
        return self._numbers.get(name)

    def vector(self, amounts: Mapping[str, int]) -> arrays.Int64Array:
        """Convert amounts to a vector over all resources, interning new names. Shape: (resource,)."""
        pairs = [(self.intern(name), amount) for name, amount in amounts.items()]
        out = np.zeros(len(self.names), dtype=np.int64)
        for number, amount in pairs:
            out[number] = amount
        return out
