"""Waiting until one of some objects changes.

Whoever waits first asks a plugin, which reads the objects itself and says which ones it waits for; a change between
its reading and its answer must not be missed. So changes are numbered from when the first of them asks, and each waits
for a change after the number at which it asked.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

Key = tuple[str, str, str]  # kind, namespace, name


class ObjectWaits:
    """Changes of objects while somebody is interested in any."""

    def __init__(self) -> None:
        self._interested = 0
        self._number = 0
        self._changed: dict[Key, int] = {}
        self._waiting: dict[Key, set[asyncio.Event]] = {}

    def touched(self, keys: Iterable[Key]) -> None:
        """These objects changed, or are gone."""
        if not self._interested:
            return
        for key in keys:
            self._number += 1
            self._changed[key] = self._number
            for event in self._waiting.get(key, ()):
                event.set()

    @contextmanager
    def interested(self) -> Iterator[None]:
        """While inside, no change is missed."""
        self._interested += 1
        try:
            yield
        finally:
            self._interested -= 1
            if not self._interested:
                self._changed.clear()

    def now(self) -> int:
        """The number of the last change: what comes later has a higher one."""
        return self._number

    async def changed(self, keys: Iterable[Key], after: int) -> None:
        """Return once one of the objects has changed after that number. Only for who is interested."""
        watched = set(keys)
        if any(self._changed.get(key, 0) > after for key in watched):
            return
        event = asyncio.Event()
        for key in watched:
            self._waiting.setdefault(key, set()).add(event)
        try:
            await event.wait()
        finally:
            for key in watched:
                self._waiting[key].discard(event)
                if not self._waiting[key]:
                    del self._waiting[key]
