"""Waiting until one of some objects changes.

A waiter first calls a plugin, which reads the objects and returns the ones to wait for; a change between that read and
the plugin's response must not be missed. So changes are recorded while there are interested callers, and each waits for
a change after the moment at which its call started. What all of them have seen, or are about to hear of, is dropped.

Tests: tests/unit/cache/test_object_waits.py, tests/unit/scheduling/test_waits.py.
"""

import asyncio
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

Key = tuple[str, str, str]  # kind, namespace, name

# Records are looked through for those that nobody needs once there are so many, and twice as many as were needed then.
MIN_RECORDS = 1000


class ObjectWaits:
    """Lets callers wait for changes of objects. Changes are numbered only while somebody is interested."""

    def __init__(self) -> None:
        self._recordings: set[Recording] = set()
        self.latest = 0
        self._changes: dict[Key, int] = {}
        self._all_changed = 0
        self._drop_at = MIN_RECORDS
        self._waiting: dict[Key, dict[asyncio.Event, None]] = {}

    def __len__(self) -> int:
        """The number of objects whose last change is recorded."""
        return len(self._changes)

    def record(self, keys: Iterable[Key]) -> None:
        """Record that these objects changed or were deleted."""
        if not self._recordings:
            return
        for key in keys:
            self.latest += 1
            self._changes[key] = self.latest
            for event in self._waiting.get(key, ()):
                event.set()
        if len(self._changes) > self._drop_at:
            self._drop_changes_until(min(recording.since for recording in self._recordings))

    def record_all(self) -> None:
        """Record that any object may have changed: a list that was started over does not say what it leaves out."""
        self.latest += 1
        self._all_changed = self.latest
        for events in self._waiting.values():
            for event in events:
                event.set()

    @contextmanager
    def record_changes(self) -> "Iterator[Recording]":
        """Record changes within the block, for one caller."""
        recording = Recording(self)
        self._recordings.add(recording)
        try:
            yield recording
        finally:
            self._recordings.remove(recording)
            if not self._recordings:
                self._drop_changes_until(math.inf)

    def changed_since(self, keys: Iterable[Key], number: float) -> bool:
        """Whether one of the objects has changed after the change with that number."""
        return self._all_changed > number or any(self._changes.get(key, 0) > number for key in keys)

    async def wait_for_next_change(self, keys: Iterable[Key]) -> None:
        """Return once one of the objects changes from now on."""
        awaited = sorted(set(keys))  # as a set has no order, and waiters are woken in theirs
        event = asyncio.Event()
        for key in awaited:
            self._waiting.setdefault(key, {})[event] = None
        try:
            await event.wait()
        finally:
            for key in awaited:
                del self._waiting[key][event]
                if not self._waiting[key]:
                    del self._waiting[key]

    def _drop_changes_until(self, number: float) -> None:
        """Drop the changes up to this number: no caller records since before it."""
        self._changes = {key: change for key, change in self._changes.items() if change > number}
        self._drop_at = max(MIN_RECORDS, 2 * len(self._changes))


class Recording:
    """The changes that one caller has to hear of."""

    def __init__(self, waits: ObjectWaits) -> None:
        self._waits = waits
        # The number of the last change that does not count.
        self.since: float = waits.latest

    def start_over(self) -> None:
        """Changes count from now on, and no more those before."""
        self.since = self._waits.latest

    async def wait_for_change(self, keys: Iterable[Key]) -> None:
        """Return once one of the objects has changed since the recording started. It has to be started over then."""
        awaited = set(keys)
        changed = self._waits.changed_since(awaited, self.since)
        self.since = math.inf  # from here on the caller hears of changes at once
        if not changed:
            await self._waits.wait_for_next_change(awaited)
