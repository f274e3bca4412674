"""Finds what a process still knows of pods and nodes that are gone: what it keeps must be bounded by what exists."""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterator
from typing import Any

# So many entries of what is gone may be left in a container, for what is dropped with the next change.
TOLERATED = 10
# Types of objects that contain no others.
_LEAVES = frozenset((str, int, float, bool, bytes, type(None)))
# These hold so many entries at most, or twice as many as there are in use, however many there were.
_BOUNDED = (
    "trireme.queueing.transition_log",
    "trireme.snapshot.dictionary",
    "trireme.snapshot.placement_log",
    "trireme_kube.client.events",
)
_BOUNDED_FIELDS = ("ObjectTable._log",)


def containers_of_what_is_gone(root: Any, gone: Collection[str]) -> list[str]:
    """The containers reachable from `root` with entries of what is gone, by UID, key or name, and how many."""
    found = []
    for path, keys in _containers(root):
        number = sum(_is_of(key, gone) for key in keys)
        if number > TOLERATED:
            found.append(f"{path} has {number} of what is gone")
    return found


def _is_of(key: Any, gone: Collection[str]) -> bool:
    """Whether an entry is of something that is gone: its key is that, or has it among its parts."""
    if isinstance(key, str):
        return key in gone
    return isinstance(key, tuple) and any(isinstance(part, str) and part in gone for part in key)


def _containers(root: Any) -> Iterator[tuple[str, Collection[Any]]]:
    """All dictionaries and sets, by the names that lead to them."""
    seen: set[int] = set()
    waiting = collections.deque([("", root)])
    while waiting:
        path, each = waiting.popleft()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, dict):
            yield path, each.keys()
            waiting.extend((f"{path}[]", value) for value in each.values() if type(value) not in _LEAVES)
        elif isinstance(each, (set, frozenset)):
            yield path, each
        elif isinstance(each, (list, tuple, collections.deque)):
            waiting.extend((f"{path}[]", value) for value in each if type(value) not in _LEAVES)
        elif (module := type(each).__module__).startswith("trireme") and not module.startswith(_BOUNDED):
            owner = type(each).__name__
            fields = ((name, value) for name, value in _fields(each) if f"{owner}.{name}" not in _BOUNDED_FIELDS)
            waiting.extend((f"{path}.{name}", value) for name, value in fields)


def _fields(each: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(each, "__dict__", {}).items()
    for owner in type(each).__mro__:
        names = owner.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if hasattr(each, name):
                yield name, getattr(each, name)
