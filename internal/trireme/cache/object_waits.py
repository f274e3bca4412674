"""Waiting until one of some objects changes.

A waiter first calls a plugin, which reads the objects and returns the ones to wait for; a change between that read and
the plugin's response must not be missed. So changes are numbered while there are interested callers, and each waits for
a change after the number at which its call started.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

Key = tuple[str, str, str]  # kind, namespace, name


class ObjectWaits:
    """Numbers changes of objects while there are interested callers."""

    def __init__(self) -> None:
        self._recorders = 0
        self._number = 0
        self._changes: dict[Key, int] = {}
        self._waiting: dict[Key, set[asyncio.Event]] = {}

    def record(self, keys: Iterable[Key]) -> None:
        """Record that these objects changed or were deleted."""
        if not self._recorders:
            return
        for key in keys:
            self._number += 1
            self._changes[key] = self._number
            for event in self._waiting.get(key, ()):
                event.set()

    @contextmanager
    def record_changes(self) -> Iterator[None]:
        """Record changes within the block."""
        self._recorders += 1
        try:
            yield
        finally:
            self._recorders -= 1
            if not self._recorders:
                self._changes.clear()

    def latest_change(self) -> int:
        """The number of the last change; later ones get higher numbers."""
        return self._number

    async def wait_for_change(self, keys: Iterable[Key], after: int) -> None:
        """Return once one of the objects has changed after that number. Call it within `recording`."""
        awaited = set(keys)
        if any(self._changes.get(key, 0) > after for key in awaited):
            return
        event = asyncio.Event()
        for key in awaited:
            self._waiting.setdefault(key, set()).add(event)
        try:
            await event.wait()
        finally:
            for key in awaited:
                self._waiting[key].discard(event)
                if not self._waiting[key]:
                    del self._waiting[key]
