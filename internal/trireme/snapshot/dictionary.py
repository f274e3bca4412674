"""Dictionary encoding: each distinct value gets a small number, so that predicates run once per distinct value.

Numbers are never reused, since caches index by them. 0 always means *absent*.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value", bound=Hashable)

ABSENT = 0


class Dictionary(Generic[Value]):
    """Values and their numbers, from 1."""

    __slots__ = ("_ids", "_values")

    def __init__(self) -> None:
        self._ids: dict[Value, int] = {}
        self._values: list[Value] = []

    def __len__(self) -> int:
        """The length of a table over all numbers, ABSENT included."""
        return len(self._values) + 1

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
