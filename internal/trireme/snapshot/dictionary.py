"""Dictionary encoding: each distinct value gets a small number, so that predicates run once per distinct value.

A dictionary never gives a number to a second value, since caches index by them. 0 always means *absent*. Where values
come and go, as names of nodes do, its owner replaces it by another one, without the values that are out of use, and
renumbers its column. Then a cache by number is to be made anew: it belongs to one dictionary, or ends when a node
changes, for only then are columns renumbered.

Tests: tests/unit/snapshot/test_columns.py.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

import numpy as np

from trireme.snapshot import arrays

Value = TypeVar("Value", bound=Hashable)

ABSENT = 0

# A dictionary is crowded once it has so many values beyond twice those that it began with.
SLACK = 64


class Dictionary(Generic[Value]):
    """Values and their numbers, from 1."""

    __slots__ = ("_ids", "_uncrowded", "_values")

    def __init__(self) -> None:
        self._ids: dict[Value, int] = {}
        self._values: list[Value] = []
        # With so many values it is not crowded.
        self._uncrowded = SLACK

    def __len__(self) -> int:
        """The length of a table over all numbers, ABSENT included."""
        return len(self._values) + 1

    @property
    def is_crowded(self) -> bool:
        """Whether many values may be out of use: to replace it then costs little for each value that came."""
        return len(self._values) > self._uncrowded

    def without_unused(self, column: arrays.Int32Array) -> tuple["Dictionary[Value]", arrays.Int32Array]:
        """A dictionary of the values whose numbers are in the column, and the new number of each of these.

        Shapes: column (n,), new numbers (number,).
        """
        out: Dictionary[Value] = Dictionary()
        renumbering = np.zeros(len(self), dtype=np.int32)
        for number in np.unique(column).tolist():
            if number != ABSENT:
                renumbering[number] = out.intern(self.value(number))
        out._uncrowded = 2 * len(out._values) + SLACK
        return out, renumbering

    def intern(self, value: Value) -> int:
        """Return the value's number, a new one if it has none."""
        number = self._ids.get(value)
        if number is None:
            self._values.append(value)
            number = self._ids[value] = len(self._values)
        return number

    def find(self, value: Value) -> int:
        """The value's number, or ABSENT."""
        return self._ids.get(value, ABSENT)

    def value(self, number: int) -> Value:
        """The value of a number above ABSENT."""
        return self._values[number - 1]

    def values_from(self, number: int) -> list[Value]:
        """The values from `number` on, in order, to extend a cached table."""
        return self._values[number - 1 :]
