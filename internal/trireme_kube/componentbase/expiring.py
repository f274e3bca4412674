"""A small cache whose entries end: what a review said is believed for some seconds."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

MAX_ENTRIES = 4096


class Expiring(Generic[Key, Value]):
    """Keeps at most `MAX_ENTRIES`; what was put in first goes first."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._entries: OrderedDict[Key, tuple[float, Value]] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        """The value, unless its time is over."""
        entry = self._entries.get(key)
        if entry is None or entry[0] <= self._clock():
            return None
        return entry[1]

    def put(self, key: Key, value: Value, seconds: float) -> None:
        """Keep a value for so long."""
        self._entries.pop(key, None)
        while len(self._entries) >= MAX_ENTRIES:
            self._entries.popitem(last=False)
        self._entries[key] = (self._clock() + seconds, value)
