"""Finds what a frontend still knows of pods that are gone: what it keeps must be bounded by what exists."""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterator
from typing import Any

# So many entries of pods that are gone may be left, for what is dropped with the next change.
TOLERATED = 10
# Types of objects that contain no others.
_LEAVES = frozenset((str, int, float, bool, bytes, type(None)))
# These hold so many entries at most, however many pods there were.
_BOUNDED = ("trireme.queueing.transition_log", "trireme_kube.client.events")


def containers_of_gone_pods(root: Any, gone: Collection[str]) -> list[str]:
    """The containers reachable from `root` with entries of pods that are gone, by their UIDs, and how many."""
    found = []
    for path, keys in _containers(root):
        number = sum(isinstance(key, str) and key in gone for key in keys)
        if number > TOLERATED:
            found.append(f"{path} has {number} of pods that are gone")
    return found


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
            waiting.extend((f"{path}.{name}", value) for name, value in _fields(each))


def _fields(each: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(each, "__dict__", {}).items()
    for owner in type(each).__mro__:
        names = owner.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if hasattr(each, name):
                yield name, getattr(each, name)
