"""Lists that were started over: objects that are missing in the new list are gone.

Tests: tests/unit/scheduling/test_event_handlers.py.
"""

from collections.abc import Callable
from typing import Any

from trireme_kube.client.informers.watch import EventKind


class RelistTracker:
    """The objects seen in each list that is under way, by the name of their kind."""

    def __init__(self) -> None:
        self._seen: dict[str, set[Any]] = {}

    def seen_keys(self, name: str) -> set[Any]:
        """The keys seen in the list so far; the caller may add to it."""
        return self._seen.get(name, set())

    def add(self, name: str, key: Any) -> None:
        """Record that the list contains the object."""
        self._seen.setdefault(name, set()).add(key)

    def on_list_marker(
        self, kind: EventKind, name: str, known: Callable[[], set[Any]], remove: Callable[[Any], None]
    ) -> None:
        """A list starts, or ends: then remove those `known` objects that it does not contain."""
        if kind == EventKind.LIST_START:
            self._seen[name] = set()
        elif kind == EventKind.LIST_END:
            for gone in known() - self._seen.pop(name, set()):
                remove(gone)
