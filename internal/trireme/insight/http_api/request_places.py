"""Bounds how many requests there are at once, and keeps one caller from using all that there may be.

A caller gets another place while it has fewer than a quarter of the free ones. Alone it can use a fifth of all; with
more callers the share of each shrinks, and it takes some twenty who send all they can to use all places. So a caller
who sends any number of requests delays others, and does not shut them out.
"""

import contextlib
from collections import Counter
from collections.abc import Hashable, Iterator

# One caller may have a quarter of the free places.
_SHARE = 4


class NoPlaceLeft(Exception):
    """The caller has as many requests under way as it may have now, or all places are in use."""


class RequestPlaces:
    """So many places, each for one request."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._held: Counter[Hashable] = Counter()
        self._in_use = 0

    @property
    def in_use(self) -> int:
        """How many requests there are now."""
        return self._in_use

    @contextlib.contextmanager
    def place_for(self, caller: Hashable) -> Iterator[None]:
        """Have a place within the block. Raises: NoPlaceLeft."""
        if self._held[caller] * _SHARE >= self._total - self._in_use:
            raise NoPlaceLeft
        self._held[caller] += 1
        self._in_use += 1
        try:
            yield
        finally:
            self._in_use -= 1
            self._held[caller] -= 1
            if not self._held[caller]:
                del self._held[caller]
