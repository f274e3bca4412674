"""A small collection of objects: key to decoded object, updated by an informer's events.

An informer stores nothing. This is an optional consumer of its events, for kinds with few objects that are looked up by
name; the cluster cache consumes the events of nodes and pods itself. As every consumer must, the collection drops the
objects that a list did not contain.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar

from trireme_kube.client.informers.watch import Event, EventKind

T = TypeVar("T")


class Change(NamedTuple, Generic[T]):
    """One change of the collection. `old` None: added; `new` None: deleted."""

    key: str
    old: T | None
    new: T | None


class SmallCollection(Generic[T]):
    """Objects by key, `namespace/name` or `name`. Single-threaded."""

    def __init__(
        self, key_of: Callable[[T], str], on_changes: Callable[[Sequence[Change[T]]], None] | None = None
    ) -> None:
        """`on_changes` is called after the collection has applied a batch of events, with the changes."""
        self._key_of = key_of
        self._on_changes = on_changes
        self._objects: dict[str, T] = {}
        self._listed_keys: set[str] | None = None  # keys of the list under way

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def get(self, key: str) -> T | None:
        """The object, if it exists."""
        return self._objects.get(key)

    def by_key(self) -> Mapping[str, T]:
        """All objects, as a live view; do not hold it across an await."""
        return self._objects

    def on_events(self, events: Sequence[Event[T]]) -> None:
        """Apply an informer's events."""
        changes: list[Change[T]] = []
        for kind, obj in events:
            if kind is EventKind.LIST_START:
                self._listed_keys = set()
            elif kind is EventKind.LIST_END:
                changes.extend(self._drop_unlisted())
            elif obj is not None:
                changes.append(self._apply_event(kind, obj))
        if self._on_changes is not None and changes:
            self._on_changes(changes)

    def _apply_event(self, kind: EventKind, obj: T) -> Change[T]:
        """Apply an event of one object; return the change."""
        key = self._key_of(obj)
        if kind is EventKind.DELETED:
            return Change(key, self._objects.pop(key, obj), None)
        if kind is EventKind.LISTED and self._listed_keys is not None:
            self._listed_keys.add(key)
        old = self._objects.get(key)
        self._objects[key] = obj
        return Change(key, old, obj)

    def _drop_unlisted(self) -> list[Change[T]]:
        """Delete what the finished list did not have; return the changes."""
        keys, self._listed_keys = self._listed_keys or set(), None
        deleted = [key for key in self._objects if key not in keys]
        return [Change(key, self._objects.pop(key), None) for key in deleted]
