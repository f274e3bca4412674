"""A small cache whose entries expire: the outcome of a review is valid for some seconds.

Tests: tests/unit/componentbase/server/test_access.py.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

MAX_ENTRIES = 4096


class ExpiringCache(Generic[Key, Value]):
    """Stores at most `MAX_ENTRIES`, and drops the oldest first."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: OrderedDict[Key, tuple[float, Value]] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        """The value, unless it has expired."""
        entry = self._entries.get(key)
        if entry is None or entry[0] <= self._clock():
            return None
        return entry[1]

    def put(self, key: Key, value: Value, seconds: float) -> None:
        """Store a value for so long."""
        self._entries.pop(key, None)
        while len(self._entries) >= MAX_ENTRIES:
            self._entries.popitem(last=False)
        self._entries[key] = (self._clock() + seconds, value)
